"""Gradients by role on the page: bars as long as shares, a line as steep as the exponent, nothing from what cannot be read."""

import json
import math
import re

import pytest

from holdfast.reports import write_report
from holdfast.reports.attribution import FIGURES, attribution_part
from holdfast.reports.growth import Law, draw_laws, read_law
from holdfast.reports.roles_chart import log_limits, roles_chart
from holdfast.reports.svg import log_ticks
from holdfast.stats import Estimate

from .runs import HOSTILE

QUADRATIC = [[2.0, 0.04], [4.0, 0.16], [8.0, 0.64]]


def row(objective, role, share, **figures):
    return {
        "objective": objective,
        "role": role,
        "share": share,
        "cosine": 0.5,
        "norm": 1.0,
        "per_token_norm": 0.1,
    } | figures


def law(objective="sft", exponent=2.0, low=1.5, high=2.5, points=QUADRATIC):
    return {"objective": objective, "exponent": exponent, "low": low, "high": high, "points": points}


def report(*rows, growth=()):
    return {
        "kind": "attribution",
        "model": "tuned",
        "anchor": "base",
        "responses": 48,
        "rows": list(rows),
        "growth": list(growth),
    }


def bars(svg):
    """(left, width) of every bar."""
    return [(float(x), float(w)) for x, w in re.findall(r'class="bar" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', svg)]


def line(svg, style):
    """The slope that a line shows: both axes of these panels are drawn to the same range, from 46 to 266 and 180 to 30."""
    found = re.search(rf'class="line {style}" d="M([-\d.e+]+) ([-\d.e+]+)L([-\d.e+]+) ([-\d.e+]+)"', svg)
    x0, y0, x1, y1 = map(float, found.groups())
    return (y0 - y1) / 150 / ((x1 - x0) / 220)


def test_bars_are_as_long_as_shares_and_begin_at_zero():
    values = {("kl", "sample"): 1.25, ("kl", "decision"): -0.25, ("sft", "sample"): 0.5, ("sft", "decision"): 0.5}
    svg = roles_chart("t", ["kl", "sft"], ["sample", "decision"], values, share=True)
    (left, width), (negative, pulled), (_, half), _ = bars(svg)
    assert half == pytest.approx(width * 0.4, abs=0.02)
    assert pulled == pytest.approx(width * 0.2, abs=0.02)
    assert negative + pulled == pytest.approx(left, abs=0.02)  # ends where the other begins
    assert 'data-tip="kl, decision: -25 %"' in svg


def test_a_norm_is_a_mark_on_a_logarithmic_axis_and_zero_is_written():
    values = {
        ("a", "sample"): 0.01,
        ("b", "sample"): 0.1,
        ("c", "sample"): 1.0,
        ("d", "sample"): 0.0,
        ("e", "sample"): None,
    }
    svg = roles_chart("t", list("abcde"), ["sample"], values, log=True)
    places = [float(x) for x in re.findall(r"translate\(([\d.]+) ", svg)]
    assert len(places) == 3
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.02)
    assert svg.count(">0</text>") == 1
    assert svg.count(">–</text>") == 1
    assert 'data-tip="e, sample: unknown"' in svg


def test_the_line_is_as_steep_as_the_exponent_and_passes_through_the_points():
    (drawn,) = draw_laws([read_law(law())])
    assert drawn.text == "~ L^2.0 [1.5, 2.5]"
    across, up = (high - low for low, high in (log_limits(column) for column in zip(*QUADRATIC, strict=True)))
    assert line(drawn.svg, "s0") * up / across == pytest.approx(2.0, abs=0.01)
    x0, y0, x1, y1 = map(float, re.search(r'class="line s0" d="M(\S+) (\S+)L(\S+) (\S+)"', drawn.svg).groups())
    for x, y in re.findall(r"translate\(([\d.]+) ([\d.]+)\)", drawn.svg):
        assert float(y) == pytest.approx(y0 + (float(x) - x0) / (x1 - x0) * (y1 - y0), abs=0.1)
    corners = [
        tuple(map(float, c.split())) for c in re.search(r'class="spread s0" d="M([^Z]+)Z', drawn.svg)[1].split("L")
    ]
    slopes = [(a[1] - b[1]) / (b[0] - a[0]) * 220 / 150 * up / across for a, b in (corners[:2], corners[:1:-1])]
    assert slopes == pytest.approx([1.5, 2.5], abs=0.01)


def test_two_lengths_give_a_line_without_an_interval():
    (drawn,) = draw_laws([read_law(law(low=None, high=None, points=QUADRATIC[:2]))])
    assert drawn.text == "~ L^2.0 no interval"
    assert "spread" not in drawn.svg
    assert "line s0" in drawn.svg


def test_panels_share_their_axes():
    flat = law("reward", 0.0, -1.0, 1.0, [[2.0, 10.0], [8.0, 10.0]])
    first, second = draw_laws([read_law(law()), read_law(flat)])
    labels = [re.findall(r'class="tick"[^>]*>([^<]+)<', drawn.svg) for drawn in (first, second)]
    assert labels[0] == labels[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"exponent": None},
        {"exponent": math.inf},
        {"points": None},
        {"points": [[2.0, 1.0]]},
        {"points": [[2, 0], [4, 1], 3]},
    ],
)
def test_a_law_that_cannot_be_drawn_is_none(changes):
    assert read_law(law() | changes) is None


def test_extremes_do_not_stop_the_page():
    steep = Law("x", Estimate(1e300, -1e300, 1e300), [(1e-90, 1e90), (1e90, 1e-90)])
    assert draw_laws([steep])[0].svg
    assert draw_laws([]) == []
    far = attribution_part(report(row("a", "sample", 1e308, norm=1e-320, per_token_norm=10**400)), [])
    assert far.splits[0][1].count(">–</text>") == 1


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.6, 1.25, [5, 10, 15]),
        (-0.1, 1.05, [1, 2, 5, 10]),
        (-2, 2, [0.01, 0.1, 1, 10, 100]),
        (0, 12, [1, 1e2, 1e4, 1e6, 1e8, 1e10, 1e12]),
    ],
)
def test_ticks_of_a_logarithmic_axis_are_round(low, high, expected):
    assert [10**value for value in log_ticks(low, high)] == pytest.approx(expected)


def test_the_page_has_a_chart_per_figure_and_a_panel_per_law(tmp_path):
    rows = [row(o, r, s) for o in ("sft", HOSTILE) for r, s in (("sample", 0.75), ("decision", 0.25))]
    made = report(*rows, growth=[law(), law(HOSTILE), {"objective": "reward"}])
    (tmp_path / "attribution.json").write_text(json.dumps(made), encoding="utf-8")
    page = write_report(tmp_path).read_text(encoding="utf-8")
    section = page.split('<section id="attribution"')[1].split("</section>")[0]
    assert [title in section for title in FIGURES.values()] == [True] * 4
    assert section.count('class="chart growth"') == 2
    assert "48 responses under tuned, reference base." in section
    assert "sft, sample: 75 %" in section
    assert "~ L^2.0 [1.5, 2.5]" in section
    assert HOSTILE not in page
    assert "<img" not in section
    assert "no rows of gradients" not in page


@pytest.mark.parametrize("text", ["[]", "{}", '{"rows": [3, null]}', '{"rows": {"a": 1}, "growth": 7}'])
def test_what_cannot_be_read_is_a_note(tmp_path, text):
    (tmp_path / "attribution.json").write_text(text, encoding="utf-8")
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert '<section id="attribution"' not in page
    assert "<li>attribution.json: " in page


def test_what_is_too_much_to_draw_is_told():
    notes = []
    part = attribution_part(report(*(row(f"o{n}", f"role {n % 7}", 1.0) for n in range(40))), notes)
    assert len(part.legend) == 6
    assert notes == [
        "attribution.json: the first 32 of 40 objectives.",
        "attribution.json: the first 6 of 7 roles.",
    ]
