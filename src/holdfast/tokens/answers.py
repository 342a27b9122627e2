"""Where an answer begins and ends in what the chat template writes: found by rendering, never by ``{% generation %}``.

A turn is rendered twice: the conversation before it with the generation prompt, and the conversation including it. The
second starts with the first, and what is left over is the answer: ``lead + content + tail``.

Some reasoning models open a think block in the generation prompt that the answered conversation does not have, or closes
otherwise (DeepSeek, Nemotron). There the model is given the prompt as at inference, and the answer closes the block first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.config import InputError
from holdfast.records import Role, Segment, Turn
from holdfast.tokens.template import PLACEHOLDER, render

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

OPEN, CLOSE = "<think>", "</think>"
_OPENED = re.compile(rf"{OPEN}\s*\Z")


class OneAnswerPerRowError(InputError):
    """Several answers of a conversation cannot stand in one row; ``reason`` says why, in half a sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"several answers of one conversation cannot be trained in one row: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RenderedAnswer:
    """An assistant turn as the template writes it: ``before + lead + content + tail``."""

    before: str  # everything the model is given, generation prompt included
    lead: str  # what the template puts before the content (a space, an empty think block): the model writes it
    content: str  # the answer as the template shows it, perhaps trimmed
    tail: str  # end-of-turn token, newline, ...


def render_answer(turns: Sequence[Turn], tokenizer: PreTrainedTokenizerBase) -> RenderedAnswer:
    """The last turn, an answer, in the conversation before it."""
    if all(turn.speaker == "setup" for turn in turns[:-1]):
        raise InputError("the conversation begins with an answer: put a user turn before it")
    before = render(turns[:-1], tokenizer, open_answer=True)
    turn = turns[-1]
    chunk = _beyond(before, render(turns, tokenizer, open_answer=False), turn)
    if (thoughts := _thoughts(turn)) and thoughts not in chunk:
        raise InputError(
            "field 'reasoning_content': this chat template does not write it; put it into the content, or remove it"
        )
    for content in _trims(turn.visible):
        at = chunk.find(content)
        if at >= 0 and at == chunk.rfind(content):
            return RenderedAnswer(before, chunk[:at], content, chunk[at + len(content) :])
    return _between(before, chunk, turns, tokenizer)


def text_before_next_turn(turns: Sequence[Turn], tokenizer: PreTrainedTokenizerBase) -> str:
    """What the template writes between the last answer and the words of a user turn that follows it."""
    follows = Turn("user", (Segment(Role.PROMPT, PLACEHOLDER),))
    text, placeholder, _ = render([*turns, follows], tokenizer, open_answer=False).partition(PLACEHOLDER)
    said = next((content for content in _trims(turns[-1].visible) if content in text), None)
    return text.rpartition(said)[2] if placeholder and said else ""


def turns_left_out(turns: Sequence[Turn], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Speakers of turns that the template does not write at all: some know no system prompt, many no tools."""
    text = render(turns, tokenizer, open_answer=False)
    said = [index for index, turn in enumerate(turns) if turn.speaker != "setup" and turn.visible.strip()]
    lost = [index for index in said if turns[index].visible.strip() not in text]
    return [turns[index].speaker for index in lost if _same_without(index, turns, tokenizer, text)]


def _same_without(index: int, turns: Sequence[Turn], tokenizer: PreTrainedTokenizerBase, text: str) -> bool:
    """Words may be written otherwise (escaped, thoughts cut); a turn that makes no difference is not written."""
    try:
        return render([*turns[:index], *turns[index + 1 :]], tokenizer, open_answer=False) == text
    except InputError:
        return False


def _between(before: str, chunk: str, turns: Sequence[Turn], tokenizer: PreTrainedTokenizerBase) -> RenderedAnswer:
    """Find the edges with a placeholder: the content occurs twice, or the template has rewritten it."""
    stand_in = replace(turns[-1], segments=(Segment(Role.RESPONSE, PLACEHOLDER),))
    text = render([*turns[:-1], stand_in], tokenizer, open_answer=False)
    lead, placeholder, tail = _beyond(before, text, stand_in).partition(PLACEHOLDER)
    if not placeholder:
        raise InputError("the chat template does not write the text of an answer")
    if not chunk.endswith(tail):
        raise InputError(f"the chat template does not end this answer as it ends others: {chunk[-40:]!r}, not {tail!r}")
    inside = chunk.removesuffix(tail)
    if not inside.startswith(lead):
        lead = ""  # the content is given its own lead, as with the think block of a reasoning model
    return RenderedAnswer(before, lead, inside.removeprefix(lead), tail)


def _beyond(before: str, full: str, turn: Turn) -> str:
    """What the answered conversation has beyond the prompt: all that the model writes."""
    if full.startswith(before):
        return full[len(before) :]
    opened = _OPENED.search(before)
    if opened and full.startswith(before[: opened.start()]):
        return _closing_the_block(full[opened.start() :], turn)
    at = next((i for i, (a, b) in enumerate(zip(before, full, strict=False)) if a != b), len(full))
    hint = "use a template that writes answers after its generation prompt"
    if _thoughts(turn) or CLOSE in turn.visible:
        hint = 'the prompt leaves no room for thoughts: give the row chat_template_kwargs {"enable_thinking": true}'
    raise InputError(
        f"the chat template does not continue its own prompt: where that has {before[at : at + 30]!r}, the "
        f"answered one has {full[at : at + 30]!r}; {hint}"
    )


def _closing_the_block(written: str, turn: Turn) -> str:
    """The answer after a prompt that ends in ``<think>``: the thoughts, if there are any, and the end of the block.

    ``written`` is the answer in a conversation that lacks the block, or has one that begins otherwise.
    """
    if written.startswith(OPEN):
        return written.removeprefix(OPEN)
    if CLOSE in written:
        return written
    if thoughts := _thoughts(turn):
        return f"{thoughts}\n{CLOSE}\n\n{written}"
    own, closed, _ = turn.visible.rpartition(CLOSE)  # the template has cut these off
    return own.removeprefix(OPEN).removeprefix("\n") + closed + written if closed else f"\n{CLOSE}\n\n{written}"


def _thoughts(turn: Turn) -> str:
    return str(turn.other_fields.get("reasoning_content", "")).strip()


def _trims(text: str) -> tuple[str, ...]:
    """The text, and what templates that trim make of it."""
    return text, text.strip(), text.lstrip(), text.rstrip()
