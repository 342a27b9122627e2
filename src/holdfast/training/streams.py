"""Streams: read, tokenise, and bind an objective to each."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from holdfast import objectives
from holdfast.config import InputError, did_you_mean, nearest_or_all
from holdfast.config.training import StreamSettings, TrainingSettings
from holdfast.heads import TokenStats
from holdfast.records import Dataset, read_traces
from holdfast.tokens import TokenRow, tokenize_all
from holdfast.training.loss import Gauge, StreamLoss, TokenLoss
from holdfast.worlds import world_traces

Say = Callable[[str], None]
GIVEN = ("role", "position")  # what the trainer hands to an objective that asks for it


@dataclass(frozen=True)
class Stream:
    """A stream ready to train: its data, the rows made of it, and its loss."""

    settings: StreamSettings
    dataset: Dataset
    rows: tuple[TokenRow, ...]
    loss: StreamLoss

    def where(self, row: int) -> str:
        """``file:line`` of a row."""
        return f"{self.dataset.source}:{self.dataset.lines[self.rows[row].source]}"


def read_stream(settings: StreamSettings, number: int, tokenizer: Any, training: TrainingSettings, say: Say) -> Stream:
    """Read the stream's data, tokenise it with roles, bind its objective. Everything odd is said."""
    loss = bind_objective(settings, number)
    dataset = read_data(settings)
    say(f"{loss.name}: {dataset.sentence}")
    if dataset.num_skipped:
        say(f"{loss.name}: {dataset.num_skipped} bad rows skipped: " + "; ".join(map(str, dataset.problems)))
    where = [f"{dataset.source}:{line}" for line in dataset.lines]
    rows, report = tokenize_all(
        dataset.traces, tokenizer, max_length=training.max_length, context=training.context, where=where
    )
    say(f"{loss.name}: {report.sentence}")
    return Stream(settings, dataset, tuple(rows), loss)


def read_data(settings: StreamSettings) -> Dataset:
    """``world:safety/...`` is made by an embedded world; anything else is a file or a hub dataset."""
    if settings.data.startswith("world:"):
        return world_traces(settings.data, limit=settings.limit)
    return read_traces(settings.data, skip_bad=settings.skip_bad, limit=settings.limit)


def bind_objective(settings: StreamSettings, number: int) -> StreamLoss:
    """The registered function with the YAML's options, which must be ones it takes."""
    field = f"streams.{number}"
    if settings.objective not in objectives.REGISTRY:
        raise InputError(
            f"field '{field}.objective': unknown '{settings.objective}'"
            f"{nearest_or_all(settings.objective, objectives.REGISTRY)}"
        )
    function: Callable[..., Tensor] = objectives.REGISTRY[settings.objective]
    takes = inspect.signature(function).parameters
    options = dict(settings.options)
    soften = options.pop("soften", None)
    for option in options:
        if option not in takes or option in (*GIVEN, "stats"):
            free = [name for name in takes if name not in (*GIVEN, "stats")]
            raise InputError(
                f"field '{field}.options.{option}': {settings.objective} has no such option"
                f"{did_you_mean(option, free) or '; it takes: ' + (', '.join(free) or 'none')}"
            )
    anchored = objectives.needs_anchor(settings.objective)
    loss = _bound(function, takes, options)
    _try_on_one_token(loss, settings.options, f"{field}.options")
    return StreamLoss(
        name=settings.name or f"{number}:{settings.objective}",
        loss=loss,
        weight=settings.weight,
        needs_anchor=anchored,
        needs_kl=objectives.needs_kl(settings.objective, options),
        want=(*objectives.stats_read(settings.objective, options), *(("top_ref",) if anchored else ())),
        soften=soften,
        gauges=_gauges(settings.objective, options),
    )


def _gauges(objective: str, options: dict[str, Any]) -> dict[str, Gauge]:
    """What to watch: w_t where tokens are weighed, the divergences that are computed anyway, how much PA has to say."""
    read = objectives.stats_read(objective, options)
    gauges: dict[str, Gauge] = {}
    if "csft" in objective:
        weighing = {name: options[name] for name in ("beta", "floor") if name in options}
        gauges["w"] = lambda stats, position: objectives.csft_weight(stats, position=position, **weighing)
    for divergence in ("kl", "kl_rev"):
        if divergence in read:
            gauges[divergence] = lambda stats, _, name=divergence: stats.need(name)  # type: ignore[misc]
    if "pa" in objective.split("_"):
        how = {name: options[name] for name in ("kl", "kl_clip") if name in options}
        # pa is log 2 wherever it has nothing to say
        gauges["pa_minus_log2"] = lambda stats, _: objectives.pa(stats, **how) - math.log(2)
    if objectives.needs_anchor(objective):
        gauges["pa_active"] = lambda stats, _: objectives.pa_active(stats).to(stats.logp.dtype)
    return gauges


def _bound(function: Callable[..., Tensor], takes: Any, options: dict[str, Any]) -> TokenLoss:
    scheduled = "pa_weight" in takes and "pa_weight" not in options

    def loss(stats: TokenStats, role: Tensor, position: Tensor, progress: float) -> Tensor:
        given = {name: value for name, value in (("role", role), ("position", position)) if name in takes}
        if scheduled:
            given["pa_weight"] = objectives.pa_weight_at(progress, 1.0)  # type: ignore[assignment]
        return function(stats, **given, **options)

    return loss


def _try_on_one_token(loss: TokenLoss, options: Mapping[str, Any], field: str) -> None:
    """So that a value of the wrong kind is found before training begins, not at its first step."""
    zero = torch.zeros(1)
    place = torch.zeros(1, dtype=torch.long)
    stats = TokenStats(zero, place, logp_ref=zero, kl=zero, kl_rev=zero, delta=zero, top_ref=place)
    try:
        loss(stats, place, place, 0.0)
    except InputError as error:
        raise InputError(f"field '{field}': {error}") from None
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"field '{field}': a value of the wrong kind in {dict(options)}") from None
    soften = options.get("soften")
    if soften is not None and (isinstance(soften, bool) or not isinstance(soften, int | float) or soften <= 0):
        raise InputError(f"field '{field}.soften': expected a temperature above 0, got {soften!r}")


def check_names(streams: Sequence[Stream]) -> None:
    """Two streams of one name would be one line in every log."""
    names = [stream.loss.name for stream in streams]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(f"field 'streams.{number}.name': '{name}' is taken by another stream")
