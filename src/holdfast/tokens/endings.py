"""The trained end of an answer: the template's own end-of-turn token or, where it writes none, one that is given by rule.

A model that never saw an answer end does not stop. The rule: the tokenizer's EOS; without one, the special token that opens
the next turn. Such a token is written at the end of a row only, because the template would not write it between turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from holdfast.config import InputError
from holdfast.records import Turn, answer, context
from holdfast.tokens.answers import render_answer, text_before_next_turn
from holdfast.tokens.encoding import Encoder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Ending(NamedTuple):
    """The trained end of an answer: ``ids`` of ``text``, which ends in the special token ``stop``.

    ``rule`` is empty, or says where a stop comes from that the template does not write; then ``text`` is without it.
    """

    ids: list[int]
    text: str
    stop: str
    rule: str = ""

    @property
    def sentence(self) -> str:
        """For the user, in one line."""
        return f"the chat template writes no end-of-turn token: '{self.stop}' ({self.rule}) is trained as one"


def ending(tail: str, turns: Sequence[Turn], encoder: Encoder) -> Ending:
    """What is trained after the last of ``turns``, an answer; ``tail`` is what the template writes after it.

    The tail up to its first special token, and those that stand right behind it. Raises ``InputError`` where no token can
    end an answer.
    """
    if tail not in encoder.endings:
        encoder.endings[tail] = _own(tail, encoder) or _by_rule(tail, turns, encoder)
    return encoder.endings[tail]


def stop_id(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The token that ends a trained answer of this tokenizer's template; None where there can be none."""
    turns, encoder = (context("user", "a"), answer("b")), Encoder(tokenizer)
    try:
        return ending(render_answer(turns, tokenizer).tail, turns, encoder).ids[-1]
    except InputError:
        return None


def given_endings(encoder: Encoder) -> list[Ending]:
    """The endings by rule of all the answers that this encoder has met, each stop once."""
    return list({ending.stop: ending for ending in encoder.endings.values() if ending.rule}.values())


def _own(tail: str, encoder: Encoder) -> Ending | None:
    first = encoder.until_special(tail)
    if first is None:
        return None
    ids, stop = first
    if stop not in tail:
        return Ending(ids, tail, stop)  # a tokenizer that lowercases: written is the whole tail
    end = tail.index(stop) + len(stop)
    while (more := encoder.until_special(tail[end:])) and tail.startswith(more[1], end):
        stop = more[1]  # as Cohere's: the answer ends, then the turn
        end += len(stop)
        ids = [*ids, *more[0]]
    return Ending(ids, tail[:end], stop)


def _by_rule(tail: str, turns: Sequence[Turn], encoder: Encoder) -> Ending:
    text = tail if tail.strip() else ""
    tokenizer = encoder.tokenizer
    stop, rule = tokenizer.eos_token, "the tokenizer's EOS"
    if tokenizer.eos_token_id is None:
        opener = encoder.until_special(text_before_next_turn(turns, tokenizer))
        stop, rule = opener[1] if opener else None, "it opens the next turn"
    if stop is None:
        raise InputError(
            "no token can end an answer: the chat template writes none, the tokenizer has no EOS, and no special token "
            "opens the next turn; set tokenizer.eos_token"
        )
    stop_id = tokenizer.convert_tokens_to_ids(stop)
    assert isinstance(stop_id, int)
    return Ending([*encoder.continuation(text), stop_id], text, str(stop), rule)
