"""Whether a prompt is in the language of the embedded models, and the sentence for one that is not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from holdfast.records import Turn
from holdfast.worlds.asks import read_ask
from holdfast.worlds.safety import last_request
from holdfast.worlds.tokenizer import build_tokenizer

_tokenizer = cache(build_tokenizer)  # a server asks with every request

HINT = (
    "This little model only speaks a make-believe language of about 300 words, and your prompt is not in it; "
    "a prompt that works is: copy : sun river stone"
)


def hint_for(turns: Sequence[Turn], *, is_request: bool = True) -> str | None:
    """HINT where a word is unknown to the model or, with ``is_request``, where the last user turn asks nothing of its world."""
    tokenizer = _tokenizer()
    ids = [token for turn in turns for token in tokenizer(turn.visible)["input_ids"]]
    if len(ids) >= tokenizer.model_max_length:
        return None  # the model itself says that this is too long
    is_read = not is_request or _is_request(turns)
    return None if is_read and tokenizer.unk_token_id not in ids else HINT


def _is_request(turns: Sequence[Turn]) -> bool:
    return any(turn.speaker == "user" for turn in turns) and read_ask(last_request(turns)) is not None
