"""The turns of a conversation -> ids with roles: prompt, answer, prompt, answer, ..."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.config import InputError
from holdfast.records import Role, Turn
from holdfast.tokens.answers import OneAnswerPerRowError, render_answer
from holdfast.tokens.encoding import Encoder
from holdfast.tokens.endings import ending
from holdfast.tokens.segments import Span, as_rendered, closing_role, encode_segments
from holdfast.tokens.template import render


def conversation(turns: Sequence[Turn], encoder: Encoder, *, to_the_end: bool = False) -> Iterator[Span]:
    """Spans in order: context between the trained turns is what the template writes there.

    What follows the last trained turn is left out, unless ``to_the_end``. Raises ``OneAnswerPerRowError`` where the answers
    cannot stand in one row.
    """
    written = stop = rest = rule = ""
    trained = [index for index, turn in enumerate(turns) if turn.is_target]
    for index in trained:
        turn = turns[index]
        if turn.speaker != "assistant":
            raise InputError(f"only assistant turns can be trained; turn {index + 1} is a '{turn.speaker}' turn")
        if rule:
            raise OneAnswerPerRowError("the chat template writes no end-of-turn token")
        answer = render_answer(turns[: index + 1], encoder.tokenizer)
        if not answer.before.startswith(written):
            raise OneAnswerPerRowError("the chat template rewrites earlier turns")
        between = answer.before[len(written) :]
        yield Role.PROMPT, encoder.after(stop, between) if written else encoder.whole(between)
        yield from encode_segments(as_rendered(turn.segments, answer), encoder)
        ids, text, stop, rule = ending(answer.tail, turns[: index + 1], encoder)
        yield closing_role(turn.segments), ids
        written = answer.before + answer.lead + answer.content + text
        rest = "" if rule else answer.tail[len(text) :]
    if to_the_end and trained and trained[-1] < len(turns) - 1:
        full = render(turns, encoder.tokenizer, open_answer=False)
        if rule or not full.startswith(written):
            raise OneAnswerPerRowError("something follows the last of them")
        rest = full[len(written) :]
    yield Role.PROMPT, encoder.after(stop, rest)


def prompt_too(turns: Sequence[Turn], encoder: Encoder) -> list[Span]:
    """Every token a target but the first, which is predicted from nothing; those of the prompt count as response.

    Where several answers cannot stand in one row as they would be written one by one, the row is the finished conversation as
    the template writes it.
    """
    if any(turn.other_fields.get("weight") == 0 for turn in turns):
        raise InputError(
            "field 'weight': an answer of weight 0 cannot be left out where train_on_prompt trains everything"
        )
    try:
        spans = list(conversation(turns, encoder, to_the_end=True))
    except OneAnswerPerRowError:
        spans = _finished(turns, encoder)
    spans = [(Role.RESPONSE if role is Role.PROMPT else role, ids) for role, ids in spans if ids]
    if not spans:
        raise InputError("nothing to train on: no turn has a response")
    role, first = spans[0]
    return [(Role.PROMPT, first[:1]), (role, first[1:]), *spans[1:]]


def _finished(turns: Sequence[Turn], encoder: Encoder) -> list[Span]:
    if any(segment.role not in (Role.PROMPT, Role.RESPONSE) for turn in turns for segment in turn.segments):
        raise InputError(
            "answers in segments need one row per answer in this chat template: train_on_prompt cannot be used"
        )
    ids = encoder.whole(render(turns, encoder.tokenizer, open_answer=False))
    if turns[-1].is_target:
        end = ending(render_answer(turns, encoder.tokenizer).tail, turns, encoder)
        ids = [*ids, *(end.ids[-1:] if end.rule else [])]
    return [(Role.RESPONSE, ids)]
