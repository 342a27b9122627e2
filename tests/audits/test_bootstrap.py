"""Intervals by resampling: where they must lie, and how wide they must be."""

import math

import numpy as np
import pytest

from holdfast.audits import bootstrap


def test_the_mean_has_the_width_that_theory_gives() -> None:
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    found = bootstrap.mean(values.tolist())
    half = 1.96 * values.std() / 20
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.15 * half)
    assert bootstrap.mean(values.tolist()) == found


def test_intervals_cover() -> None:
    """Of 100 draws of 60 values, about 95 % of the intervals hold the true mean (3 standard errors: 0.88 to 1)."""
    rng = np.random.default_rng(2)
    samples = (bootstrap.mean(rng.exponential(1.0, 60).tolist()) for _ in range(100))
    assert np.mean([each.low <= 1.0 <= each.high for each in samples]) >= 0.90


def test_perplexity_weighs_tokens_not_rows() -> None:
    """2 tokens of nll 1 each and 8 of nll .5 each: exp((2 + 4)/10)."""
    found = bootstrap.perplexity([2.0, 4.0], [2, 8])
    assert found.value == pytest.approx(math.exp(0.6))
    assert (found.low, found.high) == (pytest.approx(math.exp(0.5)), pytest.approx(math.e))


def test_a_constant_shift_has_an_exact_ratio() -> None:
    nll, tokens = [5.0, 80.0, 20.0], [5, 10, 7]
    shifted = [each + 0.25 * num for each, num in zip(nll, tokens, strict=True)]
    assert bootstrap.perplexity_ratio(shifted, nll, tokens) == pytest.approx((math.exp(0.25),) * 3)


def test_madness_stays_a_number() -> None:
    assert math.isfinite(bootstrap.perplexity([1e9], [1]).value)
