"""Paired tests against hand-worked numbers and their level by simulation."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config import InputError
from holdfast.oversight import holm, mcnemar, permutation, sign_flips

OUTCOMES = st.tuples(st.integers(1, 3), st.integers(1, 7)).flatmap(
    lambda size: st.lists(
        st.lists(st.tuples(st.booleans(), st.booleans()), min_size=size[1], max_size=size[1]),
        min_size=size[0],
        max_size=size[0],
    )
)


def test_mcnemar_by_hand() -> None:
    """3 pairs differ one way and none the other: 2 * (1/2)^3 = 0.25. Pairs that agree do not count."""
    assert mcnemar([True] * 3 + [True] * 5, [False] * 3 + [True] * 5) == pytest.approx(0.25)
    assert mcnemar([True, False], [True, False]) == 1.0


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


def test_a_prompt_under_three_seeds_is_not_three_prompts() -> None:
    """Four prompts that differ, three times each: 2 / 2^4 and not 2 / 2^12."""
    first, second = [[True] * 4] * 3, [[False] * 4] * 3
    assert sign_flips(first, second) == pytest.approx(0.125)
    assert mcnemar([True] * 12, [False] * 12) < 0.001


def test_permutation_by_hand() -> None:
    """Four differences of 1: of 16 sign patterns 2 are as extreme, p = 1/8."""
    assert permutation([1, 1, 1, 1], [0, 0, 0, 0], num=20_000) == pytest.approx(0.125, abs=0.01)
    assert permutation([0.5, 0.5], [0.5, 0.5], num=100) == 1.0
    assert permutation([1] * 40, [0] * 40, num=100) == pytest.approx(1 / 101)  # never 0: it was observed once


def test_permutation_keeps_its_level() -> None:
    generator = np.random.default_rng(0)
    pvalues = [
        permutation(generator.standard_normal(12).tolist(), generator.standard_normal(12).tolist(), num=300, seed=s)
        for s in range(400)
    ]
    assert np.mean(np.array(pvalues) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_holm_by_hand() -> None:
    """.01 * 3, .02 * 2 and max(.04, .03 * 1): the third may not fall below the second."""
    assert holm({"a": 0.02, "b": 0.01, "c": 0.03}) == pytest.approx({"a": 0.04, "b": 0.03, "c": 0.04})


def test_pairs_must_match() -> None:
    with pytest.raises(InputError, match="2 and 1 prompts"):
        mcnemar([True, False], [True])


def test_arrays_will_do_as_well_as_lists() -> None:
    first, second = np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 1.0])
    assert permutation(first, second, num=200) == permutation(first.tolist(), second.tolist(), num=200)  # type: ignore[arg-type]
