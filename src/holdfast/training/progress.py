"""Trainer callbacks: a progress bar with plain NLL beside the loss, a Ctrl-C that saves first, and what the caller's own need."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import SaveStrategy

from holdfast.config import InputError


class ProgressBar(TrainerCallback):
    """Steps, rate and time left, on the main process only."""

    def __init__(self, title: str, enabled: bool = True) -> None:
        self.title, self.enabled = title, enabled
        self.progress: Progress | None = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Begin where a resumed run stands."""
        if not (self.enabled and state.is_world_process_zero):
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        figures = (TextColumn("{task.fields[figures]}"), TimeRemainingColumn(elapsed_when_finished=True))
        self.progress = Progress(*columns, *figures, console=Console(stderr=True), transient=False)
        self.progress.start()
        self.task = self.progress.add_task(self.title, total=state.max_steps, completed=state.global_step, figures="")

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """One step further."""
        if self.progress:
            self.progress.update(self.task, completed=state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        """Show the newest figures."""
        if self.progress and logs and "nll" in logs:
            self.progress.update(self.task, figures=f"loss {logs['loss']:.4f}  nll {logs['nll']:.4f}")

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop drawing; the last line stays."""
        self.close()

    def close(self) -> None:
        """Give the terminal back; also after an error."""
        if self.progress:
            self.progress.stop()
            self.progress = None


class SaveOnInterrupt(TrainerCallback):
    """The first Ctrl-C (or SIGTERM) lets the step finish, saves, and stops; a second one stops at once.

    Python hands signals to the main thread only: in another thread this does nothing.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._before: dict[int, Any] = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True

    def __enter__(self) -> SaveOnInterrupt:
        is_main = threading.current_thread() is threading.main_thread()
        for number in (signal.SIGINT, signal.SIGTERM) if is_main else ():
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop at once if the signal came before the first step: there is nothing to save."""
        if self.interrupted:
            raise KeyboardInterrupt

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Ask Trainer to save and to stop if the signal came during the step."""
        if self.interrupted:
            control.should_save = True
            control.should_training_stop = True

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Ask for both also if the signal came while the step's row was written: the step can still be saved."""
        self.on_step_end(args, state, control)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Stop if it came while the step was being saved."""
        control.should_training_stop |= self.interrupted


class ServeCallbacks(TrainerCallback):
    """Gives the caller's callbacks the state that a checkpoint has of them; logs and saves the step at which one stops the run.

    Trainer itself would put new objects in their places, which the caller does not hold.
    """

    def __init__(self, callbacks: Sequence[TrainerCallback], guard: SaveOnInterrupt) -> None:
        self.guard = guard
        self.by_class: dict[str, list[Any]] = {}
        for callback in callbacks:
            self.by_class.setdefault(type(callback).__name__, []).append(callback)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Restore the attributes. In a new run these are what the callbacks have."""
        states: Any
        for name, states in state.stateful_callbacks.items():  # type: ignore[union-attr]
            states = states if isinstance(states, list) else [states]  # of several callbacks of one class
            for callback, known in zip(self.by_class.get(name, ()), states, strict=False):
                for attribute, value in known["attributes"].items():
                    setattr(callback, attribute, value)

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """The run is Trainer's only epoch: after its last step, or where a callback or a signal has stopped it."""
        if state.global_step < state.max_steps and not self.guard.interrupted:
            if state.global_step == 0:
                raise InputError("a callback stopped the run before its first step: there is no trained model")
            control.should_log = True
            control.should_save = args.save_strategy != SaveStrategy.NO
