"""Intervals by resampling: against scipy's, where they must lie, how wide they must be, and how often they hold."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import bootstrap as scipy_bootstrap

from holdfast.config import InputError
from holdfast.stats import (
    Estimate,
    Resamples,
    bootstrap,
    bootstrap_mean,
    difference_of_repeats,
    percentile_interval,
    resampled_rows,
)


def test_the_mean_against_scipy() -> None:
    """Other random numbers, so the ends agree up to the noise of 20,000 draws."""
    values = np.random.default_rng(1).exponential(2.0, 80)
    mean = bootstrap_mean(values, draws=20_000)
    theirs = scipy_bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    width = theirs.high - theirs.low
    assert mean.value == pytest.approx(values.mean())
    assert (mean.low, mean.high) == (
        pytest.approx(theirs.low, abs=0.03 * width),
        pytest.approx(theirs.high, abs=0.03 * width),
    )
    assert (mean.n, mean.method) == (80, "bootstrap")


@pytest.mark.parametrize("order", ["counts", "indices"])
def test_both_orders_have_the_width_that_theory_gives(order) -> None:
    values = np.random.default_rng(1).normal(3.0, 2.0, 400)
    found = bootstrap_mean(values, order=order)
    half = 1.96 * values.std() / 20
    assert found.low == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.15 * half)
    assert bootstrap_mean(values, order=order) == found
    assert bootstrap_mean(values, order=order, seed=1) != found


@pytest.mark.parametrize("order", ["counts", "indices"])
def test_draws_that_are_kept_are_those_that_would_be_made(order, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tables of as many rows share their draws; another number of rows, or another seed, has its own."""
    rng = np.random.default_rng(6)
    tables = [rng.normal(size=size) for size in (40, 40, 41)]

    def found() -> list[Estimate]:
        return [bootstrap_mean(table, order=order, seed=seed) for seed in (0, 1, 0) for table in tables]

    kept = found()
    monkeypatch.setattr(bootstrap, "MAX_KEPT", 0)
    assert found() == kept


def test_intervals_cover() -> None:
    """Of 100 draws of 60 values, about 95 % of the intervals hold the true mean (3 standard errors: 0.88 to 1)."""
    rng = np.random.default_rng(2)
    samples = (bootstrap_mean(rng.exponential(1.0, 60)) for _ in range(100))
    assert np.mean([found.low <= 1.0 <= found.high for found in samples]) >= 0.90


def test_rows_of_one_group_are_drawn_together() -> None:
    """Fifty copies of 20 rows, grouped, know no more than the 20 rows do; taken as 1,000 rows they would."""
    values = np.random.default_rng(4).normal(size=20)
    names = [f"{number:02}" for number in range(20)]
    once = bootstrap_mean(values)
    again = bootstrap_mean(np.tile(values, 50), groups=names * 50)
    assert (again.low, again.high) == pytest.approx((once.low, once.high))
    assert again.n == 20
    apart = bootstrap_mean(np.tile(values, 50))
    assert once.high - once.low > 5 * (apart.high - apart.low)


def test_pairs_are_drawn_as_one_value() -> None:
    """Rows differ by far more than the two models do."""
    rng = np.random.default_rng(5)
    hard = rng.normal(0, 10, 50)
    first, second = hard + rng.normal(0.3, 0.1, 50), hard
    found = bootstrap_mean(first - second)
    assert 0.2 < found.low < found.high < 0.4


def test_a_statistic_of_sums() -> None:
    """2 tokens of nll 1 each and 8 of nll .5 each: exp((2 + 4) / 10); draws take a row twice, or each once."""
    resamples = Resamples.of([[2.0, 2.0], [4.0, 8.0]])
    found = resamples.estimate(lambda sums: np.exp(sums[..., 0] / sums[..., 1]))
    assert (found.value, found.low, found.high) == pytest.approx((math.exp(0.6), math.exp(0.5), math.e))


def test_rows_that_stand_for_many() -> None:
    """Counted up or written out, 30 hits of 100 have the same interval, up to the noise of the draws."""
    counted = Resamples.of([[1.0, 1.0], [0.0, 1.0]], times=[30, 70], draws=20_000)
    written = Resamples.of([[1.0, 1.0]] * 30 + [[0.0, 1.0]] * 70, draws=20_000)
    first, second = (each.estimate(lambda sums: sums[..., 0] / sums[..., 1]) for each in (counted, written))
    assert (first.value, first.n) == (second.value, second.n) == (0.3, 100)
    assert (first.low, first.high) == pytest.approx((second.low, second.high), abs=0.011)


def test_draws_without_a_value_are_left_out_and_none_is_no_interval() -> None:
    with np.errstate(invalid="ignore", divide="ignore"):
        some = Resamples.of([[1.0, 0.0], [1.0, 2.0]]).estimate(lambda sums: sums[..., 0] / sums[..., 1])
        none = Resamples.of([[1.0, 0.0]]).interval(lambda sums: sums[..., 0] / sums[..., 1])
    assert (some.low, some.high) == (0.5, 1.0)
    assert none is None
    assert percentile_interval(np.array([1.0, 2.0, math.inf]), method="inverted_cdf") == (1.0, math.inf)
    with pytest.raises(InputError, match="at least one row"):
        bootstrap_mean([])


def test_row_numbers_for_any_statistic() -> None:
    """Medians: every draw has whole groups, as many as there are."""
    groups = ["a", "b", "b", "c", "c", "c"]
    drawn = list(resampled_rows(groups, draws=200, seed=1))
    assert len(drawn) == 200
    for rows in drawn:
        times = np.bincount(rows, minlength=6)
        assert times[1] == times[2]
        assert times[3] == times[4] == times[5]
        assert times[0] + times[1] + times[3] == 3


@pytest.mark.parametrize("seeds", [1, 2])
def test_the_exact_difference_against_every_draw(seeds: int) -> None:
    """Three cases and the two that are added: all 5^5 draws, each as likely."""
    first = [[True, True, False], [True, False, False]][:seeds]
    second = [[False, True, False], [False, False, True]][:seeds]
    found = difference_of_repeats(first, second)
    nets = [sum(int(a[place]) - int(b[place]) for a, b in zip(first, second, strict=True)) for place in range(3)]
    means = np.array([np.mean(draw) / seeds for draw in product([*nets, seeds, -seeds], repeat=5)])
    assert found.value == pytest.approx(sum(nets) / 3 / seeds)
    low, high = np.quantile(means, [0.025, 0.975], method="inverted_cdf")
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.n == 3


def test_cases_that_never_differ_still_have_a_width() -> None:
    found = difference_of_repeats([[True] * 8], [[True] * 8])
    assert found.value == 0
    assert found.low < 0 < found.high
    with pytest.raises(InputError, match="at least one case"):
        difference_of_repeats([[]], [[]])
