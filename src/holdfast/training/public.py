"""``hf.train``: a model and streams, in Python; the rows may be in memory. The command and this write the same files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

from transformers import EarlyStoppingCallback, TrainerCallback

from holdfast.config import InputError, TrainConfig, as_names
from holdfast.config.arguments import check_fields, checked
from holdfast.config.base import user_path
from holdfast.config.loading import validated
from holdfast.data import given_rows, read_rows, traces_in_memory
from holdfast.data.default_prompts import HELD_BY_DEFAULT, KINDS, PREFIX, find_kind
from holdfast.models.load import model_name
from holdfast.records import Trace, Turn, context
from holdfast.training.run import TrainResult, train

Rows = str | Path | Iterable[Mapping[str, Any]]
OTHER_NAMES = {
    "learning_rate": "lr",
    "num_epochs": "epochs",
    "num_train_epochs": "epochs",
    "lr_scheduler_type": "scheduler",
    "optim": "optimizer",
    "max_seq_length": "max_length",
    "save_steps": "save_every",
    "logging_steps": "log_every",
    "save_total_limit": "keep",
    "warmup_ratio": "warmup_steps",
    "bf16": "precision",
    "fp16": "precision",
    "per_device_train_batch_size": "batch_size",
    "gradient_accumulation_steps": "batch_size",
}
"""What other trainers call a setting of ``training:``, and its name here."""


@dataclass(frozen=True)
class Stream:
    """Rows with their own objective, weight and share of every step.

    ``rows``: a list of dicts, a ``datasets.Dataset`` or any iterable (drained once), the path of a file, a hub dataset,
    ``world:...`` or ``prompts:...``. Which columns a row may have: docs/data.md.
    ``vet``: a judge. Where the anchor refuses what a row asks for, that refusal is held instead of learning the row.
    ``weight``: 1 unless given.
    ``hold``: instead of a weight, for prompts under ``distill``: how far the model may drift from its anchor. ``True``, or
    ``{"early": nats per answer, "late": nats per token}`` (docs/objectives/budget.md).
    """

    rows: Rows
    objective: str = "sft"
    options: Mapping[str, Any] = field(default_factory=dict)
    weight: float | None = None
    hold: bool | Mapping[str, float] = False
    share: float = 1.0
    limit: int | None = None
    skip_bad: int = 0
    train_on_prompt: bool = False
    vet: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.objective, str):
            raise InputError(
                f"hf.Stream: objective: expected a name, got a value of type {type(self.objective).__name__};"
                " register yours in holdfast.objectives.REGISTRY by a name"
            )
        check_fields(self, "hf.Stream", Stream)
        if not isinstance(self.rows, str | Path):
            object.__setattr__(self, "rows", given_rows(self.rows, "hf.Stream: rows"))

    def __repr__(self) -> str:
        """Rows in memory are counted, not shown."""
        rows = repr(str(self.rows)) if isinstance(self.rows, str | Path) else f"{len(tuple(self.rows))} in memory"
        more = (f", {name}={getattr(self, name)!r}" for name in ("name", "vet") if getattr(self, name) is not None)
        return f"Stream(rows={rows}, objective={self.objective!r}{''.join(more)})"

    def settings(self) -> dict[str, Any]:
        """As a config has them; rows in memory are read here, and named by their count and contents."""
        settings = self._own()
        if isinstance(self.rows, str | Path):
            return {**settings, "data": str(self.rows)}
        if not self.rows:
            raise InputError("hf.Stream: expected at least one row, got no rows")
        dataset = read_rows(self.rows, skip_bad=self.skip_bad, limit=self.limit)
        return {**settings, "data": dataset.source, "rows": dataset}

    def _own(self) -> dict[str, Any]:
        """Every setting but the rows; a weight only if it was given, since ``hold`` stands instead of one."""
        settings = {
            name: value for name, value in vars(self).items() if name != "rows" and (name, value) != ("weight", None)
        }
        return {
            **settings,
            "options": dict(self.options),
            "hold": self.hold if isinstance(self.hold, bool) else dict(self.hold),
        }


@dataclass(frozen=True, repr=False)
class _Prompts(Stream):
    """Prompts in memory, answered by the anchor when the run begins."""

    def settings(self) -> dict[str, Any]:
        if not self.rows:
            raise InputError("hf.held: expected at least one prompt, got an empty list")
        texts: list[str] = []
        for text in cast("Iterable[object]", self.rows):
            if not isinstance(text, str):
                raise InputError(f"hf.held: expected a list of texts, got a {type(text).__name__} in it")
            texts.append(text)
        if set(texts) <= set(KINDS):
            names = ", ".join(f'"{text}"' for text in texts)
            raise InputError(f"hf.held: a list has texts of prompts; for the shipped sets write hf.held({names})")
        prompts = [(context("user", text),) for text in texts]
        return {**self._own(), **prompts_in_memory(prompts)}


def prompts_in_memory(prompts: Iterable[tuple[Turn, ...]]) -> dict[str, Any]:
    """``data`` and ``rows`` of a stream of prompts: conversations that end before the anchor's answer."""
    dataset = traces_in_memory(map(Trace, prompts), "prompts")
    name = f"{PREFIX}{dataset.source}"
    return {"data": name, "rows": replace(dataset, source=name, sentence=name)}


@checked("hf.held")
def held(
    *prompts: str | Path | Sequence[str],
    weight: float | None = None,
    hold: bool | Mapping[str, float] = False,
    share: float = 1.0,
) -> list[Stream]:
    """Streams that keep the model near its anchor, each on a shipped set, the prompts of a file, or a list of prompts.

    The anchor answers the prompts when the run begins, and the model is held to these answers (``distill``). Shipped sets:
    ``safety``, requests to refuse; ``keep``, harmless ones; ``skills``, plain work in many forms. Without any prompts:
    ``safety`` and ``keep``.

    ``weight``: 1 unless given. ``hold``: a budget instead, see ``Stream``.
    Raises ``InputError`` for a name that is neither a shipped set nor a file.
    """
    streams: list[Stream] = []
    for number, source in enumerate(prompts or HELD_BY_DEFAULT):
        settings: dict[str, Any] = {"objective": "distill", "weight": weight, "hold": hold, "share": share}
        if isinstance(source, str | Path):
            if not Path(source).expanduser().is_file():
                find_kind(str(source))
            settings["name"] = str(source) if source in KINDS else Path(source).stem
            streams.append(Stream(f"{PREFIX}{source}", **settings))
        else:
            streams.append(_Prompts(source, name=f"held-{number}", **settings))  # type: ignore[arg-type]
    return streams


@checked("hf.train")
def train_streams(
    model: str | Mapping[str, Any] | object,
    streams: Stream | Sequence[Stream],
    *,
    run: str | Path,
    anchor: str | Mapping[str, Any] | object | None = None,
    lora: bool | Mapping[str, Any] | None = None,
    report_to: str | Sequence[str] = (),
    callbacks: TrainerCallback | Sequence[TrainerCallback] = (),
    say: Callable[[str], None] = print,
    progress: bool = True,
    **training: Any,
) -> TrainResult:
    """Fine-tune, or go on where the same call stopped. The result's ``model`` is a folder that any tool loads.

    ``model``: a name, a path, a finished run, or the settings of ``model:`` in a config; ``anchor`` likewise, of ``anchor:``.
    ``run``: the folder for checkpoints, logs and the model.
    ``lora``: True, or its settings.
    ``callbacks``: objects of ``transformers.TrainerCallback``, called on every process. One that sets
    ``control.should_training_stop`` ends the run, which is finished then: that step is logged and saved, and the model written.
    They are no part of the run's config, so a run may go on with others. A resumed run calls ``on_train_begin`` again and gives
    callbacks that inherit ``ExportableState`` their state from the checkpoint. A finished run calls none.
    Every setting of ``training:`` is a keyword: ``lr=2e-5``, ``epochs=3``, ``batch_size=32`` (docs/training.md).

    Raises ``InputError`` for settings or rows that cannot be used, before anything is written.
    """
    name = model if isinstance(model, Mapping) else model_name(model, "hf.train")
    if not isinstance(anchor, Mapping | None):
        anchor = {"model": model_name(anchor, "hf.train: anchor")}
    _refuse_other_names(training)
    callbacks = _callbacks(callbacks)
    settings = {
        "run": str(user_path(run, "hf.train: run")),
        "model": name,
        "anchor": anchor or {},
        "streams": [stream.settings() for stream in _listed(streams)],
        "training": training,
        "lora": {} if lora is True else None if lora is False else lora,
        "report_to": as_names(report_to),
    }
    return train(validated(TrainConfig, settings, "hf.train"), say=say, progress=progress, callbacks=callbacks)


def _callbacks(given: object) -> list[TrainerCallback]:
    """One callback or several, as a list. Raises ``InputError`` for anything else, and for one that would never act."""
    callbacks: list[Any] = (
        list(given) if isinstance(given, Iterable) and not isinstance(given, str | Mapping) else [given]
    )
    for callback in callbacks:
        if isinstance(callback, type):
            raise InputError(
                f"hf.train: callbacks: expected objects, got the class {callback.__name__}; write {callback.__name__}()"
            )
        if not isinstance(callback, TrainerCallback):
            raise InputError(
                "hf.train: callbacks: expected a list of transformers.TrainerCallback, got a value of type"
                f" {type(callback).__name__}"
            )
        if isinstance(callback, EarlyStoppingCallback):
            raise InputError(
                "hf.train: callbacks: EarlyStoppingCallback goes by evaluations, and a run makes none; set"
                " control.should_training_stop in a callback of your own"
            )
    return callbacks


def _listed(streams: object) -> list[Stream]:
    """One stream or several, as a list. Raises ``InputError`` for anything else."""
    if isinstance(streams, Stream):
        return [streams]
    if isinstance(streams, str | Path):
        raise _no_stream(f"'{streams}'", f"'{streams}'")
    if isinstance(streams, Mapping) or not isinstance(streams, Iterable):
        raise _no_stream(f"a value of type {type(streams).__name__}")
    listed = list(streams)
    for stream in listed:
        if isinstance(stream, list) and stream and isinstance(stream[0], Stream):
            raise InputError("hf.train: streams: a list within a list; write *hf.held(...), with the star")
        if not isinstance(stream, Stream):
            raise _no_stream(f"a {type(streams).__name__} of {type(stream).__name__}")
    return _with_names_of_their_own(listed)


def _with_names_of_their_own(streams: Sequence[Stream]) -> list[Stream]:
    """Lists of prompts from several calls of ``held`` are all named held-0, held-1, ...: the later ones take free numbers."""
    taken = {stream.name for stream in streams if not isinstance(stream, _Prompts)}
    named: list[Stream] = []
    for stream in streams:
        if isinstance(stream, _Prompts):
            free = (name for number in count() if (name := f"held-{number}") not in taken)
            stream = replace(stream, name=next(free)) if stream.name in taken else stream
            taken.add(stream.name)
        named.append(stream)
    return named


def _no_stream(given: str, rows: str = "rows") -> InputError:
    return InputError(f'hf.train: streams: expected a list of hf.Stream, got {given}; write hf.Stream({rows}, "sft")')


def _refuse_other_names(training: Mapping[str, Any]) -> None:
    for name in training:
        if name in OTHER_NAMES:
            raise InputError(f"hf.train: field 'training.{name}': unknown; did you mean '{OTHER_NAMES[name]}'?")
