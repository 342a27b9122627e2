"""The matrix as the rows of a table: what each cell shows, how warm it is, and its tooltip."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.records import Measure
from holdfast.reports.measures import beside_lines, names_of, rate_text
from holdfast.reports.pooling import Matrix, Pooled
from holdfast.reports.svg import percent
from holdfast.stats import Estimate

LEVELS = 8  # the hottest; page.css has a colour for each from 0


@dataclass(frozen=True, slots=True)
class Face:
    """One measure of one cell."""

    measure: Measure
    value: str
    interval: str
    level: int | None  # None: no figure
    sort: float | None
    tip: str


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One cell of the table, with a face per measure; or the reason why it has none."""

    faces: list[Face]
    note: str = ""
    failure: str = ""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class HeatRow:
    """One defence."""

    defence: str
    cells: list[HeatCell]


def heat_rows(matrix: Matrix) -> list[HeatRow]:
    """Rows in the order the page opens with: the least worst attack success first, rows without figures last."""
    names = names_of(matrix)
    rows = [HeatRow(defence, _row(matrix, defence, names)) for defence in matrix.defences]
    worst = {defence: matrix.worst(defence, "asr") for defence in matrix.defences}

    def order(row: HeatRow) -> tuple[bool, float]:
        case = worst[row.defence]
        return case is None, case[1].value if case else 0.0

    return sorted(rows, key=order)


def _row(matrix: Matrix, defence: str, names: dict[Measure, str]) -> list[HeatCell]:
    cells = [_cell(matrix.pooled.get((defence, attack)), names) for attack in matrix.attacks]
    return [*cells, _worst(matrix, defence, names)] if len(matrix.attacks) > 1 else cells


def _cell(pooled: Pooled | None, names: dict[Measure, str]) -> HeatCell:
    if pooled is None:
        return HeatCell([], note="not run", tip="not run")
    reasons = [f"seed {cell.seed} failed: {cell.reason}" for cell in pooled.failed]
    if not pooled.done:
        why = dict.fromkeys(cell.reason for cell in pooled.failed)  # each reason once, in order
        return HeatCell(
            [], failure="; ".join(why), tip="\n".join([f"{pooled.defence} under {pooled.attack}", *reasons])
        )
    faces = [_face(measure, pooled.rate(measure), _tip(pooled, measure, names, reasons)) for measure in names]
    few = f"{len(pooled.done)} of {len(pooled.cells)} seeds" if reasons else ""
    alone = "run again alone" if any(cell.ran_alone for cell in pooled.done) else ""
    return HeatCell(faces, note=", ".join(filter(None, (few, alone))))


def _tip(pooled: Pooled, measure: Measure, names: dict[Measure, str], reasons: list[str]) -> str:
    rate = pooled.rate(measure)
    lines = [
        f"{pooled.defence} under {pooled.attack}",
        f"{names[measure]} {rate_text(rate) if rate else 'not measured'}",
        *(beside_lines(pooled, names) if measure == "asr" else ()),
    ]
    seeds = [(cell.seed, getattr(cell, measure)) for cell in pooled.done]
    lines += [f"seed {seed}: {percent(one.value)} of {one.n:,}" for seed, one in seeds if one is not None]
    alone = [
        f"seed {cell.seed}: run again alone, after running out of memory" for cell in pooled.done if cell.ran_alone
    ]
    return "\n".join([*lines, *alone, *reasons])


def _face(measure: Measure, rate: Estimate | None, tip: str) -> Face:
    if rate is None:
        return Face(measure, "–", "", None, None, tip)
    low, high = (f"{100 * value:.1f}" if rate.n >= 1000 else f"{100 * value:.0f}" for value in (rate.low, rate.high))
    return Face(measure, percent(rate.value), f"{low}–{high}", round(LEVELS * rate.value), rate.value, tip)


def _worst(matrix: Matrix, defence: str, names: dict[Measure, str]) -> HeatCell:
    faces, measured = [], len(matrix.attacks)
    for measure in names:
        case = matrix.worst(defence, measure)
        if case is None:
            faces.append(_face(measure, None, f"{defence}: {names[measure]} not measured under any attack"))
            continue
        attack, rate, measured = case
        tip = f"{defence} at its worst: under {attack}\n{names[measure]} {rate_text(rate)}"
        faces.append(_face(measure, rate, tip))
    note = f"of {measured} of {len(matrix.attacks)} attacks" if measured < len(matrix.attacks) else ""
    return HeatCell(faces, note=note)
