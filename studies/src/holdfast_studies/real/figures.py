"""What the cells of a real model add up to: shares by judge, agreement, and differences that keep requests together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.attacks import against
from holdfast.audits import agreement
from holdfast.records import Agreement, Cell, Rate, asked_again

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

    Requests are drawn anew, each with all of its seeds: all draws, not some of them, as a verdict may hang on one.

    For the interval two requests are added that differ, one either way (Agresti and Min, 2005): else a few requests on which
    nothing differs would have no interval at all.
    """
    seeds = [{cell.seed for cell in cells if (cell.attack, cell.defence) == each} for each in (first, second)]
    both = [cell for cell in cells if cell.seed in seeds[0] & seeds[1]]
    ours, theirs = digits(both, *first, key), digits(both, *second, key)
    if not ours or len(ours) != len(theirs) or len({len(each) for each in (*ours, *theirs)}) != 1:
        return None
    nets = (_hits(ours) - _hits(theirs)).sum(0)
    low, high = _drawn_anew(np.append(nets, [len(ours), -len(ours)]))
    return Difference(float(nets.mean()) / len(ours), low / len(ours), high / len(ours))


def _drawn_anew(nets: NDArray[np.int64]) -> tuple[float, float]:
    """The 2.5 % and 97.5 % points of the mean of as many draws with replacement, exact.

    ``nets`` are whole numbers, so the chances of a sum of n draws are the n-th power of one draw's under convolution.
    """
    num, reach = len(nets), int(np.abs(nets).max())
    one = np.bincount(nets + reach, minlength=2 * reach + 1) / num
    size = 2 * reach * num + 1
    chances = np.fft.irfft(np.fft.rfft(one, size) ** num, size)
    places = np.searchsorted(chances.cumsum(), [0.025, 0.975])
    low, high = (places - reach * num) / num
    return float(low), float(high)


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


def _hits(rows: Sequence[str]) -> NDArray[np.int64]:
    return np.array([[int(digit == "1") for digit in row] for row in rows])
