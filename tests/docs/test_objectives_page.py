"""docs/objectives.md and the page of each: every number of the examples, every quoted line and default is the code's."""

from __future__ import annotations

import doctest
import inspect
import math
import re
import sys
from dataclasses import asdict, is_dataclass
from importlib import import_module
from typing import Any

import pytest
import yaml

from docs.pages import DOCS, ROOT, fenced, section, table_rows, without_fences
from holdfast import objectives

INDEX = (DOCS / "objectives.md").read_text(encoding="utf-8")
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((DOCS / "objectives").glob("*.md"))}
MEASURED = "What we measured"
GIVEN = ("stats", "role", "position")
SUM = re.compile(r"`([^`=]+) = (-?\d+\.\d+)`")
LINE = re.compile(r"\*\*The line\*\*: `([^`]+)`\s+\(\[(\w+\.py), line (\d+)\]\(\.\./\.\./([^)#]+)#L(\d+)\)\)")
each_objective = pytest.mark.parametrize("name", objectives.REGISTRY)


def written(name: str) -> str:
    """A page without what is measured."""
    return PAGES[name].partition(f"## {MEASURED}")[0]


def test_every_objective_has_its_page_and_its_row() -> None:
    assert set(PAGES) == {*objectives.REGISTRY, "anchored", "budget"}
    assert set(re.findall(r"^\| \[`(\w+)`\]\(objectives/\1\.md\)", INDEX, re.MULTILINE)) == set(PAGES)
    for name, page in PAGES.items():
        assert page.startswith(f"# {name}\n\n    "), f"{name} does not open with its equation"
        for part in ("**Source**", "**Recipe**", "**Use it**", "**Not**", f"## {MEASURED}"):
            assert part in page, f"{name}: no {part}"
        assert f"](../../src/holdfast/recipes/{name}.yaml)" in page


@each_objective
def test_the_examples_give_what_the_page_says(name: str) -> None:
    source = "\n".join(fenced(INDEX, "python") + fenced(PAGES[name], "python"))
    examples = doctest.DocTestParser().get_doctest(source, {}, name, f"docs/objectives/{name}.md", 0)
    said: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(examples, out=said.append)
    assert results.failed == 0, "".join(said)
    assert f">>> loss_and_gradient(objectives.{name}" in PAGES[name], "no worked example"


@pytest.mark.parametrize("name", ["One token for all the examples", *objectives.REGISTRY])
def test_the_arithmetic_by_hand_is_right(name: str) -> None:
    """`expression = number` in the text, to the digits printed; and each ends in a number of the example."""
    page = written(name) if name in PAGES else section(INDEX, name)
    sums = SUM.findall(without_fences(page))
    assert sums, "nothing is worked by hand"
    for expression, printed in sums:
        value = eval(expression, {"log": math.log, "exp": math.exp})
        digits = len(printed.partition(".")[2])
        assert abs(value - float(printed)) <= 0.5000001 * 10**-digits, f"{expression} is {value}"
    if name in objectives.REGISTRY:
        losses = {float(number) for number in re.findall(r"^\((\d+\.\d+), \[", page, re.MULTILINE)}
        assert losses & {float(printed) for _, printed in sums}, "the hand's result is not the example's"


def test_the_example_of_a_budget_gives_what_the_page_says() -> None:
    source = "\n".join(block for block in fenced(PAGES["budget"], "python") if ">>>" in block)
    examples = doctest.DocTestParser().get_doctest(source, {}, "budget", "docs/objectives/budget.md", 0)
    said: list[str] = []
    assert doctest.DocTestRunner(verbose=False).run(examples, out=said.append).failed == 0, "".join(said)
    ((expression, printed),) = SUM.findall(without_fences(PAGES["budget"]))
    assert eval(expression, {"exp": math.exp}) == pytest.approx(float(printed), abs=5e-5)


def test_the_table_of_budgets_is_that_of_its_cells() -> None:
    sys.path.insert(0, str(DOCS / "tools"))
    pages = import_module("budget_pages")
    cells = pages.read_cells()
    for page, makers in pages.PAGES.items():
        text = page.read_text(encoding="utf-8")
        assert [name for name, maker in makers.items() if maker(cells) not in text] == []
    assert pages.picture(cells) == pages.PICTURE.read_text(encoding="utf-8")
    assert pages.plane(cells) == pages.PLANE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_the_link_leads_to_the_quoted_line(name: str) -> None:
    found = LINE.search(PAGES[name])
    assert found, "no line quoted"
    quoted, file, said, path, linked = found.groups()
    assert said == linked
    assert path.endswith(f"/{file}")
    code = (ROOT / path).read_text(encoding="utf-8")
    lines = [line.strip() for line in code.splitlines()]
    assert lines[int(linked) - 1] == quoted, (
        f"it is line {lines.index(quoted) + 1}" if quoted in lines else "it is gone"
    )
    if name in objectives.REGISTRY:
        assert f"def {name}(" in code


@each_objective
def test_options_and_defaults_are_those_of_the_function(name: str) -> None:
    takes = inspect.signature(objectives.REGISTRY[name]).parameters.values()
    real = {each.name: _plain(each.default) for each in takes if each.name not in GIVEN}
    told = {row[0].strip("`"): yaml.safe_load(row[1].strip("`")) for row in table_rows(written(name))}
    told.pop("soften", None)  # an option of the statistics, read by the trainer
    assert told == real


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def test_the_table_says_who_needs_an_anchor() -> None:
    rows = {row[0]: row[2] for row in table_rows(INDEX.partition("## ")[0])}
    for name in objectives.REGISTRY:
        assert rows[f"[`{name}`](objectives/{name}.md)"].startswith("yes") == objectives.needs_anchor(name)


def test_the_log_has_the_figures_that_the_page_explains() -> None:
    from holdfast.training import budget, monitor, streams

    code = "".join(inspect.getsource(module) for module in (budget, monitor, streams))
    code += "".join(f'"{gauge}"' for objective in objectives.REGISTRY.values() for gauge in objective.gauges)
    for row in table_rows(section(INDEX, "What steps.jsonl shows")):
        for name in re.findall(r"`[\w.]*?\.?(\w+)`", row[0]):
            assert f'"{name}"' in code, f"{name} is written nowhere"
