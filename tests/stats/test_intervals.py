"""Intervals in closed form: by hand, against statsmodels and scipy in float64, and by how often they are right."""

import math
import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, multinomial
from scipy.stats import t as student_t
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from holdfast.config import InputError
from holdfast.stats import (
    Estimate,
    Unknown,
    clopper_pearson,
    newcombe,
    newcombe_paired,
    pooled,
    share,
    share_of_counts,
    share_of_repeats,
    student,
    wilson,
)

COUNTS = st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def ends(estimate: Estimate) -> tuple[float, float]:
    return estimate.low, estimate.high


def hits(digits: str) -> list[bool]:
    return [digit == "1" for digit in digits]


@given(COUNTS)
def test_wilson_against_statsmodels(count: tuple[int, int]) -> None:
    found = wilson(*count)
    assert ends(found) == pytest.approx(proportion_confint(*count, method="wilson"), abs=1e-13)
    assert (found.value, found.n, found.hits, found.method) == (count[0] / count[1], count[1], count[0], "wilson")
    assert found.low <= found.value <= found.high


def test_wilson_by_hand() -> None:
    """z = 1.959964: none of 10 reaches z²/(10 + z²) = 3.841459/13.841459; half of 10 is 1/2 ± z/(2 sqrt(10 + z²))."""
    assert ends(wilson(0, 10)) == (0.0, pytest.approx(0.277533, abs=1e-6))
    assert ends(share([True, False] * 5)) == (pytest.approx(0.236593, abs=1e-6), pytest.approx(0.763407, abs=1e-6))


def test_wilson_of_scores_lies_between_the_counts_around_them() -> None:
    below, between, above = wilson(3, 10), wilson(3.5, 10), wilson(4, 10)
    assert below.low < between.low < above.low
    assert below.high < between.high < above.high
    assert between.value == 0.35


def test_a_share_read_back_from_a_file_is_a_count_again() -> None:
    assert wilson(0.1 * 30 * (1 + 1e-12), 30) == wilson(3, 30)
    assert wilson(7.3 * (1 + 1e-10), 7.3).value == 1.0


@pytest.mark.parametrize("count", [(1, 0), (0, 0), (3, 2), (-1, 2), (math.nan, 2)])
def test_what_is_no_share(count: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="a share needs"):
        wilson(*count)


def test_pooling_adds_counts_and_not_shares() -> None:
    """9 of 10 and 0 of 90: 9 %, where the mean of the shares would be 45 %."""
    assert pooled([wilson(9, 10), wilson(0, 90)]) == wilson(9, 100)


@given(COUNTS, st.sampled_from([0.01, 0.05, 0.2]))
def test_clopper_pearson_against_statsmodels(count: tuple[int, int], alpha: float) -> None:
    found = clopper_pearson(*count, alpha=alpha)
    theirs = proportion_confint(*count, method="beta", alpha=alpha)
    assert ends(found) == pytest.approx(theirs, abs=1e-12)
    one_sided = proportion_confint(*count, method="beta", alpha=2 * alpha)
    assert clopper_pearson(*count, alpha=alpha, side="upper").high == pytest.approx(one_sided[1], abs=1e-12)
    assert clopper_pearson(*count, alpha=alpha, side="lower").low == pytest.approx(one_sided[0], abs=1e-12)


def test_one_sided_bounds_by_hand() -> None:
    """None of 300: (1 - p)^300 = .05 at p = 1 - .05^(1/300), about 1 %; the other end says nothing."""
    bound = clopper_pearson(0, 300, side="upper")
    assert ends(bound) == (0.0, pytest.approx(1 - 0.05 ** (1 / 300)))
    assert ends(clopper_pearson(300, 300, side="lower")) == (pytest.approx(0.05 ** (1 / 300)), 1.0)


def test_clopper_pearson_never_covers_less_than_it_says() -> None:
    found = [clopper_pearson(k, 30) for k in range(31)]
    for p in np.linspace(0.01, 0.99, 50):
        held = [each.low <= p <= each.high for each in found]
        assert binom.pmf(range(31), 30, p) @ held >= 0.95


@pytest.mark.parametrize(("count", "alpha"), [((3, 2), 0.05), ((0, 0), 0.05), ((1, 2), 0.0), ((1, 2), 1.0)])
def test_what_is_no_binomial(count: tuple[int, int], alpha: float) -> None:
    with pytest.raises(InputError, match="Clopper-Pearson: expected"):
        clopper_pearson(*count, alpha=alpha)


@given(COUNTS, COUNTS)
def test_newcombe_against_statsmodels(first: tuple[int, int], second: tuple[int, int]) -> None:
    found = newcombe(wilson(*first), wilson(*second))
    theirs = confint_proportions_2indep(*first, *second, method="newcomb", compare="diff")
    assert ends(found) == pytest.approx(theirs, abs=1e-12)
    assert found.value == first[0] / first[1] - second[0] / second[1]
    assert found.n == min(first[1], second[1])


def test_newcombe_by_a_printed_example() -> None:
    """Newcombe (1998), 56 of 70 less 48 of 80: 0.0524 to 0.3339."""
    found = newcombe(wilson(56, 70), wilson(48, 80))
    assert ends(found) == (pytest.approx(0.0524, abs=5e-5), pytest.approx(0.3339, abs=5e-5))


def test_paired_by_hand() -> None:
    """6 of 20 in the first alone, none in the second alone: no correlation, so the arms of Wilson's intervals add up."""
    six, none = wilson(6, 20), wilson(0, 20)
    found = newcombe_paired(6, 0, 20)
    assert found.value == pytest.approx(0.3)
    assert found.low == pytest.approx(0.3 - math.hypot(0.3 - six.low, none.high))
    assert found.high == pytest.approx(0.3 + (six.high - 0.3))
    assert ends(newcombe_paired(0, 0, 20)) == (pytest.approx(-none.high), pytest.approx(none.high))
    assert newcombe_paired(20, 0, 20).high == 1.0


def test_the_paired_interval_covers_what_it_says() -> None:
    """Exactly, over everything that may be counted in 20 rows; 95 % and, where next to nothing changes, more."""
    counts = [(a, b) for a, b in product(range(21), repeat=2) if a + b <= 20]
    bounds = {count: newcombe_paired(*count, 20) for count in counts}
    for worse, better in ((0.02, 0.0), (0.05, 0.05), (0.2, 0.1), (0.3, 0.3), (0.5, 0.4), (0.45, 0.45)):
        chances = multinomial.pmf([(a, b, 20 - a - b) for a, b in counts], 20, [worse, better, 1 - worse - better])
        held = [bounds[count].low - 1e-12 <= worse - better <= bounds[count].high + 1e-12 for count in counts]
        assert chances @ held >= 0.94, (worse, better)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
def test_student_against_scipy(values: list[float]) -> None:
    found = student(values)
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    half = student_t.ppf(0.975, len(values) - 1) * error
    assert ends(found) == pytest.approx((np.mean(values) - half, np.mean(values) + half), rel=1e-9, abs=1e-9)
    assert found.n == len(values)


def test_one_seed_has_no_interval() -> None:
    assert student([3.0]) == Estimate(3.0)
    with pytest.raises(InputError, match="at least one value"):
        student([])


# --- the same cases under several seeds -------------------------------------------------------------------------------


def test_seeds_that_agree_about_every_case_add_nothing() -> None:
    """13 of 188 three times over is 13 of 188, not 39 of 564."""
    thrice = share_of_repeats([hits("1" * 13 + "0" * 175)] * 3)
    assert ends(thrice) == pytest.approx(ends(wilson(13, 188)))
    assert (thrice.value, thrice.hits, thrice.n) == (13 / 188, 39, 564)


def test_effective_number_by_hand() -> None:
    """1100 and 1010: means 1, .5, .5, 0 and the two added, so Var = 4 * .25 / 36, and .25 * 36 - 2 = 7 cases of 8.

    1100 twice: Var = 6 * .25 / 36, so .25 * 36 / 1.5 - 2 = 4 cases.
    """
    for seeds, expected in ((["1100", "1010"], wilson(3.5, 7)), (["1100", "1100"], wilson(2, 4))):
        assert ends(share_of_repeats([hits(seed) for seed in seeds])) == pytest.approx(ends(expected))


def test_one_hit_is_no_proof_that_seeds_differ() -> None:
    """Of three seeds one answered one of 200 requests: that cannot promise much less than no hit at all does."""
    none = share_of_repeats([hits("0" * 200)] * 3)
    one = share_of_repeats([hits("1" + "0" * 199), hits("0" * 200), hits("0" * 200)])
    assert one.high > 0.95 * none.high


def test_the_ends() -> None:
    """None of them, or all: seeds that never differed count once. Seeds that always differ are worth no more than all answers."""
    assert share_of_repeats([hits("000")] * 2).high == pytest.approx(wilson(0, 3).high)
    assert share_of_repeats([hits("111")] * 2).low == pytest.approx(wilson(3, 3).low)
    assert ends(share_of_repeats([hits("1100"), hits("0011")])) == ends(wilson(4, 8))
    assert ends(share_of_repeats([hits("10110")])) == pytest.approx(ends(wilson(3, 5)))
    with pytest.raises(InputError, match="at least one case"):
        share_of_repeats([[], []])


def test_intervals_hold_as_often_as_they_say() -> None:
    """Requests of very different difficulty under three seeds. Pooled counts would hold for about 78 %."""
    rng = random.Random(1)
    held = {"once": 0, "as if all were new": 0}
    for _ in range(400):
        hard = [rng.random() < 0.2 for _ in range(150)]
        seeds = [[rng.random() < (0.85 if h else 0.03) for h in hard] for _ in range(3)]
        truth = 0.2 * 0.85 + 0.8 * 0.03
        once, new = share_of_repeats(seeds), wilson(sum(map(sum, seeds)), 450)
        held["once"] += once.low <= truth <= once.high
        held["as if all were new"] += new.low <= truth <= new.high
    assert held["once"] >= 0.92 * 400
    assert held["as if all were new"] < 0.87 * 400


def test_counts_of_seeds_that_were_asked_the_same() -> None:
    """Three times 20 of 100 are as sure as once. 5 of 20 and 3 of 10: 8 of 30, as sure as 4 of 15."""
    thrice = share_of_counts([(20, 100)] * 3)
    assert isinstance(thrice, Estimate)
    assert ends(thrice) == pytest.approx(ends(wilson(20, 100)))
    assert (thrice.value, thrice.n) == (0.2, 300)
    both = share_of_counts([(5, 20), (3, 10)])
    assert isinstance(both, Estimate)
    assert (both.value, *ends(both)) == pytest.approx((8 / 30, *ends(wilson(4, 15))))
    assert share_of_counts([(0, 0), (0, 0)], "none seen") == Unknown("none seen", 0)
