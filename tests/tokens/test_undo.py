"""The stack machine of MATH §4, against machines written in another way."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.records import Role
from holdfast.tokens import apply_undo, stack_context

UNDO = 9
P, R, U = Role.PROMPT, Role.RESPONSE, Role.UNDO
sequences = st.lists(st.sampled_from([1, 2, 3, UNDO, UNDO]), max_size=40)
role_rows = st.lists(st.sampled_from([P, R, Role.ERROR, Role.CORRECTION, U, U]), max_size=40)


def rewrite(ids: list[int]) -> list[int]:
    """Rewriting, no stack: strike out the leftmost undo together with what stands before it, until none is left."""
    while UNDO in ids:
        at = ids.index(UNDO)
        ids = ids[: max(at - 1, 0)] + ids[at + 1 :]
    return ids


@settings(deadline=None)
@given(sequences)
def test_apply_undo_is_the_rewriting_system(ids: list[int]) -> None:
    assert apply_undo(ids, UNDO) == rewrite(ids)
    assert apply_undo(torch.tensor(ids, dtype=torch.long), UNDO) == rewrite(ids)
    assert apply_undo(iter(ids), UNDO) == rewrite(ids)


def test_apply_undo_by_hand() -> None:
    """x y z U U w -> x w; an undo on an empty stack does nothing."""
    x, y, z, w = 1, 2, 3, 4
    assert apply_undo([x, y, z, UNDO, UNDO, w], UNDO) == [x, w]
    assert apply_undo([UNDO, x, UNDO, UNDO, y], UNDO) == [y]
    assert apply_undo([], UNDO) == []


@settings(deadline=None)
@given(sequences, sequences)
def test_apply_undo_can_be_resumed(first: list[int], second: list[int]) -> None:
    assert apply_undo(apply_undo(first, UNDO) + second, UNDO) == apply_undo(first + second, UNDO)


def naive_context(roles: list[Role], token: int) -> tuple[list[int], int]:
    """What a token sees and where it stands, replayed from the start: prompts are for ever, answers are rewritten."""
    fixed: list[int] = []  # prompts, and answers that a prompt has closed
    answer: list[int] = []
    for index, role in enumerate(roles[: token + 1]):
        if role == P:
            fixed, answer = [*fixed, *answer, index], []
        elif role == U:
            answer = answer[:-1]
        else:
            answer = [*answer, index]
    stack = fixed + answer
    seen = [*stack, token] if roles[token] == U else stack
    return seen, len(seen) - 1


@settings(deadline=None)
@given(role_rows)
def test_stack_context_is_the_naive_replay(roles: list[Role]) -> None:
    found = stack_context(roles)
    for token in range(len(roles)):
        assert (found.attends(token), found.positions[token]) == naive_context(roles, token)


def test_stack_context_by_hand() -> None:
    """Indices 0..6 are p x y U U U w: the third undo may not reach the prompt; w stands where x stood."""
    found = stack_context([P, R, R, U, U, U, R])
    assert found.positions == [0, 1, 2, 2, 1, 1, 1]
    assert found.attends(3) == [0, 1, 3]
    assert found.attends(4) == [0, 4]
    assert found.attends(5) == [0, 5]
    assert found.attends(6) == [0, 6]


def test_an_undo_cannot_reach_an_earlier_answer() -> None:
    found = stack_context([P, R, P, U, R])
    assert found.attends(4) == [0, 1, 2, 4]
    assert found.positions == [0, 1, 2, 3, 3]
