"""Paired tests against hand-worked numbers and their level by simulation."""

import numpy as np
import pytest

from holdfast.config import InputError
from holdfast.oversight import holm, mcnemar, permutation


def test_mcnemar_by_hand() -> None:
    """3 pairs differ one way and none the other: 2 * (1/2)^3 = 0.25. Pairs that agree do not count."""
    assert mcnemar([True] * 3 + [True] * 5, [False] * 3 + [True] * 5) == pytest.approx(0.25)
    assert mcnemar([True, False], [True, False]) == 1.0


def test_paper_001_is_not_significant() -> None:
    """0.15 -> 0.25 on 20 tasks, in the paired case that favours it most (the 3 among the 5): p = 0.5, not < 0.05."""
    assert mcnemar([True] * 5 + [False] * 15, [True] * 3 + [False] * 17) == pytest.approx(0.5)


def test_permutation_by_hand() -> None:
    """Four differences of 1: of 16 sign patterns 2 are as extreme, p = 1/8."""
    assert permutation([1, 1, 1, 1], [0, 0, 0, 0], num=20_000) == pytest.approx(0.125, abs=0.01)
    assert permutation([0.5, 0.5], [0.5, 0.5], num=100) == 1.0


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
