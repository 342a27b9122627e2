"""Padding, packing and positions, by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.records import Role
from holdfast.tokens import TokenRow, answer_positions, pack, pad

P, R, E, U, C = Role.PROMPT, Role.RESPONSE, Role.ERROR, Role.UNDO, Role.CORRECTION
LONG = TokenRow([5, 6, 7], [P, R, R], [0, 1, 2])
SHORT = TokenRow([8, 9], [P, R], [0, 1])
HARD = TokenRow([5, 6, 9, 7], [P, E, U, C], [0, 1, 1, 1], "hard")


def test_pad_by_hand() -> None:
    batch = pad([LONG, SHORT], pad_id=1)
    assert batch.ids.tolist() == [[5, 6, 7], [8, 9, 1]]
    assert batch.roles.tolist() == [[0, 1, 1], [0, 1, 0]]
    assert batch.positions.tolist() == [[0, 1, 2], [0, 1, 0]]
    assert batch.rows.tolist() == [[0, 0, 0], [1, 1, -1]]
    assert batch.attention is not None
    assert batch.attention.tolist() == [[1, 1, 1], [1, 1, 0]]
    assert {tensor.dtype for tensor in (batch.ids, batch.roles, batch.positions, batch.rows)} == {torch.int64}


def test_pack_by_hand() -> None:
    batch = pack([LONG, SHORT])
    assert batch.ids.tolist() == [[5, 6, 7, 8, 9]]
    assert batch.positions.tolist() == [[0, 1, 2, 0, 1]]
    assert batch.rows.tolist() == [[0, 0, 0, 1, 1]]
    assert batch.attention is None
    assert answer_positions(batch.roles).tolist() == [[-1, 0, 1, -1, 0]]


def test_hard_context_by_hand() -> None:
    """Of p e U c: the undo no longer sees the error, the correction sees neither."""
    block = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]]
    padded, packed = pad([HARD, SHORT], pad_id=1), pack([SHORT, HARD])
    assert padded.attention is not None
    assert packed.attention is not None
    assert padded.attention[0, 0].int().tolist() == block
    assert packed.attention[0, 0, 2:, 2:].int().tolist() == block
    assert packed.attention[0, 0, 2:, :2].any().item() is False


def test_hard_context_without_an_undo_needs_no_mask() -> None:
    plain = TokenRow(LONG.ids, LONG.roles, LONG.positions, "hard")
    assert pack([plain]).attention is None
    assert pad([plain, SHORT], pad_id=1).attention.shape == (2, 3)  # type: ignore[union-attr]


@pytest.mark.parametrize("rows", [[LONG, SHORT], [HARD, SHORT]])
def test_a_batch_moves_whole(rows: list[TokenRow]) -> None:
    for batch in (pad(rows, pad_id=1), pack(rows)):
        moved = batch.to("meta")
        for name in ("ids", "roles", "positions", "rows"):
            assert getattr(moved, name).device.type == "meta"
        assert (moved.attention is None) == (batch.attention is None)
        assert moved.attention is None or moved.attention.device.type == "meta"
        assert ("attention_mask" in batch.model_inputs()) == (batch.attention is not None)


def test_answer_positions_by_hand() -> None:
    assert answer_positions([P, P, R, R, P, E, U, C]) == [-1, -1, 0, 1, -1, 0, 1, 2]
    assert answer_positions([]) == []


@settings(deadline=None)
@given(st.lists(st.sampled_from([P, P, R, E, U]), max_size=30))
def test_answer_positions_are_a_count_since_the_last_prompt(roles: list[Role]) -> None:
    expected, count = [], 0
    for role in roles:
        count = 0 if role == P else count + 1
        expected.append(count - 1)
    assert answer_positions(roles) == expected
    stacked = torch.tensor([roles, roles], dtype=torch.long)
    assert answer_positions(stacked).tolist() == [expected, expected]


def test_a_row_counts_its_targets() -> None:
    assert (len(HARD), HARD.num_targets, HARD.needs_mask) == (4, 3, True)
