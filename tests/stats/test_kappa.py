"""Kappa by hand, against statsmodels, and against its limits."""

import numpy as np
import pytest
from statsmodels.stats.inter_rater import cohens_kappa

from holdfast.config import InputError
from holdfast.stats import Estimate, Unknown, cohen_kappa


def known(*labels, **options) -> Estimate:
    found = cohen_kappa(*labels, **options)
    assert isinstance(found, Estimate)
    return found


def test_by_hand() -> None:
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed 35/50; expected (25*30 + 25*20)/2500 = .5; kappa .4."""
    found = known(["yes"] * 25 + ["no"] * 25, ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15)
    assert (found.value, found.n, found.method) == (pytest.approx(0.4), 50, "bootstrap")
    assert 0.1 < found.low < 0.4 < found.high < 0.65  # standard error about .13 by the usual formula


def test_against_statsmodels() -> None:
    """Three labels, 600 answers: the value to the last digits, the ends up to the normal approximation."""
    rng = np.random.default_rng(1)
    first = rng.integers(0, 3, 600)
    second = np.where(rng.random(600) < 0.6, first, rng.integers(0, 3, 600))
    table = np.zeros((3, 3))
    np.add.at(table, (first, second), 1)
    theirs, found = cohens_kappa(table), known(first.tolist(), second.tolist())
    assert found.value == pytest.approx(theirs.kappa, rel=1e-12)
    assert (found.low, found.high) == pytest.approx((theirs.kappa_low, theirs.kappa_upp), abs=0.01)


def test_the_ends() -> None:
    assert known([True, False, None], [True, False, None]).value == 1
    assert known([True, False], [False, True]).value == -1
    assert known([True, True, False, False], [True, False, True, False]).value == 0


def test_one_label_throughout_is_unknown_not_perfect() -> None:
    assert cohen_kappa([True] * 5, [True] * 5) == Unknown("undefined: both gave one verdict throughout", 5)


def test_a_judge_of_one_word_gives_a_kappa_without_an_interval() -> None:
    """It is 0 whatever the other one says: 200 answers are no proof of that, and one is none."""
    for first, second in ((["a"] * 200, ["a", "b"] * 100), (["a"], ["b"])):
        found = cohen_kappa(first, second)
        assert (found.value, found.n, found.has_interval) == (0, len(first), False)  # type: ignore[union-attr]


def test_judges_who_never_differ_may_still_differ_on_the_next_answer() -> None:
    """Ten yes-yes, ten no-no: Wilson of 20 of 20 is [.839, 1], chance makes .5 of it, so kappa is in [.678, 1]."""
    found = known([True, False] * 10, [True, False] * 10)
    assert (found.value, found.low, found.high) == (1, pytest.approx(0.678, abs=1e-3), 1)


def test_answers_to_one_request_are_drawn_together() -> None:
    """Fifty cells that ask the same 20 requests and judge them alike know no more of the judges than one cell does."""
    first, second = [True] * 10 + [False] * 10, [True] * 7 + [False] * 13
    once = known(first, second, groups=range(20))
    again = known(first * 50, second * 50, groups=[*range(20)] * 50)
    assert (again.value, again.low, again.high) == (pytest.approx(0.7), once.low, once.high)
    assert again.n == 1000
    named = known(first * 50, second * 50, groups=[f"request {number}" for number in range(20)] * 50)
    assert named == again
    apart = known(first * 50, second * 50)
    assert once.high - once.low > 5 * (apart.high - apart.low)
    alike = known(first * 50, first * 50, groups=[*range(20)] * 50)
    assert alike.low == known(first, first).low


def test_labels_must_match() -> None:
    with pytest.raises(InputError, match="2 and 1 labels"):
        cohen_kappa([True, False], [True])
