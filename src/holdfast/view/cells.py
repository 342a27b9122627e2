"""A matrix as it fills up: the report's table from the cells that are there, and one cell opened."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.records import BESIDE, MEASURES, Cell, Measure, unsafe_means
from holdfast.reports.findings import findings
from holdfast.reports.heat import LEVELS, heat_rows
from holdfast.reports.measures import NAMES, meanings_of, names_of, rate_text
from holdfast.reports.outcomes import WORDS as OUTCOME_WORDS
from holdfast.reports.outcomes import matrix_outcomes
from holdfast.reports.pooling import Pooled, pool
from holdfast.reports.reading import Problems, cells_of, read_cells
from holdfast.reports.text import named, shown
from holdfast.view.folders import readable

MAX_CELLS = 5_000
WORDS: dict[str, tuple[str, str]] = {  # of a hit and of none
    "asr": ("complied", "did not comply"),  # by the world's oracle; other judges that say yes or no tell less
    "not_refused": ("not refused", "refused"),
    "unsafe": ("unsafe", "safe"),
    "over_refusal": ("refused", "did not refuse"),
    "utility": ("right", "wrong"),
    "vetted": ("held", "learned"),
}
UNJUDGED = "could not be judged"


def read_matrix(path: Path, *, running: bool) -> list[Cell]:
    """The cells of a run: of the finished table, or one by one while it is being filled."""
    table = path / "matrix.jsonl"
    if readable(table) and not running:
        return read_cells(table, [])[:MAX_CELLS]
    return cells_of(_rows(path / "cells"), Problems("cells"))


def _rows(folder: Path) -> Iterator[tuple[int, dict[str, object]]]:
    files = sorted(folder.glob("*.json")) if folder.is_dir() and not folder.is_symlink() else []
    cells = [file for file in files if not file.name.endswith(".inside.json") and not file.is_symlink()]
    for number, file in enumerate(cells[:MAX_CELLS], 1):
        try:
            row = json.loads(file.read_text(encoding="utf-8", errors="replace")) if readable(file) else None
        except (OSError, ValueError, RecursionError):
            continue  # being written, or damaged: then it is run again
        if isinstance(row, dict):
            yield number, _flat(row)


def _flat(row: dict[str, object]) -> dict[str, object]:
    """A cell's file has each measure as an object; the table has its value and trials side by side."""
    for measure in (*MEASURES, *BESIDE):
        part = row.get(measure)
        if isinstance(part, dict):
            row[measure], row[f"{measure}_trials"] = part.get("value"), part.get("trials")
    return row


def matrix_values(cells: Sequence[Cell]) -> dict[str, Any]:
    """What the report's template of the matrix is given."""
    matrix = pool(cells)
    return {
        "matrix": matrix,
        "rows": heat_rows(matrix),
        "findings": findings(matrix),
        "names": names_of(matrix),
        "meanings": meanings_of(matrix),
        "levels": range(LEVELS + 1),
        "replied": matrix_outcomes(matrix),
        "outcome_words": OUTCOME_WORDS,
    }


@dataclass(frozen=True)
class Judged:
    """How often each outcome was given by one judge, for one measure, all seeds together."""

    measure: str
    judge: str
    counts: list[tuple[str, int]]


@dataclass(frozen=True)
class RequestRow:
    """One request of one seed: its text where it is known, and what each judge said."""

    number: int
    text: str
    outcomes: list[str]


def cell_values(cells: Sequence[Cell], defence: str, attack: str, *, with_requests: bool) -> dict[str, Any] | None:
    """One place of the matrix: figures by seed, outcomes by judge, the paired difference, and if asked for the requests."""
    matrix = pool(cells)
    pooled, names = matrix.pooled.get((defence, attack)), names_of(matrix)
    if pooled is None:
        return None
    return {
        "cell": pooled,
        "figures": [_seed_figures(cell, list(names)) for cell in pooled.cells],
        "judged": list(_judged(pooled)),
        "pairs": _pairs(cells, pooled, names),
        "num_requests": sum(len(cell.hits("asr")) for cell in pooled.done),
        "requests": [_requests(cell) for cell in pooled.done] if with_requests else None,
        "names": names,
    }


def _seed_figures(cell: Cell, measures: Sequence[Measure]) -> tuple[int, list[str], str]:
    rates = [getattr(cell, measure) for measure in measures]
    return cell.seed, [rate_text(rate) if rate else "–" for rate in rates], cell.reason


def outcome_word(measure: str, judge: str, outcome: object) -> str:
    """An outcome in words. A judge may tell one by name (refused, missed, complied), or only whether it was a hit."""
    if isinstance(outcome, str):
        return shown(outcome, 40)
    hit, miss = WORDS.get(_counted(measure, judge), ("yes", "no"))
    return hit if outcome is True else miss if outcome is False else UNJUDGED


def _counted(measure: str, judge: str) -> str:
    """What a measure counts by this judge. Attack success by one that tells no outcomes is what was not refused, or unsafe."""
    return unsafe_means(judge) if measure == "asr" and judge != "world" else measure


def _judged(pooled: Pooled) -> Iterator[Judged]:
    for name in dict.fromkeys(name for cell in pooled.done for name in cell.outcomes):
        measure, _, judge = name.partition(":")
        if not judge and any(other.startswith(f"{name}:") for cell in pooled.done for other in cell.outcomes):
            continue  # the same as its first judge's
        who = named(judge) or pooled.cells[0].judge
        words = Counter(outcome_word(measure, who, one) for cell in pooled.done for one in cell.outcomes.get(name, ()))
        counted = _counted(measure, who)
        counted_name = NAMES.get(counted, named(counted).replace("_", " "))  # type: ignore[call-overload]
        yield Judged(counted_name, who, words.most_common())


def _pairs(cells: Sequence[Cell], pooled: Pooled, names: Mapping[Measure, str]) -> list[dict[str, Any]]:
    """Against the references, on the same requests; nothing where the outcomes do not fit each other."""
    from holdfast.attacks import paired_tests  # brings torch

    judge = pooled.cells[0].judge
    comparable = [cell for cell in cells if cell.attack == pooled.attack and cell.judge == judge]
    try:
        tests = paired_tests(comparable)
    except (ValueError, TypeError):
        return []
    name = pooled.cells[0].defence
    return [
        {
            "measure": names[test.measure],
            "other": test.other,
            "only_own": test.only_defence,
            "only_other": test.only_other,
            "trials": test.trials,
            "difference": f"{100 * (test.only_defence - test.only_other) / max(1, test.trials):+.1f}",
            "p": f"{test.p_holm:.2g}",
        }
        for test in tests
        if test.defence == name and test.measure in names
    ]


def _requests(cell: Cell) -> tuple[int, list[str], list[RequestRow]]:
    keys = [name for name in cell.outcomes if name.partition(":")[0] in ("harmful", "asr")]
    keys = [name for name in keys if name != "asr" or len(keys) == 1]
    judges = [named(name.partition(":")[2]) or cell.judge for name in keys]
    said = [(judge, cell.outcomes[name]) for judge, name in zip(judges, keys, strict=True)]
    texts = _texts(cell, max((len(outcomes) for _, outcomes in said), default=0))
    rows = [
        RequestRow(
            number + 1,
            text,
            [
                outcome_word("asr", judge, outcomes[number]) if number < len(outcomes) else "–"
                for judge, outcomes in said
            ],
        )
        for number, text in enumerate(texts)
    ]
    return cell.seed, judges, rows


def _texts(cell: Cell, num: int) -> list[str]:
    """The embedded world draws its requests again from the seed; those of a user's files are not kept in a run."""
    if cell.judge != "world" or cell.asks_again or not 0 < num <= 2_000 or abs(cell.seed) > 1_000_000:
        return [""] * num
    from holdfast.attacks import WorldSetting

    rows = WorldSetting(num_requests=num).forbidden(cell.seed)
    return [*(row.prompt[-1].visible for row in rows), *[""] * num][:num]
