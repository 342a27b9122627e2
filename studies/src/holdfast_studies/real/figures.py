"""What the cells of a real model add up to: shares by judge, agreement, and differences that keep requests together."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.records import Agreement, Cell
from holdfast.stats import Estimate, difference_of_repeats, share_of_repeats

SCORED = ("asr", "over_refusal")


def judges_of(cells: Sequence[Cell]) -> list[str]:
    """Every judge whose verdicts the cells hold."""
    return list(dict.fromkeys(judge for cell in cells for judge in cell.judges))


def hits_of(cells: Sequence[Cell], attack: str, defence: str, key: str) -> list[tuple[bool, ...]]:
    """For every seed, in order, whether each request is a hit. What could not be scored counts against the model."""
    matching = [cell for cell in cells if (cell.attack, cell.defence) == (attack, defence) and cell.hits(key)]
    return [cell.counted(key) for cell in sorted(matching, key=lambda cell: cell.seed)]


def share(cells: Sequence[Cell], attack: str, defence: str, key: str) -> Estimate | None:
    """The share of hits over all seeds, each request counted once; None where nothing was asked.

    Of rows that vetting held only the number is known, so they are listed first. The seeds' held rows overlap, and are
    taken to be the same rows.
    """
    hits = hits_of(cells, attack, defence, key)
    return share_of_repeats(hits) if any(hits) else None


def difference(cells: Sequence[Cell], first: tuple[str, str], second: tuple[str, str], key: str) -> Estimate | None:
    """Share of ``first`` (attack, defence) minus share of ``second``, over the seeds that both have."""
    seeds = [{cell.seed for cell in cells if (cell.attack, cell.defence) == pair} for pair in (first, second)]
    both = [cell for cell in cells if cell.seed in seeds[0] & seeds[1]]
    ours, theirs = hits_of(both, *first, key), hits_of(both, *second, key)
    if not ours or len(ours) != len(theirs) or len({len(hits) for hits in (*ours, *theirs)}) != 1:
        return None
    return difference_of_repeats(ours, theirs)


def judge_agreement(cells: Sequence[Cell], key: str) -> Agreement | None:
    """The agreement of the first two judges on all answers of one measure.

    Every cell asks the same requests, so the requests are resampled.
    """
    judges = judges_of(cells)[:2]
    if len(judges) < 2:
        return None
    rows = [[cell.hits(f"{key}:{name}") for cell in cells] for name in judges]
    first, second = ([label for row in own for label in row] for own in rows)
    places = [place for row in rows[0] for place in range(len(row))]
    return Agreement.of(key, (judges[0], judges[1]), first, second, requests=places) if first else None


def unscored(cells: Sequence[Cell], judge: str) -> int:
    """How many answers the judge could not score, over all cells."""
    return sum(cell.hits(f"{key}:{judge}").count(None) for cell in cells for key in SCORED)
