"""Power of paired tests, and the smallest difference they could show: by hand, by counting every outcome, against statsmodels."""

from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.power import TTestPower

from holdfast.stats import Unknown, mcnemar_power, paired_difference, smallest_difference, t_power


def counted_power(n: int, up: float, down: float, alpha: float) -> float:
    """The chance of every (up, down) count, summed where statsmodels' exact test is at most alpha."""
    total = 0.0
    for num_up in range(n + 1):
        for num_down in range(n + 1 - num_up):
            same = n - num_up - num_down
            ways = factorial(n) / factorial(num_up) / factorial(num_down) / factorial(same)
            table = [[same, num_up], [num_down, 0]]
            if num_up + num_down and statsmodels_mcnemar(table, exact=True).pvalue <= alpha * (1 + 1e-9):
                total += ways * up**num_up * down**num_down * (1 - up - down) ** same
    return total


@pytest.mark.parametrize(
    ("n", "up", "down", "alpha"), [(8, 0.6, 0.1, 0.05), (15, 0.4, 0.4, 0.05), (20, 0.5, 0.02, 0.01)]
)
def test_mcnemar_power_counts_every_outcome(n: int, up: float, down: float, alpha: float) -> None:
    assert mcnemar_power(n, up - down, up + down, alpha) == pytest.approx(counted_power(n, up, down, alpha), abs=1e-10)


@pytest.mark.parametrize(
    ("n", "effect", "alpha"), [(5, 0.5, 0.05), (30, 0.4, 0.05), (200, 0.2, 0.0125), (1000, 3.0, 0.05)]
)
def test_t_power_against_statsmodels(n: int, effect: float, alpha: float) -> None:
    assert t_power(n, effect, alpha) == pytest.approx(TTestPower().power(effect, n, alpha), abs=1e-9)


def test_smallest_difference_by_hand() -> None:
    """Six items: only six changes in one direction reach p = 2/64 < 0.05. d^6 = 0.8 gives d = 0.9635. Five items never do."""
    assert smallest_difference([0.0] * 6, [0.0] * 6) == pytest.approx(0.8 ** (1 / 6), abs=1e-9)
    assert isinstance(smallest_difference([0.0] * 5, [1.0] * 5), Unknown)


@settings(max_examples=20, deadline=None)
@given(st.integers(10, 300), st.floats(0.05, 0.6), st.floats(0.001, 0.05))
def test_the_smallest_share_is_found_with_the_wanted_power(n: int, differing: float, alpha: float) -> None:
    num = round(n * differing)
    first, second = [0.0] * n, [1.0] * (num // 2) + [0.0] * (n - num // 2)
    second[num // 2 : num] = [0.0] * (num - num // 2)
    smallest = smallest_difference(first, second, alpha=alpha)
    if isinstance(smallest, Unknown):
        assert mcnemar_power(n, 1.0, 1.0, alpha) < 0.8
    else:
        share = (num // 2) / n
        assert mcnemar_power(n, smallest, max(share, smallest), alpha) == pytest.approx(0.8, abs=1e-4)


def test_the_smallest_mean_against_statsmodels() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=50), rng.normal(size=50)
    expected = TTestPower().solve_power(nobs=50, alpha=0.05, power=0.8) * np.std(second - first, ddof=1)
    assert smallest_difference(list(first), list(second)) == pytest.approx(expected, rel=1e-6)


def test_paired_difference_of_shares_and_of_means() -> None:
    """Of ten items three are gained and one is lost: by 0.2, p = 2 (1 + 4) / 16 = 0.625."""
    shares = paired_difference([0] * 3 + [1] + [1] * 6, [1] * 3 + [0] + [1] * 6)
    assert (shares.by.value, shares.p, shares.num_up, shares.num_down) == (
        pytest.approx(0.2),
        pytest.approx(0.625),
        3,
        1,
    )
    means = paired_difference([0.1, 0.5, 0.3], [0.2, 0.4, 0.9])
    assert means.by.value == pytest.approx(0.2)
    assert (means.by.method, means.test) == ("bootstrap", "sign flips")


def test_equal_scores_still_have_an_interval() -> None:
    """Three items that score the same twice prove little; three hundred prove more."""
    few, many = (paired_difference([0.2, 0.8, 0.5] * num, [0.2, 0.8, 0.5] * num).by for num in (1, 100))
    assert few.value == many.value == 0
    assert few.low < -0.05
    assert few.high > 0.05
    assert -0.01 < many.low < 0 < many.high < 0.01
