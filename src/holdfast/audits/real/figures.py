"""What the cells of a real model add up to: shares by judge, agreement, and differences that keep requests together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.audits.agreement import agreement
from holdfast.audits.real.cell import against
from holdfast.records import Agreement, Cell, Rate
from holdfast.records.shares import asked_again

NUM_RESAMPLES = 4000
SCORED = ("asr", "over_refusal")


@dataclass(frozen=True)
class Difference:
    """Of two shares on the same requests, seeds pooled, with its 95 % interval."""

    value: float
    low: float
    high: float


def judges_of(cells: Sequence[Cell]) -> list[str]:
    """Every judge whose verdicts the cells hold."""
    names = [key.removeprefix("asr:") for cell in cells for key in cell.outcomes if key.startswith("asr:")]
    return [name for name in dict.fromkeys(names) if name != "answers"]


def digits(cells: Sequence[Cell], attack: str, defence: str, key: str) -> list[str]:
    """One string per seed, in order of seeds; what could not be scored counts against the model."""
    found = [cell for cell in cells if (cell.attack, cell.defence) == (attack, defence) and key in cell.outcomes]
    return [against(cell.outcomes[key]) for cell in sorted(found, key=lambda cell: cell.seed)]


def share(cells: Sequence[Cell], attack: str, defence: str, key: str) -> Rate | None:
    """Seeds pooled, each request counted once; None where nothing was asked.

    Rows that vetting held are counted, not placed: held ones first. Their seeds overlap, and are taken to be the same rows.
    """
    found = digits(cells, attack, defence, key)
    return asked_again(found) if any(found) else None


def difference(cells: Sequence[Cell], first: tuple[str, str], second: tuple[str, str], key: str) -> Difference | None:
    """Share of ``first`` (attack, defence) minus share of ``second``, over the seeds that both have.

    Requests are drawn anew, each with all of its seeds.

    For the interval two requests are added that differ, one either way (Agresti and Min, 2005): else a few requests on which
    nothing differs would have no interval at all.
    """
    seeds = [{cell.seed for cell in cells if (cell.attack, cell.defence) == each} for each in (first, second)]
    both = [cell for cell in cells if cell.seed in seeds[0] & seeds[1]]
    ours, theirs = digits(both, *first, key), digits(both, *second, key)
    if not ours or not theirs or len({len(each) for each in (*ours, *theirs)}) != 1:
        return None
    by_request = _hits(ours).mean(0) - _hits(theirs).mean(0)
    rng = np.random.default_rng(0)
    padded = np.append(by_request, [1.0, -1.0])
    drawn = padded[rng.integers(len(padded), size=(NUM_RESAMPLES, len(padded)))].mean(1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Difference(float(by_request.mean()), float(low), float(high))


def judge_agreement(cells: Sequence[Cell], key: str) -> Agreement | None:
    """Of the first two judges on all answers of one measure. Every cell asks the same requests: they are what is drawn anew."""
    judges = judges_of(cells)[:2]
    if len(judges) < 2:
        return None
    rows = [[cell.outcomes.get(f"{key}:{name}", "") for cell in cells] for name in judges]
    first, second = map("".join, rows)
    places = [place for row in rows[0] for place in range(len(row))]
    return agreement(key, (judges[0], judges[1]), first, second, asked=places) if first else None


def unscored(cells: Sequence[Cell], judge: str) -> int:
    """Answers that the judge could not score, over all cells."""
    return sum(cell.outcomes.get(f"{key}:{judge}", "").count("?") for cell in cells for key in SCORED)


def _hits(rows: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.array([[float(digit == "1") for digit in row] for row in rows])
