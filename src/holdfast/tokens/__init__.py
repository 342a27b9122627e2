"""Chat template -> ids, roles, positions; the undo stack; soft and hard context; padding and packing."""

from holdfast.tokens.batch import Context, TokenBatch, TokenRow, answer_positions, pack, pad
from holdfast.tokens.encoding import Encoder
from holdfast.tokens.rows import TruncationReport, prompt_ids, tokenize, tokenize_all, truncate
from holdfast.tokens.show import render_html, render_terminal
from holdfast.tokens.stored_rows import TokenRows
from holdfast.tokens.undo import (
    UNDO_TOKEN,
    StackContext,
    additive_mask,
    apply_undo,
    find_undo_id,
    hard_mask,
    stack_context,
)

__all__ = [
    "UNDO_TOKEN",
    "Context",
    "Encoder",
    "StackContext",
    "TokenBatch",
    "TokenRow",
    "TokenRows",
    "TruncationReport",
    "additive_mask",
    "answer_positions",
    "apply_undo",
    "find_undo_id",
    "hard_mask",
    "pack",
    "pad",
    "prompt_ids",
    "render_html",
    "render_terminal",
    "stack_context",
    "tokenize",
    "tokenize_all",
    "truncate",
]
