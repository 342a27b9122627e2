"""The committed figures: every claim has a verdict that another figure would change, and docs/papers.md says what they say."""

import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from docs.pages import ROOT
from holdfast_studies.papers.figure_files import Kept, kept_figures
from holdfast_studies.papers.ledger import write_ledger
from holdfast_studies.papers.registry import studies
from holdfast_studies.papers.running import rows_of, stored
from holdfast_studies.papers.study import MACHINES, Claim, Study

FOLDER = ROOT / "docs" / "results" / "papers"
ERRATA = {"000": 1, "001": 5, "002": 6, "004": 8}
"""Rows of the list of slips that the project started from (MATH §8), by paper: each has a row here, or several."""
KEPT = {
    study.id: kept
    for study in studies().values()
    for scale in MACHINES
    if scale in study.seconds and (kept := kept_figures(study, scale, FOLDER)) is not None
}


def test_the_ledger_says_what_the_figures_say(tmp_path: Path) -> None:
    write_ledger(tmp_path / "papers.md", list(studies().values()), stored(studies().values(), FOLDER))
    made = (tmp_path / "papers.md").read_text(encoding="utf-8")
    assert made == (ROOT / "docs" / "papers.md").read_text(encoding="utf-8"), "run the command at the head of the page"


def test_every_paper_has_its_errata_and_every_row_a_verdict() -> None:
    rows = [row for study in studies().values() for row in rows_of(study, KEPT.get(study.id))]
    for paper, num in ERRATA.items():
        assert sum(row.erratum for row in rows if row.paper == paper) >= num, paper
    for row in rows:
        assert row.found, row.id
        assert row.verdict != "not testable here" or row.found.startswith("needed: "), row.id
        assert "\n" not in row.found


def test_all_figures_are_of_studies_that_are_there() -> None:
    known = {f"{study.id}.{scale}.json" for study in studies().values() for scale in study.seconds}
    files = {path.name: path.stat().st_size for path in FOLDER.glob("*.json")}
    assert files.keys() <= known
    assert max(files.values()) < 60_000


JUDGED = [(study, claim) for study in studies().values() if study.id in KEPT for claim in study.claims]


@pytest.mark.parametrize(("study", "claim"), JUDGED, ids=lambda each: each.id)
def test_no_verdict_is_typed_in(study: Study, claim: Claim) -> None:
    kept: Kept = KEPT[study.id]
    before = claim.judge(kept.figures).verdict
    if before == "not testable here":  # says what is needed, not what was found
        return
    assert any(_verdict(claim, changed) not in (before, None) for changed in changes(kept.figures)), (
        f"{claim.id}: '{before}' whatever the figures"
    )


def _verdict(claim: Claim, figures: Any) -> str | None:
    """None where such figures make no sense to the rule."""
    try:
        return claim.judge(figures).verdict
    except (ArithmeticError, ValueError, TypeError, LookupError, AssertionError):
        return None


CHANGES: tuple[Callable[[Any], Any], ...] = (
    lambda x: x * 0,
    lambda x: -x,
    lambda x: 1 - x,
    lambda x: 1000 * x,
    lambda x: x / 1000,
    lambda x: x + 1,
    lambda x: 1.0,
    lambda x: 0.5,
)


NUM_RANDOM = 400


def changes(figures: Any) -> Iterator[Any]:
    """The figures with one part of them, large or small, changed in one way; then with every figure changed by chance."""
    yield from (altered(figures, change) for change in CHANGES)
    for path in paths(figures):
        for change in CHANGES:
            yield with_part(figures, path, lambda part, change=change: altered(part, change))
            yield from (
                with_part(figures, path, lambda part, column=column, change=change: in_column(part, column, change))
                for column in columns(at(figures, path))
            )
    for seed in range(NUM_RANDOM):
        yield altered(figures, chance(figures, random.Random(seed)))


def at(figures: Any, path: list[Any]) -> Any:
    return reduce(lambda part, key: part[key], path, figures)


def with_part(figures: Any, path: list[Any], change: Callable[[Any], Any]) -> Any:
    changed = deepcopy(figures)
    inside = at(changed, path[:-1])
    inside[path[-1]] = change(inside[path[-1]])
    return changed


def columns(rows: Any) -> list[Any]:
    """The places or names that all rows of a table have."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, list | dict) for row in rows):
        return []
    first = rows[0]
    return list(first if isinstance(first, dict) else range(min(map(len, rows))))


def in_column(rows: Any, column: Any, change: Callable[[Any], Any]) -> Any:
    for row in rows:
        row[column] = altered(row[column], change)
    return rows


def chance(figures: Any, rng: random.Random) -> Callable[[Any], Any]:
    """Leaves a figure, puts another one of the study in its place, or changes it."""
    others: list[float] = []
    altered(figures, lambda x: others.append(x) or x)
    choices = [lambda x: x, lambda x: rng.choice(others), lambda x: rng.choice(CHANGES)(x)]
    return lambda x: rng.choice(choices)(x)


def paths(figures: Any, depth: int = 4) -> Iterator[list[Any]]:
    """Of parts, the larger before the smaller; of a long list the first and the last."""
    keys = list(figures) if isinstance(figures, dict) else [0, len(figures) - 1] if isinstance(figures, list) else []
    yield from ([key] for key in keys if figures)
    if depth and figures:
        for key in keys:
            if isinstance(figures[key], dict | list):
                yield from ([key, *rest] for rest in paths(figures[key], depth - 1))


def altered(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {key: altered(each, change) for key, each in value.items()}
    if isinstance(value, list):
        return [altered(each, change) for each in value]
    if isinstance(value, bool):
        return not value
    if isinstance(value, str) and value and set(value) <= set("01"):
        return "".join(str(int(change(int(digit)) >= 0.5)) for digit in value)  # outcomes, one digit each
    return change(value) if isinstance(value, int | float) else value


def test_the_search_changes_large_and_small_parts() -> None:
    figures = json.loads('{"a": [1, 2], "b": {"c": "01", "d": 3.5}}')
    assert {json.dumps(each) for each in changes(figures)} > {
        '{"a": [0, 0], "b": {"c": "01", "d": 3.5}}',
        '{"a": [1, 2], "b": {"c": "10", "d": 3.5}}',
        '{"a": [1, 2], "b": {"c": "01", "d": -3.5}}',
    }
