import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.diagnostics import two_stage

RATE = st.floats(0.01, 0.99)


@given(RATE, RATE, RATE)
def test_formula_is_the_sum_over_all_trajectories(p_s, p_dc, p_dw):
    """Enumerated: k-1 attempts that go on, then a right one that stops."""
    go_on = p_s * (1 - p_dc) + (1 - p_s) * p_dw
    summed = sum(go_on**k * p_s * p_dc for k in range(4000))
    assert two_stage.accuracy(p_s, p_dc, p_dw) == pytest.approx(summed, abs=1e-9)


@given(RATE, RATE, RATE)
def test_odds_form(p_s, p_dc, p_dw):
    accuracy = float(two_stage.accuracy(p_s, p_dc, p_dw))
    odds = p_s / (1 - p_s) * p_dc / (1 - p_dw)
    assert accuracy / (1 - accuracy) == pytest.approx(odds, rel=1e-9)


@given(RATE, RATE, RATE)
def test_reflection_helps_exactly_above_one(p_s, p_dc, p_dw):
    accuracy = float(two_stage.accuracy(p_s, p_dc, p_dw))
    if abs(p_dc + p_dw - 1) > 1e-9:
        assert (accuracy > p_s) == (p_dc + p_dw > 1)


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_at_most_k_by_enumeration(attempts):
    """Every way to be right at attempt k after k-1 attempts (right or wrong) that went on, weighed by its probability."""
    p_s, p_dc, p_dw = 0.6, 0.9, 0.7
    total = 0.0
    for k in range(attempts):
        for before in itertools.product([p_s * (1 - p_dc), (1 - p_s) * p_dw], repeat=k):
            total += math.prod(before) * p_s * p_dc
    assert two_stage.accuracy_at_most(p_s, p_dc, p_dw, attempts=attempts) == pytest.approx(total)


def test_many_attempts_approach_the_endless_formula():
    many = two_stage.accuracy_at_most(0.3, 0.8, 0.9, attempts=500)
    assert many == pytest.approx(two_stage.accuracy(0.3, 0.8, 0.9))


@pytest.mark.parametrize(
    ("rates", "value"),
    [((0.0, math.nan, 0.4), 0.0), ((1.0, 0.5, math.nan), 1.0), ((0.5, 0.0, 0.5), 0.0), ((0.5, 0.5, 1.0), 1.0)],
)
def test_edges_that_have_an_answer(rates, value):
    assert two_stage.accuracy(*rates) == value
    assert two_stage.why_undefined(*rates) is None


@pytest.mark.parametrize("rates", [(0.0, math.nan, 1.0), (0.5, 0.0, 1.0), (1.0, 0.0, math.nan)])
def test_edges_that_have_none_say_why(rates):
    assert np.isnan(two_stage.accuracy(*rates))
    assert two_stage.why_undefined(*rates) == two_stage.NEVER_STOPS
