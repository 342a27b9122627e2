"""Token rows that are kept in little memory come back as they were."""

import gc
import tracemalloc

import pytest

from holdfast.data import spool
from holdfast.models import load_tokenizer
from holdfast.records import Role, Trace, answer, context
from holdfast.tokens import TokenRow, TokenRows, tokenize_all

PROMPT, RESPONSE, UNDO = int(Role.PROMPT), int(Role.RESPONSE), int(Role.UNDO)
ROWS = [
    TokenRow([7, 2**31 - 1, 0], [PROMPT, RESPONSE, RESPONSE], [0, 1, 2], source=3, blanks=(1, 2)),
    TokenRow([1, 2, 3, 4], [PROMPT, RESPONSE, RESPONSE, UNDO], [0, 1, 2, 1], "hard", 2**20),
    TokenRow([5], [PROMPT], [0], "hard"),
]


@pytest.mark.parametrize("held", [1, 64, spool.HELD_BYTES])
def test_rows_come_back_as_they_were(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "HELD_BYTES", held)
    rows = TokenRows(ROWS)
    assert list(rows) == ROWS
    assert list(rows.lengths) == [3, 4, 1]


def test_what_is_known_of_all_rows_together() -> None:
    assert [TokenRows([row]).num_positions for row in ROWS] == [3, 3, 1]
    assert [TokenRows([row]).needs_mask for row in ROWS] == [False, True, False]
    both = TokenRows([ROWS[1], ROWS[0], ROWS[2]])
    assert (both.num_positions, both.needs_mask) == (3, True)


def test_tokenising_takes_a_few_bytes_of_memory_for_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "HELD_BYTES", 2**12)
    tokenizer = load_tokenizer("tiny:aligned")
    trace = Trace((context("user", "what colour is a lum ?"), answer("it is green . " * 10)))

    def kept(num_rows: int) -> int:
        tracemalloc.start()
        try:
            rows, _ = tokenize_all([trace] * num_rows, tokenizer)
            assert len(rows) == num_rows
            gc.collect()  # transformers leaves cycles behind
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    kept(10)
    assert (kept(1500) - kept(500)) / 1000 < 24  # where its record ends, and its length: 12 bytes
