"""The baseline: words drawn uniformly from the vocabulary, written anywhere. Nothing about them is plausible."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from holdfast.config import InputError
from holdfast.tokens.encoding import Encoder
from holdfast.traces.errors import Budget, Error, RightAnswer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Uniform:
    """Uniform over the tokens that are words of their own after a space."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.words = single_token_words(tokenizer)
        if not self.words:
            raise InputError("this tokenizer has no token that is a word of its own: random traces need one")

    def places(self, reference: RightAnswer) -> range:
        """Anywhere, the end of the answer included."""
        return range(len(reference.words) + 1)

    def __call__(self, reference: RightAnswer, budget: Budget, rng: random.Random) -> list[Error]:
        """Drawn words, the first of which is not the right one."""
        places = budget.places(self.places(reference), rng)
        return [Error(at, self._drawn(reference, at, budget.num_words(rng), rng)) for at in places]

    def _drawn(self, reference: RightAnswer, at: int, num: int, rng: random.Random) -> tuple[str, ...]:
        right = reference.words[at] if at < len(reference.words) else None
        while (words := tuple(rng.choices(self.words, k=num)))[0] == right:
            pass
        return words


def single_token_words(tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...]:
    """Text of every token that ``' ' + text`` is read back as, special ones left out."""
    encoder = Encoder(tokenizer)
    words = []
    for token in range(len(tokenizer)):
        if token in encoder.special_ids or token == encoder.undo_id:
            continue
        word = encoder.decode([token]).strip()
        if word and word.isprintable() and len(word.split()) == 1 and encoder.continuation(f" {word}") == [token]:
            words.append(word)
    return tuple(words)
