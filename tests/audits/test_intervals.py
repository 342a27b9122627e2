import pytest

from holdfast.audits import pooled, rate, rate_of
from holdfast.records import Rate


def test_wilson_by_hand() -> None:
    """z = 1.959964: none of 10 reaches z²/(10 + z²) = 3.841459/13.841459; half of 10 is 1/2 ± z/(2 sqrt(10 + z²))."""
    none = rate_of(0, 10)
    assert (none.value, none.low, none.hits, none.trials) == (0.0, 0.0, 0, 10)
    assert none.high == pytest.approx(0.277533, abs=1e-6)
    half = rate([True, False] * 5)
    assert (half.low, half.high) == (pytest.approx(0.236593, abs=1e-6), pytest.approx(0.763407, abs=1e-6))


def test_pooling_adds_counts() -> None:
    together = pooled([rate_of(1, 10), rate_of(9, 30)])
    assert together == rate_of(10, 40)
    assert isinstance(together, Rate)
