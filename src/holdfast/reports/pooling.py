"""Cells pooled over seeds: hits and trials add up, and the interval is Wilson's on the sums.

Where every seed asked the same requests (a real model's cells), a request counts once in it. A pooled interval speaks of the
requests asked, not of the seeds: the spread between seeds is kept beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from holdfast.records import BESIDE, GOOD, MEASURES, Cell, Measure, judged_by, pooled_cells
from holdfast.stats import Estimate


@dataclass(frozen=True)
class Pooled:
    """One attack on one defence, all seeds together."""

    attack: str
    defence: str
    cells: tuple[Cell, ...]  # one per seed, in order of seed

    @property
    def done(self) -> list[Cell]:
        """The cells that have figures."""
        return [cell for cell in self.cells if cell.status == "ok"]

    @property
    def failed(self) -> list[Cell]:
        """The cells that say why they have none."""
        return [cell for cell in self.cells if cell.status == "failed"]

    def rate(self, measure: Measure) -> Estimate | None:
        """Hits over trials of every seed that has them."""
        return self._rates[measure]

    @cached_property
    def _rates(self) -> dict[Measure, Estimate | None]:
        """Counted once: a page tells the same rate in many places."""
        return {measure: pooled_cells(self.done, measure) for measure in (*MEASURES, *BESIDE)}

    def kl_by_position(self) -> list[float | None]:
        """Mean over seeds at each answer token; None where no seed has a figure."""
        return mean_at([cell.kl_by_position for cell in self.done])


def mean_at(rows: Sequence[Sequence[float | None]]) -> list[float | None]:
    """The mean at each place over the rows that have a figure there; None where none has."""
    at = [
        [value for row in rows if i < len(row) and (value := row[i]) is not None and math.isfinite(value)]
        for i in range(max(map(len, rows), default=0))
    ]
    return [math.fsum(values) / len(values) if values else None for values in at]


@dataclass(frozen=True)
class Matrix:
    """Defences by attacks; names in an order that does not depend on which cell finished first."""

    defences: list[str]
    attacks: list[str]
    pooled: dict[tuple[str, str], Pooled]  # by (defence, attack)
    num_cells: int
    num_repeated: int  # rows of a cell that a later row of the same cell replaced
    seeds: list[int]

    @property
    def tells_outcomes(self) -> bool:
        """Whether ``asr`` counts replies that complied in every cell. If not, it counts those that were not refused."""
        return all(cell.tells_outcomes for pooled in self.pooled.values() for cell in pooled.done)

    @property
    def judged(self) -> str:
        """Whose word the shares are; empty for the embedded world's oracle."""
        return judged_by([cell for pooled in self.pooled.values() for cell in pooled.done])

    def worst(self, defence: str, measure: Measure) -> tuple[str, Estimate, int] | None:
        """The attack under which this defence fares worst, its rate there, and how many attacks were measured."""
        rates = [(attack, self._rate(defence, attack, measure)) for attack in self.attacks]
        known = [(attack, rate) for attack, rate in rates if rate is not None]
        if not known:
            return None
        sign = 1 if measure in GOOD else -1
        attack, rate = min(known, key=lambda pair: sign * pair[1].value)
        return attack, rate, len(known)

    def _rate(self, defence: str, attack: str, measure: Measure) -> Estimate | None:
        pooled = self.pooled.get((defence, attack))
        return pooled.rate(measure) if pooled else None


def pool(cells: Sequence[Cell]) -> Matrix:
    """Group cells by defence and attack. Cells of several judges are never added up: each judge has rows of its own."""
    latest = {(cell.attack, cell.defence, cell.judge, cell.seed): cell for cell in cells}
    several_judges = len({cell.judge for cell in cells}) > 1
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in latest.values():
        defence = f"{cell.defence} · {cell.judge}" if several_judges else cell.defence
        groups.setdefault((defence, cell.attack), []).append(cell)
    pooled = {
        key: Pooled(key[1], key[0], tuple(sorted(group, key=lambda cell: cell.seed))) for key, group in groups.items()
    }
    return Matrix(
        defences=sorted({defence for defence, _ in pooled}),
        attacks=sorted({attack for _, attack in pooled}, key=lambda attack: (attack != "none", attack)),
        pooled=pooled,
        num_cells=len(latest),
        num_repeated=len(cells) - len(latest),
        seeds=sorted({cell.seed for cell in cells}),
    )


def pareto(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points that no other point beats on one axis without losing on the other, by rising x."""
    front: list[int] = []
    best = -math.inf
    for index in sorted(range(len(points)), key=lambda i: (-points[i][0], -points[i][1])):
        if points[index][1] > best or (front and points[index] == points[front[-1]]):
            best = points[index][1]
            front.append(index)
    return front[::-1]
