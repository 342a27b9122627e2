"""The token microscope's figures: answers cut to size, every text made visible, one colour scale for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.report.reading import finite
from holdfast.report.text import named, shown, visible

FIGURES = ("weight", "kl", "gradient_share")
MAX_ANSWERS = 40
MAX_TOKENS = 1_500  # of one answer
MAX_ALL_TOKENS = 16_000  # of the page: about 0.7 MB
MAX_TOKEN_TEXT = 120
MAX_PROMPT = 2_000


def microscope(answers: Sequence[dict[str, Any]], notes: list[str]) -> dict[str, Any] | None:
    """What page.js draws: answers with tokens as short lists, and the largest value of each figure."""
    left, kept = MAX_ALL_TOKENS, []
    for answer in answers[:MAX_ANSWERS]:
        num_tokens = min(MAX_TOKENS, left)
        if num_tokens:
            kept.append(_answer(answer, num_tokens))
            left -= len(kept[-1]["tokens"])
    if len(kept) < len(answers):
        notes.append(
            f"microscope.json: {len(answers) - len(kept):,} of {len(answers):,} answers left out to keep the page small."
        )
    if not kept:
        return None
    tops = {}
    for column, figure in enumerate(FIGURES, 1):
        values = [token[column] for answer in kept for token in answer["tokens"] if token[column] is not None]
        tops[figure] = max(values, default=None)
    return {"answers": kept, "tops": tops}


def _answer(answer: dict[str, Any], num_tokens: int) -> dict[str, Any]:
    tokens = [token for token in answer["tokens"] if isinstance(token, dict)]
    roles: list[str] = []
    short = [_token(token, roles) for token in tokens[:num_tokens]]
    note = ""
    if len(short) < len(tokens):
        note = f"The first {len(short):,} of {len(tokens):,} tokens; the rest is left out to keep the page small."
    return {
        "title": shown(answer.get("title") or "answer", 200),
        "model": shown(answer.get("model") or "", 200),
        "prompt": shown(answer.get("prompt") or "", MAX_PROMPT),
        "roles": roles,
        "tokens": short,
        "note": note,
    }


def _token(token: dict[str, Any], roles: list[str]) -> list[Any]:
    """Text, weight, kl, gradient share, the anchor's token (None: not known), and the role's number."""
    role = named(str(token.get("role") or "response"), 40)
    if role not in roles:
        roles.append(role)
    figures = [_rounded(finite(token.get(figure))) for figure in FIGURES]
    top = token.get("anchor_top")
    # The same cut for both, or a long token would differ from itself.
    return [
        shown(_text(token.get("text")), MAX_TOKEN_TEXT),
        *figures,
        None if top is None else shown(_text(top), MAX_TOKEN_TEXT),
        roles.index(role),
    ]


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else visible(str(value))


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")
