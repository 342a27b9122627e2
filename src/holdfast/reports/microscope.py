"""The token microscope's figures: answers cut to size, every text made visible, one colour scale for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.reports.reading import finite
from holdfast.reports.text import named, shown, visible

FIGURES = ("weight", "kl", "gradient_share")
MAX_ANSWERS = 40
MAX_TOKENS = 1_500  # of one answer
MAX_ALL_TOKENS = 16_000  # of the page: about 0.7 MB
MAX_TOKEN_TEXT = 120
MAX_PROMPT = 2_000


def microscope(answers: Sequence[dict[str, Any]], notes: list[str]) -> dict[str, Any] | None:
    """What page.js draws: answers with tokens as short lists, and the largest value of each figure."""
    left, kept = MAX_ALL_TOKENS, []
    # The same row under several defences stands together; otherwise the order is the file's.
    places = {place: index for index, place in reversed(list(enumerate(map(_place, answers))))}
    for answer in sorted(answers[:MAX_ANSWERS], key=lambda one: (_group(one), places[_place(one)])):
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
    num_tokens = len(tokens) + int(finite(answer.get("num_left_out")) or 0)
    note = ""
    if len(short) < num_tokens:
        note = f"The first {len(short):,} of {num_tokens:,} tokens; the rest is left out to keep the page small."
    parts = [
        f"objective {answer['objective']}" if answer.get("objective") else "",
        f"seed {answer['seed']}" if "seed" in answer else "",
    ]
    title = str(answer.get("title") or "answer")
    return {
        "title": shown(f"{answer['defence']}: {title}" if answer.get("defence") else title, 200),
        "model": shown(answer.get("model") or ", ".join(part for part in parts if part), 200),
        "group": _group(answer),
        "prompt": shown(answer.get("prompt") or "", MAX_PROMPT),
        "roles": roles,
        "tokens": short,
        "note": note,
    }


def _group(answer: dict[str, Any]) -> str:
    """Answers of a matrix are told apart by attack."""
    return named(str(answer.get("attack") or ""))


def _place(answer: dict[str, Any]) -> tuple[str, str]:
    return _group(answer), str(answer.get("title"))


def _token(token: dict[str, Any], roles: list[str]) -> list[Any]:
    """Text, weight, kl, gradient share, the anchor's token (None: not known), the role's number, the model's own token."""
    role = named(str(token.get("role") or "response"), 40)
    if role not in roles:
        roles.append(role)
    figures = [_rounded(finite(token.get(figure))) for figure in FIGURES]
    # The same cut for all three, or a long token would differ from itself.
    text, anchor, policy = (
        None if (value := token.get(key)) is None else shown(_text(value), MAX_TOKEN_TEXT)
        for key in ("text", "anchor_top", "policy_top")
    )
    return [text or "", *figures, anchor, roles.index(role), policy]


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else visible(str(value))


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")
