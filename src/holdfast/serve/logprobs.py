"""Log-probabilities of tokens, as the two paths of the protocol read and write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.serve.protocol import sendable

LEAST = -9999.0  # JSON has no -inf; clients know this number
NOT_JUDGED = "<not judged {}>"


class Token(NamedTuple):
    """A token that was read or written. Its ``logp`` is None where nothing stands before it."""

    text: str
    logp: float | None
    top: tuple[tuple[str, float], ...] = ()  # the likeliest tokens in its place, the likeliest first
    raw: bytes | None = None  # where it is a part of a character; else the text in UTF-8


Tokens = tuple[Token, ...]


def mean_logp(tokens: Tokens | None) -> float | None:
    """Per token; None where one is missing."""
    logps = [token.logp for token in tokens or () if token.logp is not None]
    return math.fsum(logps) / len(logps) if tokens and len(logps) == len(tokens) else None


def spelling(tokens: Tokens, text: str) -> Tokens:
    """The tokens as far as they spell this text: only what a judge has read may be shown, and some servers show the end token."""
    rest, kept = text.encode(), []
    for token in tokens:
        raw = token.text.encode() if token.raw is None else token.raw
        if not rest.startswith(raw):
            break
        rest = rest[len(raw) :]
        kept.append(token)
    return tuple(kept)


def unnamed(tokens: Tokens) -> Tokens:
    """Alternatives keep their log-probability but lose their text, which no judge has read."""
    return tuple(
        token._replace(
            top=tuple(
                (text if text == token.text else NOT_JUDGED.format(rank), logp)
                for rank, (text, logp) in enumerate(token.top, 1)
            )
        )
        for token in tokens
    )


def from_chat(logprobs: Any) -> Tokens | None:
    """The tokens of a choice of /chat/completions; None where it is not well-formed."""
    try:
        return tuple(_chat_token(entry) for entry in logprobs["content"])
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


def _chat_token(entry: Any) -> Token:
    top = tuple((_text(other["token"]), _finite(other["logprob"])) for other in entry.get("top_logprobs") or ())
    raw = None if entry.get("bytes") is None else bytes(entry["bytes"])
    text = _text(entry["token"]) if raw is None else raw.decode(errors="replace")  # they must not say different things
    return Token(text, _finite(entry["logprob"]), top, raw)


def from_completion(logprobs: Any) -> Tokens | None:
    """The tokens of a choice of /completions; None where it is not well-formed."""
    try:
        tops = logprobs.get("top_logprobs") or [None] * len(logprobs["tokens"])
        rows = zip(logprobs["tokens"], logprobs["token_logprobs"], tops, strict=True)
        return tuple(
            Token(_text(text), None if logp is None else _finite(logp), _ranked(top or {})) for text, logp, top in rows
        )
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


def _ranked(top: dict[str, float]) -> tuple[tuple[str, float], ...]:
    pairs = [(_text(text), _finite(logp)) for text, logp in top.items()]
    return tuple(sorted(pairs, key=lambda pair: -pair[1]))


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError("expected text")
    return sendable(text)


def _finite(logp: Any) -> float:
    if math.isnan(float(logp)):
        raise ValueError("expected a number")
    return max(float(logp), LEAST)


def to_chat(tokens: Sequence[Token]) -> dict[str, Any]:
    """The tokens as a choice of /chat/completions has them."""
    return {
        "content": [
            {
                **_entry(token.text, token.logp, token.raw),
                "top_logprobs": [_entry(text, logp, None) for text, logp in token.top],
            }
            for token in tokens
        ],
        "refusal": None,
    }


def _entry(text: str, logp: float | None, raw: bytes | None) -> dict[str, Any]:
    return {"token": text, "logprob": logp, "bytes": list(text.encode() if raw is None else raw)}


def to_completion(tokens: Sequence[Token]) -> dict[str, Any]:
    """The tokens as a choice of /completions has them: the token itself is always among its alternatives."""
    offsets = [0]
    for token in tokens:
        offsets.append(offsets[-1] + len(token.text))
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [token.logp for token in tokens],
        "top_logprobs": [_by_text(token) for token in tokens],
        "text_offset": offsets[:-1],
    }


def _by_text(token: Token) -> dict[str, float] | None:
    """The likelier of two tokens that read alike stands for both."""
    if token.logp is None:
        return None
    pairs = sorted([*token.top, (token.text, token.logp)], key=lambda pair: pair[1])
    return dict(pairs)
