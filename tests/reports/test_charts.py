"""Scales, ticks, gaps, labels that keep apart, and a plane whose front is where it should be."""

import itertools
import re

import pytest

from holdfast.reports.lines import LABEL_STEP, MAX_POINTS, Series, line_chart, thin
from holdfast.reports.plane import Box, plane, plane_points, utility_limits
from holdfast.reports.pooling import pool
from holdfast.reports.reading import read_run
from holdfast.reports.svg import HEIGHT, WIDTH, Axis, limits, number, percent, tag, ticks

from .runs import matrix_rows, write_lines


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.25, 0.5, 0.75, 1]),
        (0, 7, [0, 2, 4, 6]),
        (0.81, 0.96, [0.85, 0.9, 0.95]),
        (0, 3e-5, [0, 1e-5, 2e-5, 3e-5]),
    ],
)
def test_ticks_are_round(low, high, expected):
    assert ticks(low, high, 4) == pytest.approx(expected)


def test_limits_are_never_empty():
    for values in ([], [0.0], [3.0, 3.0], [1e9, 1e9], [-2.0, -2.0]):
        low, high = limits(values)
        assert low < high
        assert ticks(low, high) is not None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 %"),
        (1 / 2500, "0.04 %"),
        (0.002, "0.2 %"),
        (1 / 200, "0.5 %"),
        (0.5, "50 %"),
        (0.998, "99.8 %"),
        (0.9999, "99.99 %"),
        (1, "100 %"),
    ],
)
def test_a_share_never_reads_as_none_or_all_when_it_is_not(value, text):
    assert percent(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.0123, "0.0123"), (12345, "12,345"), (2e-7, "2.0e-07")])
def test_numbers(value, text):
    assert number(value) == text


def test_tags_escape_text_and_attributes():
    made = tag("text", "<b>&", class_='a"b', data_tip="<i>")
    assert made == '<text class="a&#34;b" data-tip="&lt;i&gt;">&lt;b&gt;&amp;</text>'


def test_a_gap_breaks_the_line_and_a_lone_point_is_a_dot():
    chart = line_chart("k", "t", [1, 2, 3, 4, 5], [Series("a", 0, [1.0, 1.0, None, 2.0, None])], x_name="x", y_name="y")
    path = re.search(r'class="line s0" d="([^"]*)"', chart.svg)[1]
    assert re.fullmatch(r"M[\d. ]+L[\d. ]+M[\d. ]+h\.01", path)
    assert chart.figures["series"] == [["a", [1.0, 1.0, None, 2.0, None]]]


def test_end_labels_keep_apart_and_inside():
    series = [Series(f"s{i}", i, [0.0, 0.001 * i]) for i in range(9)]
    svg = line_chart("k", "t", [1, 2], [*series, Series("top", 9, [1.0, 1.0])], x_name="x", y_name="y").svg
    places = sorted(float(y) for y in re.findall(r'class="label[^"]*" x="\d+" y="([\d.]+)"', svg))
    assert len(places) == 10
    assert min(b - a for a, b in itertools.pairwise(places)) >= LABEL_STEP - 0.01
    assert 0 < places[0] < places[-1] < HEIGHT


def test_thinning_keeps_means_and_the_last_step():
    steps = [float(i) for i in range(1, 1001)]
    x, (column,), width = thin(steps, [[1.0, None] * 500])
    assert len(x) <= MAX_POINTS
    assert x[-1] == 1000
    assert width == 7
    assert set(column) == {1.0}
    assert thin([1.0, 2.0], [[5.0, 6.0]]) == ([1.0, 2.0], [[5.0, 6.0]], 1)


def test_the_plane(tmp_path):
    write_lines(tmp_path / "matrix.jsonl", matrix_rows())
    matrix = pool(read_run(tmp_path).cells)
    points = plane_points(matrix, "identity_shift")
    assert [point.name for point in points] == ["anchored", "csft_pa", "sft"]  # csft failed there
    low, high = utility_limits(matrix)
    assert all(low <= p.utility.low and p.utility.high <= high for a in matrix.attacks for p in plane_points(matrix, a))
    svg = plane("identity_shift", points, (low, high))
    across, up = Axis(low, high, 46, WIDTH - 18), Axis(-0.02, 1.04, HEIGHT - 40, 30)
    safest, most_useful = points[0].place, points[2].place  # csft_pa is behind `anchored` on both axes
    front = (
        f"M46 {up(safest[1]):g}H{across(safest[0]):g}V{up(most_useful[1]):g}H{across(most_useful[0]):g}V{HEIGHT - 40}"
    )
    assert f'class="front" d="{front}"' in svg
    assert svg.count("on the Pareto front") == 4  # of two points, in tip and label


def test_a_plane_of_one_point_and_of_none():
    cells = pool([])
    assert utility_limits(cells)[0] < utility_limits(cells)[1]
    assert 'class="front"' in plane("a", [], (0.0, 1.0))


def test_boxes():
    box = Box(0, 0, 10, 10)
    assert box.meets(Box(9, 9, 20, 20))
    assert not box.meets(Box(10, 0, 20, 10))
