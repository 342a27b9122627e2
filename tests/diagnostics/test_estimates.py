"""Shares over seeds that were asked the same, and what an estimate prints."""

import pytest

from holdfast.diagnostics.estimates import Estimate, over_seeds, share


def test_three_seeds_that_were_asked_the_same_are_no_three_times_as_many_requests() -> None:
    once, thrice = share(20, 100, None, ""), over_seeds([(20, 100)] * 3, "")
    assert (thrice.low, thrice.high) == (pytest.approx(once.low), pytest.approx(once.high))
    assert (thrice.value, thrice.trials) == (0.2, 300)


def test_seeds_may_differ_and_have_seen_nothing() -> None:
    """5 of 20 and 3 of 10: 8 of 30, as sure as 4 of 15."""
    found, once = over_seeds([(5, 20), (3, 10)], ""), share(4, 15, None, "")
    assert (found.value, found.low, found.high) == pytest.approx((8 / 30, once.low, once.high))
    assert over_seeds([(0, 0), (0, 0)], "none seen").why == "none seen"


def test_an_upper_end_may_be_missing() -> None:
    assert str(Estimate(2.0, 0.5)) == "2.000 [0.500, unbounded]"
    assert str(Estimate(2.0)) == "2.000"
