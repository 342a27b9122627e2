"""Kappa by hand, and against its limits."""

import pytest

from holdfast.audits.agreement import agreement, cohen_kappa


def test_kappa_by_hand() -> None:
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed 35/50; expected (25*30 + 25*20)/2500 = .5; kappa .4."""
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert cohen_kappa(first, second) == pytest.approx(0.4)
    found = agreement("asr", ("a", "b"), first, second)
    assert (found.kappa, found.agreed, found.trials) == (pytest.approx(0.4), 0.7, 50)
    assert found.low is not None
    assert found.high is not None
    assert 0.1 < found.low < 0.4 < found.high < 0.65  # standard error about .13 by the usual formula


def test_the_ends() -> None:
    assert cohen_kappa([True, False, None], [True, False, None]) == 1
    assert cohen_kappa([True, False], [False, True]) == -1
    assert cohen_kappa([True, True, False, False], [True, False, True, False]) == 0


def test_one_verdict_throughout_is_undefined_not_perfect() -> None:
    found = agreement("asr", ("a", "b"), [True] * 5, [True] * 5)
    assert (found.kappa, found.low, found.high, found.agreed) == (None, None, None, 1)


def test_judges_who_never_differ_may_still_differ_on_the_next_answer() -> None:
    """Ten yes-yes, ten no-no: Wilson of 20 of 20 is [.839, 1], chance makes .5 of it, so kappa is in [.678, 1]."""
    found = agreement("asr", ("a", "b"), [True, False] * 10, [True, False] * 10)
    assert (found.agreed, found.kappa, found.low, found.high) == (1, 1, pytest.approx(0.678, abs=1e-3), 1)


def test_answers_to_one_request_are_drawn_together() -> None:
    """Fifty cells that ask the same 20 requests and judge them alike know no more of the judges than one cell does."""
    first, second = [True] * 10 + [False] * 10, [True] * 7 + [False] * 13
    once = agreement("asr", ("a", "b"), first, second, asked=range(20))
    again = agreement("asr", ("a", "b"), first * 50, second * 50, asked=[*range(20)] * 50)
    assert (again.kappa, again.low, again.high) == (pytest.approx(0.7), once.low, once.high)
    assert again.trials == 1000
    apart = agreement("asr", ("a", "b"), first * 50, second * 50)
    assert None not in (once.low, once.high, apart.low, apart.high)
    assert once.high - once.low > 5 * (apart.high - apart.low)  # type: ignore[operator]
    alike = agreement("asr", ("a", "b"), first * 50, first * 50, asked=[*range(20)] * 50)
    assert alike.low == agreement("asr", ("a", "b"), first, first).low
