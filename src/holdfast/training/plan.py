"""Which rows make up which step: a pure function of the seed, so that resuming needs no replay."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from torch.utils.data import Sampler

from holdfast.config import FieldError
from holdfast.config.training import rows_per_step
from holdfast.data.fields import counted
from holdfast.training.passes import PassRoom

Order = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class StepPlan:
    """The rows of every step. Rows of all streams are numbered one after another, stream by stream.

    The first stream sets the length of an epoch: one shuffled pass over its rows, each row once. If its rows do not
    divide evenly, the last step of each epoch has fewer of them. Every other stream is an endless sequence of
    reshuffled passes over its own rows and gives the same number of rows to every step, or to each second, third, ... one.
    """

    lengths: tuple[Sequence[int], ...]  # per stream, the tokens of each row
    rows: tuple[int, ...]  # per stream, the rows of a full step
    num_steps: int
    num_taken: int  # rows of the first stream in the whole run, a row that is seen twice counted twice
    seed: int
    every: tuple[int, ...]  # per stream, n: rows in every n-th step only

    @classmethod
    def make(
        cls,
        lengths: Sequence[Sequence[int]],
        *,
        batch_size: int,
        shares: Sequence[float],
        epochs: float,
        max_steps: int | None,
        seed: int,
        every: Sequence[int] | None = None,
    ) -> StepPlan:
        """Plan ``epochs`` passes over the first stream, or ``max_steps`` steps. Part of an epoch is rounded up to a row."""
        rows = rows_per_step(batch_size, list(shares))
        num_rows = len(lengths[0])
        if max_steps is None:
            num_steps, num_taken = steps_for(epochs, num_rows, rows[0]), rows_for(epochs, num_rows)
        else:
            num_steps, num_taken = max_steps, _rows_before(max_steps, num_rows, rows[0])
        every = every or [1] * len(lengths)
        for stream, times in enumerate(every):
            if times > num_steps:
                raise FieldError(f"streams.{stream}.hold.every", f"{times}, and the run has {num_steps} steps")
        return cls(tuple(lengths), tuple(rows), num_steps, num_taken, seed, tuple(every))

    @property
    def batch_size(self) -> int:
        """Rows of a full step."""
        return sum(self.rows)

    def epoch_at(self, step: int) -> float:
        """How many passes over the first stream have been made when ``step`` begins."""
        num_rows = len(self.lengths[0])
        return min(_rows_before(step, num_rows, self.rows[0]), self.num_taken) / num_rows

    @property
    def num_epochs(self) -> float:
        """Passes over the first stream in the whole run."""
        return self.num_taken / len(self.lengths[0])

    def rows_of_step(self, step: int) -> list[int]:
        """Row numbers of one step, stream by stream and short to long within a stream.

        That order keeps rows that need an anchor pass together and wastes little on padding; the loss of a step is a
        sum over its rows, so the order inside a step changes nothing else.
        """
        chosen: list[int] = []
        offset = 0
        for stream, lengths in enumerate(self.lengths):
            picked = [self._row_at(stream, index) for index in self._span(stream, step)]
            chosen += [offset + row for row in sorted(picked, key=lambda row: (lengths[row], row))]
            offset += len(lengths)
        return chosen

    def times_seen(self, stream: int) -> list[tuple[int, int]]:
        """How often the rows of a stream are seen in the whole run: (number of rows, times), the most seen first."""
        num_rows = len(self.lengths[stream])
        total = self.num_taken if stream == 0 else self.num_steps // self.every[stream] * self.rows[stream]
        times, num_more = divmod(total, num_rows)
        return [(num, seen) for num, seen in ((num_more, times + 1), (num_rows - num_more, times)) if num]

    def sentence(self, stream: int, name: str) -> str:
        """How many rows a stream has, how often the run sees each of them, and in how many steps."""
        num_rows, full = len(self.lengths[stream]), self.rows[stream]
        groups = self.times_seen(stream)
        counts = ["each"] if len(groups) == 1 else [str(num) for num, _ in groups]
        seen = ", ".join(f"{count} {_seen(times)}" for count, (_, times) in zip(counts, groups, strict=True))
        end = ""
        if stream == 0:
            full, last = min(full, num_rows), num_rows % full
            end = f"; the last step of an epoch has {last}" if full < num_rows and last else ""
        rows, steps = counted(num_rows, "row"), counted(self.num_steps // self.every[stream], "step")
        return f"{name}: {rows}, {seen}, in {steps} of {counted(full, 'row')}{end}"

    def _span(self, stream: int, step: int) -> range:
        """Which part of the stream's endless sequence of passes a step takes."""
        if stream:  # the last of so many steps: in the very first one the policy still is its anchor
            start, stop = (number // self.every[stream] * self.rows[stream] for number in (step, step + 1))
            return range(start, stop)
        num_rows = len(self.lengths[0])
        start, stop = (_rows_before(number, num_rows, self.rows[0]) for number in (step, step + 1))
        return range(start, min(stop, self.num_taken))

    def _row_at(self, stream: int, index: int) -> int:
        number_of_pass, rank = divmod(index, len(self.lengths[stream]))
        return int(self._order(stream, number_of_pass)[rank])

    @cached_property
    def _orders(self) -> dict[tuple[int, int], Order]:
        return {}

    def _order(self, stream: int, number_of_pass: int) -> Order:
        key = (stream, number_of_pass)
        if key not in self._orders:
            if len(self._orders) > 4 * len(self.lengths):
                self._orders.clear()
            self._orders[key] = np.random.default_rng([self.seed, *key]).permutation(len(self.lengths[stream]))
        return self._orders[key]


def rows_for(epochs: float, num_rows: int) -> int:
    """Rows seen in so many passes, at least one. Half a pass over 5 rows is 3; 0.1 times 30 is 3, not 3.0000000000000004."""
    return max(1, math.ceil(round(epochs * num_rows, 6)))


def steps_for(epochs: float, num_rows: int, rows_of_step: int) -> int:
    """Steps of so many passes over ``num_rows`` rows: every pass begins with a new step."""
    passes, rest = divmod(rows_for(epochs, num_rows), num_rows)
    return passes * math.ceil(num_rows / rows_of_step) + math.ceil(rest / rows_of_step)


def _rows_before(step: int, num_rows: int, rows_of_step: int) -> int:
    """Rows of the first stream that the steps before ``step`` have taken."""
    passes, steps = divmod(step, math.ceil(num_rows / rows_of_step))
    return passes * num_rows + steps * rows_of_step


def _seen(times: int) -> str:
    return {0: "never seen", 1: "seen once", 2: "seen twice"}.get(times, f"seen {times} times")


class PlanSampler(Sampler[list[int]]):
    """The plan as micro-batches, for a DataLoader. All epochs are one iteration: a step's rows depend on its number only.

    Every step has the same number of micro-batches, because Trainer accumulates a fixed number of them and each process
    must run as many as the others. The rows of a step are dealt to them evenly; with fewer rows than micro-batches some are
    empty, and the collator puts a token without a target there.

    With ``room`` (one process only) the rows are put into as few and as large passes as pay. The micro-batches that are left
    over are empty and come first; the trainer makes no pass for them.
    """

    def __init__(
        self, plan: StepPlan, micro_batch: int, room: PassRoom | None = None, anchored: Sequence[bool] = ()
    ) -> None:
        assert plan.batch_size % micro_batch == 0
        self.plan, self.micro_batch, self.room = plan, micro_batch, room
        self.num_micro_batches = plan.batch_size // micro_batch
        if room is not None:
            self.lengths = np.concatenate([np.asarray(lengths, dtype=np.int64) for lengths in plan.lengths])
            counts = [len(lengths) for lengths in plan.lengths]
            self.anchored = np.repeat(np.asarray(anchored, dtype=bool), counts)

    def __len__(self) -> int:
        return self.plan.num_steps * self.num_micro_batches

    def __iter__(self) -> Iterator[list[int]]:
        for step in range(self.plan.num_steps):
            rows = self.plan.rows_of_step(step)
            yield from self._dealt(rows) if self.room is None else self._filled(rows, self.room)

    def _dealt(self, rows: Sequence[int]) -> Iterator[list[int]]:
        for number in range(self.num_micro_batches):
            start, stop = (len(rows) * place // self.num_micro_batches for place in (number, number + 1))
            yield list(rows[start:stop])

    def _filled(self, rows: Sequence[int], room: PassRoom) -> Iterator[list[int]]:
        """Long rows first. Rows with an anchor last and short to long, so that the two kinds meet in short rows if at all."""
        numbers = np.asarray(rows)
        lengths, anchored = self.lengths[numbers], self.anchored[numbers]
        order = np.lexsort((np.where(anchored, lengths, -lengths), anchored))
        ends = room.ends(lengths[order], anchored[order])
        if len(ends) > self.num_micro_batches:
            ends = [*range(self.micro_batch, len(rows), self.micro_batch), len(rows)]
        yield from ([] for _ in range(self.num_micro_batches - len(ends)))
        for start, stop in zip([0, *ends], ends, strict=False):
            yield numbers[order[start:stop]].tolist()
