"""The CPU's argmax by blocks is argmax, ties included."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.heads.logit_chunk import ARGMAX_BLOCK, first_argmax


@settings(max_examples=60, deadline=None)
@given(extra=st.integers(0, ARGMAX_BLOCK), levels=st.integers(1, 6), seed=st.integers(0, 2**20))
def test_first_of_the_largest(extra: int, levels: int, seed: int) -> None:
    """A few distinct values over thousands of columns: ties everywhere, in blocks and in the tail."""
    random = torch.Generator().manual_seed(seed)
    values = torch.randint(levels, (3, 16 * ARGMAX_BLOCK + extra), generator=random).float()
    values[1, : values.shape[1] - 1] -= 10  # the largest is the very last
    first = [row.index(max(row)) for row in values.tolist()]
    assert first_argmax(values).tolist() == first


@pytest.mark.parametrize("columns", [1, 5, ARGMAX_BLOCK])
def test_few_columns(columns: int) -> None:
    values = torch.arange(columns).float()[None] % 3
    assert first_argmax(values).tolist() == [min(2, columns - 1)]
