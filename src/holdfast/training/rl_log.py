"""steps.jsonl of an RL run: TRL's figures of a step, what the observer saw in its rollouts, and where the time went."""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from transformers import TrainerCallback

from holdfast.records.rl_steps import TRAINER_FIGURES, seconds_name
from holdfast.training.step_log import StepLog

TIMED = {"rollout": "_generate", "reward": "_calculate_rewards", "scoring": "_generate_and_score_completions"}
"""Parts of a step, and the methods of TRL's trainer that they are."""


@dataclass
class Watch:
    """What a batch of rollouts was, between the sampler, the reward and the log; and what took how long."""

    figures: dict[str, float] = field(default_factory=dict)
    seconds: defaultdict[str, float] = field(
        default_factory=lambda: defaultdict(float)
    )  # since the last row of the log

    def time(self, trainer: Any) -> None:
        """Watch the trainer's clock. Scoring holds the rewards and the log-probabilities under policy and reference."""
        for name, method in TIMED.items():
            setattr(trainer, method, self._timed(name, getattr(trainer, method)))

    def _timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds[name] += time.perf_counter() - started

        return timed

    def row(self, num_steps: int) -> dict[str, float]:
        """Seconds of a step by part, the mean of so many; counted anew from here."""
        spent, self.seconds = self.seconds, defaultdict(float)
        spent["scoring"] -= spent["rollout"]  # it is the whole of what comes before the update
        return {seconds_name(name): round(spent[name] / num_steps, 3) for name in TIMED}


class RlLog(TrainerCallback):
    """steps.jsonl: TRL's figures, the observer's, and where the time went."""

    def __init__(self, log: StepLog, watch: Watch) -> None:
        self.log, self.watch, self.last_step = log, watch, 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The clock counts from here."""
        self.last_step = state.global_step

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """One row per logged step, from one process of several."""
        if not logs or "reward" not in logs or not state.is_world_process_zero:
            return
        row = {name: logs[name] for name in TRAINER_FIGURES if logs.get(name) is not None}
        times = self.watch.row(max(1, state.global_step - self.last_step))
        self.last_step = state.global_step
        self.log.append({"step": state.global_step, **row, **self.watch.figures, **times})
