"""What crosses the wall: plain literals, exactly; nothing else, and never an exception of another kind."""

import contextlib
import math
from collections import Counter, OrderedDict, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.judging.sandbox.inside.literals import MAX_INT_BITS, NotLiteralError, dumps, loads

atoms = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.complex_numbers(allow_nan=False)
    | st.text() | st.binary()
)  # fmt: skip
keys = st.integers() | st.text() | st.binary() | st.tuples(st.integers(), st.text())
values = st.recursive(
    atoms | st.sets(keys) | st.frozensets(keys),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(keys, inner),
    max_leaves=12,
)


def exact(value: Any) -> Any:
    """With types, because 1 == True == 1.0."""
    if isinstance(value, dict):
        return {(exact(key), type(item).__name__): exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(exact(item) for item in value)
    if isinstance(value, set | frozenset):
        return type(value).__name__, frozenset(exact(item) for item in value)
    return type(value).__name__, value


@given(values)
def test_what_goes_in_comes_out(value: Any) -> None:
    assert exact(loads(dumps(value))) == exact(value)


def test_floats_that_are_no_numbers_cross() -> None:
    assert math.isnan(loads(dumps(math.nan)))
    assert loads(dumps([math.inf, -math.inf])) == [math.inf, -math.inf]


def test_subclasses_cross_as_the_plain_type() -> None:
    point = namedtuple("point", "x y")(1, 2)
    for value, plain in ((Counter("aab"), {"a": 2, "b": 1}), (OrderedDict(a=1), {"a": 1}), (point, (1, 2))):
        crossed = loads(dumps(value))
        assert (crossed, type(crossed)) == (plain, type(plain))


@given(st.binary() | st.text(alphabet='{}[]":,0123456789intdcolexbyfrsuz').map(str.encode))
def test_any_bytes_give_a_literal_or_one_kind_of_error(data: bytes) -> None:
    with contextlib.suppress(NotLiteralError):
        loads(data)


@pytest.mark.parametrize(
    "value", [object(), len, iter([]), type, range(3), [1 << (MAX_INT_BITS + 1)]], ids=lambda v: type(v).__name__
)
def test_anything_else_does_not_cross(value: Any) -> None:
    with pytest.raises(NotLiteralError):
        dumps(value)


def test_large_integers_are_refused_on_the_way_in_too() -> None:
    with pytest.raises(NotLiteralError, match="bits"):
        loads(b'{"int":"0x' + b"f" * (MAX_INT_BITS // 2) + b'"}')
