"""Where an answer begins and ends in what the chat template writes: found by rendering, never by ``{% generation %}``.

A turn is rendered twice: the conversation before it with the generation prompt, and the conversation including it. The
second starts with the first, and what is left over is the answer: ``lead + content + tail``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from holdfast.config import InputError
from holdfast.records import Turn

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PLACEHOLDER = "\ue000\ue001"
"""Stands in for an answer when its own text occurs more than once in what the template writes."""


class HistoryRewrittenError(InputError):
    """The template writes an earlier turn differently once a later one follows: no single row can hold both."""


@dataclass(frozen=True, slots=True)
class RenderedAnswer:
    """An assistant turn as the template writes it: ``before + lead + content + tail``."""

    before: str  # everything the model is given, generation prompt included
    lead: str  # what the template puts before the content (a space, an empty think block): the model writes it
    content: str  # the answer as the template shows it, perhaps trimmed
    tail: str  # end-of-turn token, newline, ...


def render(turns: Sequence[Turn], tokenizer: PreTrainedTokenizerBase, *, open_answer: bool) -> str:
    """The conversation as text; ``open_answer`` adds the generation prompt."""
    if not tokenizer.chat_template:
        raise InputError(
            "this tokenizer has no chat template: use an instruct model, set tokenizer.chat_template, "
            "or give documents without turns (field 'text')"
        )
    messages = [{"role": turn.speaker, "content": turn.visible} for turn in turns]
    return _apply(messages, tokenizer, open_answer)


def render_answer(turns: Sequence[Turn], tokenizer: PreTrainedTokenizerBase) -> RenderedAnswer:
    """The last turn, an answer, in the conversation before it."""
    if len(turns) < 2:
        raise InputError("the conversation begins with an answer: put a user turn before it")
    before = render(turns[:-1], tokenizer, open_answer=True)
    visible = turns[-1].visible
    chunk = _beyond(before, render(turns, tokenizer, open_answer=False))
    for content in (visible, visible.strip(), visible.lstrip(), visible.rstrip()):  # templates that trim
        at = chunk.find(content)
        if at >= 0 and at == chunk.rfind(content):
            return RenderedAnswer(before, chunk[:at], content, chunk[at + len(content) :])
    return _between(before, chunk, turns, tokenizer)


def turns_left_out(turns: Sequence[Turn], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Speakers of turns that the template does not write at all: some know no system prompt, many no tools."""
    text = render(turns, tokenizer, open_answer=False)
    lost = [index for index, turn in enumerate(turns) if (words := turn.visible.strip()) and words not in text]
    return [turns[index].speaker for index in lost if _same_without(index, turns, tokenizer, text)]


def _same_without(index: int, turns: Sequence[Turn], tokenizer: PreTrainedTokenizerBase, text: str) -> bool:
    """Words may be written otherwise (escaped, thoughts cut); a turn that makes no difference is not written."""
    try:
        return render([*turns[:index], *turns[index + 1 :]], tokenizer, open_answer=False) == text
    except InputError:
        return False


def _between(before: str, chunk: str, turns: Sequence[Turn], tokenizer: PreTrainedTokenizerBase) -> RenderedAnswer:
    """Find the edges with a placeholder: the content occurs twice, or the template has rewritten it."""
    messages = [{"role": turn.speaker, "content": turn.visible} for turn in turns]
    messages[-1]["content"] = PLACEHOLDER
    lead, _, tail = _beyond(before, _apply(messages, tokenizer, open_answer=False)).partition(PLACEHOLDER)
    if not chunk.endswith(tail):
        raise InputError(f"the chat template does not end this answer as it ends others: {chunk[-40:]!r}, not {tail!r}")
    inside = chunk.removesuffix(tail)
    if not inside.startswith(lead):
        lead = ""  # the content is given its own lead, as with the think block of a reasoning model
    return RenderedAnswer(before, lead, inside.removeprefix(lead), tail)


def _apply(messages: list[dict[str, str]], tokenizer: PreTrainedTokenizerBase, open_answer: bool) -> str:
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=open_answer)
    except TemplateError as error:
        hint = "; put the system text into the first user turn" if messages[0]["role"] == "system" else ""
        raise InputError(f"the chat template refuses this conversation: {error}{hint}") from None
    assert isinstance(text, str)
    return text


def _beyond(before: str, full: str) -> str:
    if not full.startswith(before):
        at = next((i for i, (a, b) in enumerate(zip(before, full, strict=False)) if a != b), len(full))
        raise InputError(
            f"the chat template does not continue its own prompt: where that has {before[at : at + 30]!r}, the "
            f"answered one has {full[at : at + 30]!r}; use a template that writes answers after its generation prompt"
        )
    return full[len(before) :]
