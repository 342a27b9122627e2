"""What an estimate prints, what stands in its place, and that the floor is light."""

import math

import pytest

from holdfast.stats import Estimate, Unknown, finite_or_none


def test_what_it_prints() -> None:
    assert str(Estimate(0.5, 0.25, 0.75)) == "0.500 [0.250, 0.750]"
    assert f"{Estimate(1 / 3, 0.25, 2 / 3)}" == "0.333 [0.250, 0.667]"
    assert f"{Estimate(0.5, 0.25, 0.75):.0%}" == "50% [25%, 75%]"
    assert str(Estimate(2.0, 0.5)) == "2.000 [0.500, unbounded]"
    assert str(Estimate(2.0)) == "2.000"


def test_an_interval_may_be_missing() -> None:
    assert not Estimate(1.0).has_interval
    assert Estimate(1.0, 0.5).has_interval


def test_beside_a_bar() -> None:
    """With an interval all of it counts, without one the value does; nothing is contained in no interval."""
    for estimate, above, below, contains in (
        (Estimate(2.0, 1.0, 3.0), True, False, False),
        (Estimate(2.0, 0.1, 3.0), False, False, True),
        (Estimate(0.1, -1.0, 0.4), False, True, False),
        (Estimate(2.0, 1.0), True, False, False),
        (Estimate(2.0), True, False, False),
        (Estimate(0.1), False, True, False),
    ):
        assert (estimate.above(0.5), estimate.below(0.5), estimate.contains(0.5)) == (above, below, contains), estimate


def test_json_has_no_infinity() -> None:
    assert [finite_or_none(end) for end in (1.5, math.inf, math.nan, None)] == [1.5, None, None, None]


def test_unknown_says_why() -> None:
    unknown = Unknown("no case was seen", 0)
    assert (unknown.value, unknown.low, unknown.high, unknown.hits) == (None,) * 4
    assert str(unknown) == f"{unknown:.1%}" == "no case was seen"


def test_every_name_is_there() -> None:
    import holdfast.stats

    for name in holdfast.stats.__all__:
        assert getattr(holdfast.stats, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'median'"):
        holdfast.stats.median  # noqa: B018
