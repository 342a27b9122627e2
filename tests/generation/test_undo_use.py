"""Which undos were called for: worked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import generation
from holdfast.generation.undo_use import UndoUse, total, undo_use
from holdfast.tokens import apply_undo

U = 99
RIGHT = [1, 2, 3]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([1, 2, 3], UndoUse(answers=1, right=1)),
        ([1, 7, U, 2, 3], UndoUse(1, 1, 1, 0, 1, 1, 1, 1)),  # an error, taken back
        ([1, 7, 2, U, U, 2, 3], UndoUse(1, 1, 1, 0, 1, 1, 2, 2)),  # with the right-looking token behind it
        ([1, 7, 3], UndoUse(1, 0, 1, 0, 1)),  # left standing
        ([1, 2, U, 2, 3], UndoUse(1, 1, 0, 1, 0, 0, 1, 0, 1)),  # a right token taken back
        ([U, 1, 2, 3], UndoUse(1, 1, 0, 1, 0, 0, 1, 0, 0, 1)),  # nothing there to take back
        ([1, 2, 3, 4, U], UndoUse(1, 1, 1, 0, 1, 1, 1, 1)),  # said too much
        ([1, 2], UndoUse(1, 0)),  # too little
    ],
)
def test_by_hand(written: list[int], expected: UndoUse) -> None:
    assert undo_use(written, RIGHT, U) == expected


@given(st.lists(st.sampled_from([1, 2, 3, 7, U]), max_size=12))
def test_counts_fit_together(written: list[int]) -> None:
    use = undo_use(written, RIGHT, U)
    assert use.right == (apply_undo(written, U) == RIGHT)
    assert use.undos == written.count(U) == use.undone_wrong + use.undone_right + use.undone_nothing
    assert use.errors_undone <= use.errors
    assert not (use.right and use.errors_undone < use.errors), "a right answer has no error left"
    assert total([use, use]) == use + use


def test_the_package_exports_the_function_and_not_its_module() -> None:
    assert callable(generation.undo_use)
