"""Streams: read, tokenise, and bind an objective to each."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from holdfast import objectives
from holdfast.config import InputError, did_you_mean, nearest_or_all
from holdfast.config.training import StreamSettings, TrainingSettings
from holdfast.data import Dataset, read_traces
from holdfast.heads import TokenStats
from holdfast.tokens import TokenRow, tokenize_all
from holdfast.training.loss import Gauge, StreamLoss, TokenLoss
from holdfast.worlds import world_traces

Say = Callable[[str], None]
GIVEN = ("role", "position")  # what the trainer hands to an objective that asks for it


@dataclass(frozen=True)
class ReadStream:
    """A stream ready to train: its data, the rows made of it, and its loss."""

    settings: StreamSettings
    dataset: Dataset
    rows: tuple[TokenRow, ...]
    loss: StreamLoss

    def where(self, row: int) -> str:
        """``file:line`` of a row."""
        return self.dataset.where(self.rows[row].source)


def read_stream(
    settings: StreamSettings, number: int, tokenizer: Any, training: TrainingSettings, say: Say
) -> ReadStream:
    """Read the stream's data, tokenise it with roles, bind its objective. Everything odd is said."""
    loss = bind_objective(settings, number)
    dataset = read_data(settings)
    say(f"{loss.name}: {dataset.sentence}")
    if dataset.num_skipped:
        say(f"{loss.name}: {dataset.num_skipped} bad rows skipped: " + "; ".join(map(str, dataset.problems)))
    where = [dataset.where(trace) for trace in range(len(dataset.traces))]
    rows, report = tokenize_all(
        dataset.traces,
        tokenizer,
        max_length=training.max_length,
        context=training.context,
        train_on_prompt=settings.train_on_prompt,
        where=where,
        skip_bad=settings.skip_bad - dataset.num_skipped,
    )
    say(f"{loss.name}: {report.sentence}{'; prompts are trained too' if settings.train_on_prompt else ''}")
    return ReadStream(settings, dataset, tuple(rows), loss)


def read_data(settings: StreamSettings) -> Dataset:
    """Rows in memory; ``world:safety/...``, made by an embedded world; anything else is a file or a hub dataset."""
    if settings.rows is not None:
        dataset: Dataset = settings.rows
        return dataset
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
    _check_stats(settings.objective)
    options = dict(settings.options)
    soften = options.pop("soften", None)
    for option in options:
        if option not in takes or option in (*GIVEN, "stats"):
            free = [name for name in takes if name not in (*GIVEN, "stats")]
            raise InputError(
                f"field '{field}.options.{option}': {settings.objective} has no such option"
                f"{did_you_mean(option, free) or '; it takes: ' + (', '.join(free) or 'none')}"
            )
    if settings.train_on_prompt and "position" in takes:
        raise InputError(
            f"field '{field}.train_on_prompt': {settings.objective} counts from the start of an answer, and with the prompt "
            "trained there is none; use another objective"
        )
    anchored = objectives.needs_anchor(settings.objective)
    loss = _bound(function, takes, options)
    _try_on_two_tokens(loss, settings, objectives.stats_read(settings.objective, options), field)
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
    if objective in ("csft", "csft_pa"):
        weighing = {name: options[name] for name in ("beta", "floor") if name in options}
        gauges["w"] = lambda stats, position: objectives.csft_weight(stats, position=position, **weighing)
    for divergence in ("kl", "kl_rev"):
        if divergence in read:
            gauges[divergence] = lambda stats, _, name=divergence: stats.need(name)  # type: ignore[misc]
    if objective in ("pa", "csft_pa"):
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


def _check_stats(objective: str) -> None:
    """One that somebody registered himself may lack its line in STATS, or name there what no head gives."""
    known = [field.name for field in dataclasses.fields(TokenStats)]
    if objective not in objectives.STATS:
        raise InputError(f"objective '{objective}': objectives.STATS must name what it reads: {', '.join(known)}")
    for name in objectives.STATS[objective]:
        if name not in known:
            raise InputError(f"objective '{objective}': objectives.STATS names '{name}'{nearest_or_all(name, known)}")


def _try_on_two_tokens(loss: TokenLoss, settings: StreamSettings, reads: Sequence[str], field: str) -> None:
    """So that a wrong option, or a wrong objective, is found before training begins, not at its first step."""
    zero, place = torch.zeros(2, requires_grad=True), torch.zeros(2, dtype=torch.long)
    every = TokenStats(zero, place, zero, logp_ref=zero, kl=zero, kl_rev=zero, delta=zero, top_ref=place)
    try:
        with torch.enable_grad():
            found = loss(every.only(reads), place, place, 0.0)
    except InputError as error:
        raise InputError(f"field '{field}.options': {error}") from None
    except Exception as error:  # whatever a stranger's function may raise
        values = f"a value of the wrong kind in {dict(settings.options)}: " if settings.options else ""
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise InputError(f"field '{field}.options': {values}{settings.objective}: {reason}") from None
    if not isinstance(found, Tensor) or found.shape != zero.shape:
        got = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise InputError(f"objective '{settings.objective}': expected a loss for each of 2 tokens, got {got}")
    if not found.requires_grad:
        raise InputError(f"objective '{settings.objective}': its loss has no gradient")
    soften = settings.options.get("soften")
    if soften is not None and (isinstance(soften, bool) or not isinstance(soften, int | float) or soften <= 0):
        raise InputError(f"field '{field}.options.soften': expected a temperature above 0, got {soften!r}")


def check_names(streams: Sequence[ReadStream]) -> None:
    """Two streams of one name would be one line in every log."""
    names = [stream.loss.name for stream in streams]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(f"field 'streams.{number}.name': '{name}' is taken by another stream")
