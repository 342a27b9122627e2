"""Paired tests: by hand, against statsmodels and scipy, and their level by simulation."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests

from holdfast.config import InputError
from holdfast.stats import holm, mcnemar, mcnemar_of, permutation, sign_flips

OUTCOMES = st.tuples(st.integers(1, 3), st.integers(1, 7)).flatmap(
    lambda size: st.lists(
        st.lists(st.tuples(st.booleans(), st.booleans()), min_size=size[1], max_size=size[1]),
        min_size=size[0],
        max_size=size[0],
    )
)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=200))
def test_mcnemar_against_statsmodels(pairs: list[tuple[bool, bool]]) -> None:
    table = np.zeros((2, 2))
    for a, b in pairs:
        table[int(a), int(b)] += 1
    expected = statsmodels_mcnemar(table, exact=True).pvalue if table[0, 1] + table[1, 0] else 1.0
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    assert mcnemar(first, second) == pytest.approx(expected, rel=1e-12)
    assert mcnemar_of(int(table[1, 0]), int(table[0, 1])) == mcnemar(first, second)


def test_mcnemar_by_hand() -> None:
    """One against five of six: 2 (C(6,0) + C(6,1)) / 2^6 = 14/64. None against ten: 2 / 2^10. Pairs that agree do not count."""
    assert mcnemar_of(1, 5) == mcnemar_of(5, 1) == pytest.approx(14 / 64)
    assert mcnemar_of(0, 10) == pytest.approx(2 / 2**10)
    assert mcnemar_of(0, 0) == mcnemar_of(4, 4) == 1.0
    assert mcnemar([True] * 3 + [True] * 5, [False] * 3 + [True] * 5) == pytest.approx(0.25)


def test_paper_001_is_not_significant() -> None:
    """0.15 -> 0.25 on 20 tasks, in the paired case that favours it most (the 3 among the 5): p = 0.5, not < 0.05."""
    assert mcnemar([True] * 5 + [False] * 15, [True] * 3 + [False] * 17) == pytest.approx(0.5)


@given(OUTCOMES)
def test_sign_flips_against_every_sign(pairs: list[list[tuple[bool, bool]]]) -> None:
    first, second = ([[pair[side] for pair in seed] for seed in pairs] for side in (0, 1))
    nets = [sum(int(seed[place][0]) - int(seed[place][1]) for seed in pairs) for place in range(len(pairs[0]))]
    sums = [
        abs(sum(s * net for s, net in zip(signs, nets, strict=True))) for signs in product((-1, 1), repeat=len(nets))
    ]
    assert sign_flips(first, second) == pytest.approx(np.mean([each >= abs(sum(nets)) for each in sums]))
    assert sign_flips(first[:1], second[:1]) == pytest.approx(mcnemar(first[0], second[0]))


def test_a_case_under_three_seeds_is_not_three_cases() -> None:
    """Four cases that differ, three times each: 2 / 2^4 and not 2 / 2^12."""
    first, second = [[True] * 4] * 3, [[False] * 4] * 3
    assert sign_flips(first, second) == pytest.approx(0.125)
    assert mcnemar([True] * 12, [False] * 12) < 0.001


def test_permutation_against_scipys_every_flip() -> None:
    """scipy counts all 2^9 signs; ours draws 20,000 of them (standard error at most .0036)."""
    rng = np.random.default_rng(1)
    for shift in (0.0, 0.5, 1.0):
        first, second = rng.normal(shift, 1, 9), rng.normal(0, 1, 9)
        exact = permutation_test(
            (first, second), lambda a, b: np.mean(a - b), permutation_type="samples", n_resamples=np.inf
        ).pvalue
        assert permutation(first, second, num=20_000) == pytest.approx(exact, abs=0.012)


def test_permutation_by_hand() -> None:
    """Four differences of 1: of 16 sign patterns 2 are as extreme, p = 1/8."""
    assert permutation([1, 1, 1, 1], [0, 0, 0, 0], num=20_000) == pytest.approx(0.125, abs=0.01)
    assert permutation([0.5, 0.5], [0.5, 0.5], num=100) == 1.0
    assert permutation([1] * 40, [0] * 40, num=100) == pytest.approx(1 / 101)  # never 0: it was observed once


def test_permutation_knows_equal_differences_of_large_scores() -> None:
    """Differences of 0.1, two of eight downwards: |sum| >= 4 in 74 of 256 sign patterns. 40000.3 - 40000.2 is not quite 0.1."""
    second = [40000.2, 51234.7, 60000.1, 77777.7, 81234.5, 90000.3, 12345.6, 23456.7]
    steps = [0.1] * 6 + [-0.1] * 2
    first = [round(score + step, 1) for score, step in zip(second, steps, strict=True)]
    assert permutation(first, second, num=20_000) == pytest.approx(74 / 256, abs=0.012)


def test_permutation_in_parts_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    first, second = rng.normal(0.2, 1, 33), rng.normal(0, 1, 33)
    whole = permutation(first, second, num=500)
    monkeypatch.setattr("holdfast.stats.paired.MOST_SIGNS", 33 * 7)
    assert permutation(first, second, num=500) == whole


def test_permutation_keeps_its_level() -> None:
    generator = np.random.default_rng(0)
    pvalues = [
        permutation(generator.standard_normal(12).tolist(), generator.standard_normal(12).tolist(), num=300, seed=s)
        for s in range(400)
    ]
    assert np.mean(np.array(pvalues) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


@settings(max_examples=12)  # theirs takes a sixth of a second
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_against_statsmodels(pvalues: list[float]) -> None:
    found = holm({str(number): p for number, p in enumerate(pvalues)})
    assert list(found.values()) == pytest.approx(multipletests(pvalues, method="holm")[1].tolist(), rel=1e-12)


def test_holm_by_hand() -> None:
    """.01 * 3, .02 * 2 and max(.04, .03 * 1): the third may not fall below the second."""
    assert holm({"a": 0.03, "b": 0.01, "c": 0.02}) == pytest.approx({"a": 0.04, "b": 0.03, "c": 0.04})
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


def test_pairs_must_match() -> None:
    with pytest.raises(InputError, match="2 and 1 cases"):
        mcnemar([True, False], [True])
    with pytest.raises(InputError, match="2 and 1 cases"):
        sign_flips([[True], [True]], [[True]])
    with pytest.raises(InputError, match="0 and 0 cases"):
        permutation([], [])
