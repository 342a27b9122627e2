"""The one token this project adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

UNDO_TOKEN = "<UNDO>"
"""Takes back the token before it (MATH §4)."""


def find_undo_id(tokenizer: PreTrainedTokenizerBase, undo_token: str = UNDO_TOKEN) -> int | None:
    """The id of the undo token, or None where the vocabulary lacks it (an unknown-token id does not count)."""
    number = tokenizer.convert_tokens_to_ids(undo_token)
    return number if isinstance(number, int) and tokenizer.convert_ids_to_tokens(number) == undo_token else None
