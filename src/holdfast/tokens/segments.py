"""The segments of an answer -> ids, each by itself, so that an undo retracts exactly the tokens of its error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.config import InputError
from holdfast.records import Role, Segment, visible_text
from holdfast.tokens.answers import RenderedAnswer
from holdfast.tokens.encoding import Encoder
from holdfast.tokens.undo import UNDO_TOKEN

Span = tuple[Role, list[int]]
"""Ids that share a role."""


def as_rendered(segments: Sequence[Segment], answer: RenderedAnswer) -> list[Segment]:
    """The segments as the template shows them: with its lead in front, trimmed where it trims.

    Every segment written while nothing else is visible begins the answer: when an error at the very start is taken
    back, its correction begins anew, lead included. A lead that is more than space is no part of any error.
    """
    if len(segments) == 1:
        return [Segment(segments[0].role, answer.lead + answer.content)]
    visible = visible_text(segments)
    if answer.content not in (visible, visible.strip(), visible.lstrip(), visible.rstrip()):
        raise InputError(f"the chat template rewrites the text of an answer in several segments: {visible[:40]!r}")
    lead, opening = answer.lead, []
    if lead.strip():
        first = segments[0].role
        lead, opening = "", [Segment(Role.PREFIX if first is Role.ERROR else first, lead)]
    trims_left = not answer.content.startswith(visible[: len(visible) - len(visible.lstrip())])
    trims_right = not answer.content.endswith(visible[len(visible.rstrip()) :])
    shown: list[Segment] = []
    stack: list[int] = []  # indices of what is visible
    for segment in segments:
        text = segment.text
        if segment.role is Role.UNDO:
            del stack[-1:]
        else:
            if not any(shown[i].text for i in stack):
                text = text.lstrip() if trims_left else text
                text = lead + text if text else text
            stack.append(len(shown))
        shown.append(Segment(segment.role, text))
    for i in reversed(stack if trims_right else []):
        shown[i] = Segment(shown[i].role, shown[i].text.rstrip())
        if shown[i].text:
            break
    return opening + shown


def encode_segments(segments: Sequence[Segment], encoder: Encoder, *, starts_text: bool = False) -> Iterator[Span]:
    """Ids and role of each segment; ``starts_text`` where nothing stands before the first one."""
    stack: list[tuple[Segment, list[int]]] = []
    for index, segment in enumerate(segments):
        if segment.role is Role.UNDO:
            if not stack or stack[-1][0].role is not Role.ERROR:
                raise InputError("an undo segment has no error segment before it to take back")
            if encoder.undo_id is None:
                raise InputError(
                    f'this tokenizer has no {UNDO_TOKEN} token: train with model.new_tokens: ["{UNDO_TOKEN}"],'
                    " or add it (tokenizer.add_tokens) and resize the model's embeddings"
                )
            _check(stack, encoder)
            yield Role.UNDO, [encoder.undo_id] * len(stack.pop()[1])
        else:
            ids = encoder.whole(segment.text) if starts_text and not index else encoder.continuation(segment.text)
            stack.append((segment, ids))
            yield segment.role, ids
    _check(stack, encoder)


def closing_role(segments: Sequence[Segment]) -> Role:
    """The role of the end-of-turn token: the last segment's, or ``correction`` after an undo."""
    return Role.CORRECTION if segments[-1].role is Role.UNDO else segments[-1].role


def _check(stack: Sequence[tuple[Segment, list[int]]], encoder: Encoder) -> None:
    if len(stack) > 1:
        encoder.check_joined("".join(seg.text for seg, _ in stack), [token for _, ids in stack for token in ids])
