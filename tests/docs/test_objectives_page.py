"""docs/objectives.md: every number of its examples, every quoted line and every default comes from the code."""

from __future__ import annotations

import doctest
import inspect
import math
import re
from dataclasses import asdict, is_dataclass
from typing import Any

import pytest
import yaml

from docs.pages import DOCS, ROOT, fenced, section, table_rows, without_fences
from holdfast import objectives

PAGE = (DOCS / "objectives.md").read_text(encoding="utf-8")
GIVEN = ("stats", "role", "position")
SUM = re.compile(r"`([^`=]+) = (-?\d+\.\d+)`")


def test_the_examples_give_what_the_page_says() -> None:
    source = "\n".join(fenced(PAGE, "python"))
    examples = doctest.DocTestParser().get_doctest(source, {}, "objectives.md", "docs/objectives.md", 0)
    said: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(examples, out=said.append)
    assert results.failed == 0, "".join(said)
    assert results.attempted >= 25
    for name in objectives.REGISTRY:
        assert f">>> loss_and_gradient(objectives.{name}" in section(PAGE, name), f"{name} has no worked example"


@pytest.mark.parametrize("name", ["One token for all the examples", *objectives.REGISTRY])
def test_the_arithmetic_by_hand_is_right(name: str) -> None:
    """`expression = number` in the text, to the digits printed; and each ends in a number of the example."""
    text = without_fences(section(PAGE, name))
    sums = SUM.findall(text)
    assert sums, "nothing is worked by hand"
    for expression, printed in sums:
        value = eval(expression, {"log": math.log, "exp": math.exp})
        digits = len(printed.partition(".")[2])
        assert abs(value - float(printed)) <= 0.5000001 * 10**-digits, f"{expression} is {value}"
    if name in objectives.REGISTRY:
        losses = {float(number) for number in re.findall(r"^\((\d+\.\d+), \[", section(PAGE, name), re.MULTILINE)}
        assert losses & {float(printed) for _, printed in sums}, "the hand's result is not the example's"


@pytest.mark.parametrize("name", objectives.REGISTRY)
def test_the_quoted_line_is_in_the_file(name: str) -> None:
    found = re.search(r"\*\*The line\*\*: `([^`]+)` in\s+\[\w+\.py\]\(\.\./([^)]+)\)", section(PAGE, name))
    assert found, "no line quoted"
    code = (ROOT / found[2]).read_text(encoding="utf-8")
    assert found[1] in [line.strip() for line in code.splitlines()]
    assert f"def {name}(" in code


@pytest.mark.parametrize("name", objectives.REGISTRY)
def test_options_and_defaults_are_those_of_the_function(name: str) -> None:
    takes = inspect.signature(objectives.REGISTRY[name]).parameters.values()
    real = {each.name: _plain(each.default) for each in takes if each.name not in GIVEN}
    told = {row[0].strip("`"): yaml.safe_load(row[1].strip("`")) for row in table_rows(section(PAGE, name))}
    told.pop("soften", None)  # an option of the statistics, read by the trainer
    assert told == real


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def test_the_table_says_who_needs_an_anchor() -> None:
    rows = {row[0]: row[2] for row in table_rows(PAGE.partition("## ")[0])}
    for name in objectives.REGISTRY:
        assert rows[f"[`{name}`](#{name})"].startswith("yes") == objectives.needs_anchor(name)


def test_the_log_has_the_figures_that_the_page_explains() -> None:
    from holdfast.training import monitor, streams

    code = inspect.getsource(monitor) + inspect.getsource(streams)
    for row in table_rows(section(PAGE, "What steps.jsonl shows")):
        for name in re.findall(r"`[\w.]*?\.?(\w+)`", row[0]):
            assert f'"{name}"' in code, f"{name} is written nowhere"
