"""Streams: read, tokenise, and bind an objective to each."""

from __future__ import annotations

import dataclasses
import inspect
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from holdfast import objectives
from holdfast.config import FieldError, InputError, TrainConfig, did_you_mean, look_up, nearest_or_all
from holdfast.config.training import StreamSettings, TrainingSettings
from holdfast.data import DataError, Dataset, read_traces
from holdfast.data.default_prompts import PREFIX
from holdfast.data.spool import OnDemand
from holdfast.heads import TokenStats
from holdfast.judging import missing_instruction
from holdfast.objectives import Objective
from holdfast.records import Role
from holdfast.tokens import TokenRow, TokenRows, tokenize_all
from holdfast.training.collate import StreamRow
from holdfast.training.loss import Gauge, StreamLoss, TokenLoss
from holdfast.training.processes import Say
from holdfast.worlds import world_traces


@dataclass(frozen=True)
class ReadStream:
    """A stream ready to train: its data, the rows made of it, and its loss."""

    settings: StreamSettings
    dataset: Dataset
    rows: TokenRows
    loss: StreamLoss
    fresh: Sequence[TokenRow] = ()  # with a budget: answers that no step sees, to measure the drift on at the end

    def where(self, row: int) -> str:
        """``file:line`` of a row."""
        return self.dataset.where(self.rows[row].source)


def read_stream(
    settings: StreamSettings, number: int, tokenizer: Any, training: TrainingSettings, say: Say, *, ours: bool = False
) -> ReadStream:
    """Read the stream's data, tokenise it with roles, bind its objective. Prints skipped and odd rows.

    ``ours``: the run itself has written the file; its name and format say nothing to the user.
    """
    loss = bind_objective(settings, number)
    dataset = read_data(settings)
    if not ours:
        say(f"{loss.name}: {dataset.sentence}")
    if dataset.num_skipped:
        say(f"{loss.name}: {dataset.num_skipped} bad rows skipped: " + "; ".join(map(str, dataset.problems)))
    if hint := missing_instruction(dataset.traces):
        say(f"{loss.name}: {hint}")
    rows, report = tokenize_all(
        dataset.traces,
        tokenizer,
        max_length=training.max_length,
        context=training.context,
        train_on_prompt=settings.train_on_prompt,
        where=dataset.where,
        skip_bad=settings.skip_bad - dataset.num_skipped,
    )
    say(f"{loss.name}: {report.sentence}{'; prompts are trained too' if settings.train_on_prompt else ''}")
    if settings.hold is not None and settings.hold.tokens is not None:
        rows = TokenRows(_cut(row, settings.hold.tokens) for row in rows)
    return ReadStream(settings, dataset, rows, loss, _fresh_rows(settings, loss.name, tokenizer, training, say))


def _cut(row: TokenRow, num_tokens: int) -> TokenRow:
    """A held answer ends after so many tokens, without the end-of-turn token that a cut answer does not have."""
    first = next(index for index, role in enumerate(row.roles) if role != Role.PROMPT)
    return row.until(first + num_tokens)


def fresh_file(held: Path) -> Path:
    """Where the answers to the prompts lie that are kept back from a file of held answers."""
    return held.with_name(held.name.replace("held-", "fresh-", 1))


def _fresh_rows(
    settings: StreamSettings, name: str, tokenizer: Any, training: TrainingSettings, say: Say
) -> Sequence[TokenRow]:
    if settings.hold is None:
        return ()
    traces = read_traces(str(fresh_file(Path(settings.data)))).traces
    rows, _ = tokenize_all(traces, tokenizer, max_length=training.max_length, context=training.context)
    hold = settings.hold
    budgets = f"{hold.early:g} nats per answer and {hold.late:g} per later token"
    budgets += f", at first {hold.wide:g} times as much" if hold.wide > 1 else ""
    budgets += f", answers up to token {hold.tokens}" if hold.tokens else ""
    budgets += f", in every {hold.every}th step" if hold.every > 1 else ""
    say(f"{name}: held to {budgets}; {len(rows)} more answers are kept back to measure the drift at the end")
    return rows


def read_data(settings: StreamSettings) -> Dataset:
    """Rows in memory; ``world:safety/...``, made by an embedded world; anything else is a file or a hub dataset."""
    if settings.rows is not None:
        dataset: Dataset = settings.rows
        return dataset
    if settings.data.startswith("world:"):
        return world_traces(settings.data, limit=settings.limit)
    return read_traces(settings.data, skip_bad=settings.skip_bad, limit=settings.limit)


def with_data(config: TrainConfig) -> TrainConfig:
    """The same settings with the rows of every stream read, except for prompts, which the anchor has yet to answer.

    Raises ``FieldError`` for data that is not there, and ``DataError`` for rows that cannot be used.
    """
    streams = [
        stream if stream.data.startswith(PREFIX) else stream.model_copy(update={"rows": _read(stream, number)})
        for number, stream in enumerate(config.streams)
    ]
    return config.model_copy(update={"streams": tuple(streams)})


def _read(settings: StreamSettings, number: int) -> Dataset:
    with naming_data(number):
        return read_data(settings)


@contextmanager
def naming_data(number: int) -> Iterator[None]:
    """Add the field ``data`` of this stream to an ``InputError`` raised inside. A mistake in a row names its own file."""
    try:
        yield
    except DataError:
        raise
    except InputError as error:
        raise FieldError(f"streams.{number}.data", str(error)) from None


def bind_objective(settings: StreamSettings, number: int) -> StreamLoss:
    """The registered objective with the YAML's options, which must be ones it takes."""
    field = f"streams.{number}"
    objective = _registered(settings.objective, field)
    options = dict(settings.options)
    is_softened = "delta" in objective.reads  # by an option of the token statistics, not of the function
    free = [*objective.options, *(["soften"] if is_softened else [])]
    for option in options:
        if option not in free:
            raise FieldError(
                f"{field}.options.{option}",
                f"{settings.objective} has no such option"
                f"{did_you_mean(option, free) or '; it takes: ' + (', '.join(free) or 'none')}",
            )
    if settings.train_on_prompt and "position" in objective.takes:
        raise FieldError(
            f"{field}.train_on_prompt",
            f"{settings.objective} counts from the start of an answer, and with the prompt trained there is none;"
            " use another objective",
        )
    soften = options.pop("soften", None) if is_softened else None
    reads = objective.stats_read(options)
    bound = StreamLoss(
        name=settings.name or f"{number}:{settings.objective}",
        loss=_bound(objective, options),
        weight=settings.weight,
        needs_anchor=objective.needs_anchor,
        needs_kl=objective.needs_kl(options) or soften is not None,
        want=(*reads, *(("top_ref",) if objective.needs_anchor else ())),
        soften=soften,
        gauges=_gauges(objective, options),
        hold=settings.hold,
    )
    _try_on_two_tokens(bound, settings, reads, field)
    return bound


def _registered(name: str, field: str) -> Objective:
    """Look the objective up. One that a user registered may be a bare function, or read a statistic that does not exist."""
    objective: object = look_up(objectives.REGISTRY, name)
    if objective is None:
        known = nearest_or_all(name, objectives.REGISTRY)
        raise FieldError(f"{field}.objective", f"unknown '{name}'{known}")
    if not isinstance(objective, Objective):
        form = f"objectives.REGISTRY['{name}'] = Objective('{name}', function, reads=('logp', ...))"
        raise InputError(f"objective '{name}': expected {form}, got a {type(objective).__name__}")
    stats = [field.name for field in dataclasses.fields(TokenStats)]
    for stat in objective.reads:
        if stat not in stats:
            raise InputError(f"objective '{name}': reads '{stat}'{nearest_or_all(stat, stats)}")
    return objective


def _gauges(objective: Objective, options: Mapping[str, Any]) -> dict[str, Gauge]:
    """What to watch: its own gauges, the divergences that are computed anyway, and how often the anchor disagrees."""
    read = objective.stats_read(options)
    unread = objective.unread(options)
    gauges = {name: _gauge(gauge, options) for name, gauge in objective.gauges.items() if name not in unread}
    for divergence in ("kl", "kl_rev"):
        if divergence in read and divergence not in gauges:
            gauges[divergence] = lambda stats, _, name=divergence: stats.need(name)  # type: ignore[misc]
    if objective.needs_anchor:
        gauges["pa_active"] = lambda stats, _: objectives.pa_active(stats).to(stats.logp.dtype)
    return gauges


def _gauge(gauge: Callable[..., Tensor], options: Mapping[str, Any]) -> Gauge:
    takes = inspect.signature(gauge).parameters
    taken = {name: value for name, value in options.items() if name in takes}
    if "position" in takes:
        return lambda stats, position: gauge(stats, position=position, **taken)
    return lambda stats, _: gauge(stats, **taken)


def _bound(objective: Objective, options: Mapping[str, Any]) -> TokenLoss:
    schedule = {name: at for name, at in objective.schedule.items() if name not in options}

    def loss(stats: TokenStats, role: Tensor, position: Tensor, progress: float) -> Tensor:
        scheduled = {name: at(progress) for name, at in schedule.items()}
        return objective.on(stats, role, position, **scheduled, **options)

    return loss


def _try_on_two_tokens(bound: StreamLoss, settings: StreamSettings, reads: Sequence[str], field: str) -> None:
    """Call the objective once on two tokens: a wrong option or a wrong objective is refused before training begins."""
    zero, place = torch.zeros(2, requires_grad=True), torch.zeros(2, dtype=torch.long)
    every = TokenStats(zero, place, zero, logp_ref=zero, kl=zero, kl_rev=zero, delta=zero, top_ref=place)
    try:
        with torch.enable_grad():
            losses = bound.loss(every.only(reads), place, place, 0.0)
    except InputError as error:
        raise FieldError(f"{field}.options", str(error)) from None
    except Exception as error:  # whatever a stranger's function may raise
        values = f"a value of the wrong kind in {dict(settings.options)}: " if settings.options else ""
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise FieldError(f"{field}.options", f"{values}{settings.objective}: {reason}") from None
    if not isinstance(losses, Tensor) or losses.shape != zero.shape:
        got = f"shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses).__name__
        raise InputError(f"objective '{settings.objective}': expected a loss for each of 2 tokens, got {got}")
    if not losses.requires_grad:
        raise InputError(f"objective '{settings.objective}': its loss has no gradient")
    for name, gauge in bound.gauges.items():
        try:
            figure = gauge(every.only(bound.want), place)
        except Exception as error:  # as above
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise InputError(f"objective '{settings.objective}': gauge '{name}': {reason}") from None
        if not isinstance(figure, Tensor) or figure.shape != zero.shape:
            raise InputError(
                f"objective '{settings.objective}': gauge '{name}': expected a figure for each of 2 tokens"
            )
    soften = bound.soften
    if soften is not None and (isinstance(soften, bool) or not isinstance(soften, int | float) or soften <= 0):
        raise FieldError(f"{field}.options.soften", f"expected a temperature above 0, got {soften!r}")


class Part(NamedTuple):
    """Rows of one stream, numbered one after another."""

    stream: int
    first: int  # number in the run
    rows: Sequence[TokenRow]


class NumberedRows(OnDemand[StreamRow]):
    """The rows of several parts, one part after another."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self._starts = list(accumulate((len(part.rows) for part in parts), initial=0))

    def __len__(self) -> int:
        return self._starts[-1]

    def make(self, number: int) -> StreamRow:
        """The row of this number, from 0."""
        at = bisect_right(self._starts, number) - 1
        index, part = number - self._starts[at], self.parts[at]
        return StreamRow(part.rows[index], part.stream, index, part.first + index)

    def of(self, streams: Collection[int]) -> NumberedRows:
        """The rows of some streams, with the numbers that they have here."""
        return NumberedRows([part for part in self.parts if part.stream in streams])


def number_rows(streams: Sequence[ReadStream]) -> NumberedRows:
    """All rows of all streams, as the plan counts them."""
    return NumberedRows(_parts([stream.rows for stream in streams], 0))


def number_fresh(streams: Sequence[ReadStream]) -> NumberedRows:
    """The answers that no step sees, numbered after all rows of the run: the anchor's cache keeps them too."""
    return NumberedRows(_parts([stream.fresh for stream in streams], sum(len(stream.rows) for stream in streams)))


def _parts(rows: Sequence[Sequence[TokenRow]], first: int) -> list[Part]:
    firsts = accumulate(map(len, rows), initial=first)
    return [Part(stream, start, of_stream) for stream, (start, of_stream) in enumerate(zip(firsts, rows, strict=False))]


def check_names(names: Sequence[str]) -> None:
    """Two streams of one name would be one line in every log."""
    for number, name in enumerate(names):
        if name in names[:number]:
            raise FieldError(f"streams.{number}.name", f"'{name}' is taken by another stream")
