"""Text -> ids, piece by piece, such that the pieces put together are what a model reads and writes at inference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from holdfast.config import InputError
from holdfast.tokens.undo import UNDO_TOKEN, find_undo_id

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from holdfast.tokens.endings import Ending

SENTINELS = ("\n", "a", ".", "1", "é")
"""Text put before a piece so that the piece is not the first one; several, because some merge with what follows."""


class UnknownTextError(InputError):
    """Text in a language that the model's vocabulary does not have: it would be read as a row of unknown tokens."""


class Encoder:
    """A tokenizer that never reads a typed ``<UNDO>`` as the token, and that can continue a text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.undo_id = find_undo_id(tokenizer)
        self.unknown_id = _unknown_id(tokenizer)
        self._remembered = lru_cache(4096)(self._encode)
        self.endings: dict[str, Ending] = {}  # by tail: see ``endings``
        self._blank: dict[int, bool] = {}

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Found when it is needed: of a vocabulary with thousands of added tokens (Gemma 3) it takes longer than a prompt.

        Some models mark their end-of-turn token as merely added; some also add runs of spaces and newlines.
        """
        added = {token for token, added in self.tokenizer.added_tokens_decoder.items() if added.content.strip()}
        return frozenset(added | set(self.tokenizer.all_special_ids)) - {self.undo_id}

    @cached_property
    def concatenates(self) -> bool:
        """Byte-level vocabularies simply concatenate; SentencePiece-like ones put a space before every first word."""
        return self.decode(self._ids("a") + self._ids(" b") + self._ids("c")) == "a bc"

    def joined(self, begun: str, written: str) -> str:
        """A text and what was written after it; such tokens as bring no space of their own get one between."""
        return begun + written if not begun or self.concatenates else f"{begun} {written}".strip()

    def decode(self, ids: list[int]) -> str:
        """Ids -> text, special tokens included."""
        text = self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        return text

    def is_blank(self, token: int) -> bool:
        """Whether a token is space alone: no letter, digit or sign, and no special token."""
        if token not in self._blank:
            self._blank[token] = token not in self.special_ids and not self.decode([token]).strip()
        return self._blank[token]

    def whole(self, text: str) -> list[int]:
        """Ids of a text that starts here, as at inference. Nothing is added: chat templates write their own BOS."""
        first, *rest = self._spelled(text)
        return self._checked(self._ids(first) + [token for piece in rest for token in self._continued(piece)])

    def continuation(self, text: str) -> list[int]:
        """Ids of a text that follows other text: no BOS, no space of its own in front."""
        return self._checked([token for piece in self._spelled(text) for token in self._continued(piece)])

    def after(self, stop: str, text: str) -> list[int]:
        """Ids of a text that follows the special token ``stop``; some swallow or add a space, here as at inference."""
        if not stop:
            return self.continuation(text)
        head, whole = self._ids(stop), self.whole(stop + text)
        return whole[len(head) :] if whole[: len(head)] == head else self.continuation(text)

    def until_special(self, text: str) -> tuple[list[int], str] | None:
        """Ids of a text that follows other text, up to its first special token, and that token; None if there is none."""
        ids = self.continuation(text)
        at = next((i for i, token in enumerate(ids) if token in self.special_ids), None)
        return None if at is None else (ids[: at + 1], str(self.tokenizer.convert_ids_to_tokens(ids[at])))

    def check_joined(self, text: str, ids: list[int]) -> None:
        """Ids put together from pieces must read as the text does; a word-level vocabulary cannot split a word."""
        if (read := self.decode(ids)) != text and read != self.decode(self.continuation(text)):
            raise InputError(
                f"segments of an answer do not fit together in this tokenizer: {text[:80]!r} would read {read[:80]!r}; "
                "let segments begin and end at word boundaries, with the space at the beginning"
            )

    def check_known(self, ids: list[int]) -> None:
        """Refuse a text of which more than half is unknown to the vocabulary. The template's own tokens do not count."""
        num_unknown = ids.count(self.unknown_id) if self.unknown_id is not None else 0
        if not num_unknown:
            return
        num_text = num_unknown + sum(token not in self.special_ids for token in ids)
        if 2 * num_unknown > num_text:
            raise UnknownTextError(
                f"{num_unknown} of its {num_text} tokens are unknown to this model: give it text in a language that it"
                " knows (tiny:* speaks a make-believe one: `holdfast recipes rows`), or choose another model"
            )

    def _ids(self, text: str) -> list[int]:
        return self._remembered(text) if len(text) < 64 else self._encode(text)  # glue comes back in every row

    def _encode(self, text: str) -> list[int]:
        encoded = self.tokenizer(
            text, add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False, verbose=False
        )
        ids: list[int] = encoded["input_ids"]
        return ids

    def _continued(self, piece: str) -> list[int]:
        if not piece or self.concatenates:
            return self._ids(piece)
        for sentinel in SENTINELS:
            head, whole = self._ids(sentinel), self._ids(sentinel + piece)
            if whole[: len(head)] == head:
                return whole[len(head) :]
        raise InputError(
            f"this tokenizer cannot continue a text with {piece[:40]!r}: its first token merges with anything"
        )

    def _spelled(self, text: str) -> list[str]:
        """The text cut inside every ``<UNDO>`` that somebody typed, so that it is spelled out."""
        if self.undo_id is None or UNDO_TOKEN not in text:
            return [text]
        head, tail = UNDO_TOKEN[: len(UNDO_TOKEN) // 2], UNDO_TOKEN[len(UNDO_TOKEN) // 2 :]
        parts = text.split(UNDO_TOKEN)
        return [parts[0] + head, *[tail + part + head for part in parts[1:-1]], tail + parts[-1]]

    def _checked(self, ids: list[int]) -> list[int]:
        if self.undo_id is not None and self.undo_id in ids:
            raise InputError(f"a text contains something that this tokenizer reads as {UNDO_TOKEN}; remove it")
        return ids


def _unknown_id(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The id that stands for words outside the vocabulary. GPT-2's is its end of text too, and stands for no word."""
    unknown = tokenizer.unk_token_id
    return None if unknown in (tokenizer.eos_token_id, tokenizer.bos_token_id) else unknown


def check_known(requests: Sequence[list[int]], tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a request of which more than half is unknown to the vocabulary, by its number."""
    encoder = Encoder(tokenizer)
    for number, ids in enumerate(requests, 1):
        try:
            encoder.check_known(ids)
        except UnknownTextError as error:
            raise UnknownTextError(f"request {number}: {error}") from None
