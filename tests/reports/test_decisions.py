"""Decide and sample on the page: a line per model, gaps where a rate is unknown, nothing from what cannot be read."""

import json

from holdfast.reports import write_report
from holdfast.reports.decisions import RATES, decisions_part

from .runs import HOSTILE


def cell(model, size, value):
    return {"model": model, "size": size, **{rate: {"value": value} for rate in RATES}}


def test_a_chart_per_rate_and_a_line_per_model():
    cells = [cell("base", "9x1", 0.3), cell("base", "4x1", 0.6), cell("grpo", "4x1", 0.9), cell("grpo", "9x1", None)]
    charts = decisions_part(cells)
    assert [title for title, _ in charts] == list(RATES.values())
    figures = charts[0][1].figures
    assert figures["x"] == [4, 9]
    assert figures["series"] == [["base", [0.6, 0.3]], ["grpo", [0.9, None]]]


def test_what_cannot_be_drawn_is_left_out():
    assert decisions_part([]) == []
    assert decisions_part([cell("base", "4x1", 0.5)]) == []  # one size makes no line
    odd = [{"model": "base", "size": "large"}, {"size": "4x1", "p_s": 3}, cell(None, "6x1", float("inf"))]
    assert all(value is None for _, chart in decisions_part(odd) for value in chart.figures["series"][0][1])


def test_the_page_has_them(tmp_path):
    cells = [cell(model, size, 0.5) for model in ("base", HOSTILE) for size in ("3x3", "3x9")]
    (tmp_path / "decisions.json").write_text(json.dumps(cells), encoding="utf-8")
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert '<section id="decisions"' in page
    assert HOSTILE not in page
    assert '"decisions3"' in page
