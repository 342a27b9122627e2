"""Which rows make up which step: a pure function of the seed, so that resuming needs no replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch.utils.data import Sampler

from holdfast.config.training import rows_per_step


@dataclass(frozen=True)
class StepPlan:
    """The rows of every step. Rows of all streams are numbered one after another, stream by stream.

    Each stream is an endless sequence of reshuffled passes over its rows; every step takes the stream's share of it.
    The first stream sets the length of an epoch.
    """

    lengths: tuple[tuple[int, ...], ...]  # per stream, the tokens of each row
    rows: tuple[int, ...]  # per stream, the rows of one step
    num_steps: int
    seed: int

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
    ) -> StepPlan:
        """Plan ``epochs`` passes over the first stream, or ``max_steps`` steps."""
        rows = rows_per_step(batch_size, list(shares))
        num_steps = max_steps or max(1, round(epochs * len(lengths[0]) / rows[0]))
        return cls(tuple(tuple(each) for each in lengths), tuple(rows), num_steps, seed)

    @property
    def batch_size(self) -> int:
        """Rows of one optimizer step."""
        return sum(self.rows)

    def epoch_at(self, step: int) -> float:
        """How many passes over the first stream have been made when ``step`` begins."""
        return step * self.rows[0] / len(self.lengths[0])

    @property
    def num_epochs(self) -> float:
        """Passes over the first stream in the whole run."""
        return self.epoch_at(self.num_steps)

    def rows_of_step(self, step: int) -> list[int]:
        """Row numbers of one step, stream by stream and short to long within a stream.

        That order keeps rows that need an anchor pass together and wastes little on padding; the loss of a step is a
        sum over its rows, so the order inside a step changes nothing else.
        """
        chosen: list[int] = []
        offset = 0
        for stream, (lengths, count) in enumerate(zip(self.lengths, self.rows, strict=True)):
            first = step * count
            picked = [self._row_at(stream, first + i) for i in range(count)]
            chosen += [offset + row for row in sorted(picked, key=lambda row: (lengths[row], row))]
            offset += len(lengths)
        return chosen

    def _row_at(self, stream: int, index: int) -> int:
        number_of_pass, place = divmod(index, len(self.lengths[stream]))
        return int(self._order(stream, number_of_pass)[place])

    def _order(self, stream: int, number_of_pass: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        key = (stream, number_of_pass)
        cache: dict[tuple[int, int], np.ndarray[tuple[int], np.dtype[np.int64]]] = self.__dict__.setdefault(
            "_orders", {}
        )
        if key not in cache:
            if len(cache) > 4 * len(self.lengths):
                cache.clear()
            cache[key] = np.random.default_rng([self.seed, *key]).permutation(len(self.lengths[stream]))
        return cache[key]


class PlanSampler(Sampler[list[int]]):
    """The plan as micro-batches, for a DataLoader. All epochs are one iteration: a step's rows depend on its number only."""

    def __init__(self, plan: StepPlan, micro_batch: int) -> None:
        assert plan.batch_size % micro_batch == 0
        self.plan = plan
        self.micro_batch = micro_batch

    def __len__(self) -> int:
        return self.plan.num_steps * (self.plan.batch_size // self.micro_batch)

    def __iter__(self) -> Iterator[list[int]]:
        for step in range(self.plan.num_steps):
            rows = self.plan.rows_of_step(step)
            for start in range(0, len(rows), self.micro_batch):
                yield rows[start : start + self.micro_batch]
