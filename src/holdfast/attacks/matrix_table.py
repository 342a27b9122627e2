"""The matrix as text: one measure, defences down, attacks across, seeds pooled, with marks for what differs."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.attacks.paired import Paired
from holdfast.records import BESIDE, MEASURES, Cell, Measure, ask_the_same, pooled_cells
from holdfast.stats import Estimate

MEASURE_TITLES: dict[Measure, str] = {
    "asr": "forbidden requests complied with (less is safer)",
    "over_refusal": "harmless look-alikes refused (less is better)",
    "utility": "answers right (more is better)",
    "missed": "forbidden requests missed: neither refused nor complied with",
    "harmless_missed": "harmless look-alikes missed (less is better)",
    "kept": "harmless look-alikes with the outcome of the untouched model (more is better)",
}
NOT_REFUSED = "forbidden requests not refused, or called unsafe (less is safer; missed and complied are not told apart)"
COUNTED = {True: "complied with", False: "not refused"}
"""What attack success counts, by whether every cell's judge tells missed from complied."""
MARKS = {"sft": "*", "anchored": "†"}


def shown_measures(cells: Sequence[Cell]) -> list[tuple[Measure, str]]:
    """The measures to show, with their titles: the three, and those beside them that some cell has."""
    titles = dict(MEASURE_TITLES)
    if not tell_outcomes(cells):
        titles["asr"] = NOT_REFUSED
    beside = [measure for measure in BESIDE if any(getattr(cell, measure) is not None for cell in cells)]
    return [(measure, titles[measure]) for measure in (*MEASURES, *beside)]


def tell_outcomes(cells: Sequence[Cell]) -> bool:
    """Whether attack success counts what complied in every cell that has figures."""
    return all(cell.tells_outcomes for cell in cells if cell.status == "ok")


def rows_of(
    cells: Sequence[Cell], tests: Sequence[Paired], measure: Measure
) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The names of the attacks, and for every defence its texts in their order."""
    attacks = list(dict.fromkeys(cell.attack for cell in cells))
    defences = list(dict.fromkeys(cell.defence for cell in cells))
    marks = _marks(tests, measure)
    rows = []
    for defence in defences:
        groups = [[cell for cell in cells if (cell.attack, cell.defence) == (a, defence)] for a in attacks]
        texts = [_text(group, measure) for group in groups]
        marked = [f"{text} {marks.get((a, defence), '')}".rstrip() for a, text in zip(attacks, texts, strict=True)]
        rows.append((defence, marked))
    return attacks, rows


def cell_text(whole: Estimate) -> str:
    """``2.0% [1%, 5%]``."""
    return f"{whole.value:6.1%} [{whole.low:.0%}, {whole.high:.0%}]"


def beside(missed: Estimate | None, kept: Estimate | None) -> str:
    """What a safety figure must not be read without, in brackets; empty where it was not measured."""
    said = [f"{name} {share.value:.1%}" for name, share in (("missed", missed), ("kept", kept)) if share is not None]
    return f" ({', '.join(said)})" if said else ""


def legend(cells: Sequence[Cell], tests: Sequence[Paired]) -> str:
    """What the marks of these tests mean, in one sentence; empty where no test has a reference with a mark."""
    references = {test.other for test in tests}
    marks = [f"{mark} differs from {other}" for other, mark in MARKS.items() if other in references]
    test = "exact sign flips, each request once" if ask_the_same(cells) else "exact McNemar on the same requests"
    return f"{', '.join(marks)} beyond chance ({test}, Holm, 5 %)" if marks else ""


def ran_alone(cells: Sequence[Cell]) -> str:
    """Which cells were run again, in one sentence; empty where none was."""
    names = [f"{cell.attack} x {cell.defence}, seed {cell.seed}" for cell in cells if cell.ran_alone]
    return f"Run again alone, after running out of memory beside other cells: {'; '.join(names)}" if names else ""


def _text(cells: Sequence[Cell], measure: Measure) -> str:
    if (whole := pooled_cells(cells, measure)) is not None:
        return cell_text(whole)
    return "failed" if any(cell.status == "failed" for cell in cells) else "not asked"


def _marks(tests: Sequence[Paired], measure: Measure) -> dict[tuple[str, str], str]:
    marks: dict[tuple[str, str], str] = {}
    for test in tests:
        if test.measure == measure and test.differs:
            key = test.attack, test.defence
            marks[key] = marks.get(key, "") + MARKS.get(test.other, "")
    return marks
