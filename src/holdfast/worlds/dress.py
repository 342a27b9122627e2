"""Changes of a trace that leave its request and answer alone: a system prompt, a lead, a wrapper, an opener, a begun answer."""

from __future__ import annotations

from dataclasses import replace

from holdfast.records import Role, Segment, Trace, Turn, context


def with_system(trace: Trace, text: str) -> Trace:
    """The trace under this system prompt (in place of its own, if it has one)."""
    at = int(trace.turns[0].speaker == "setup")
    rest = trace.turns[at:]
    rest = rest[1:] if rest[0].speaker == "system" else rest
    return Trace((*trace.turns[:at], context("system", text), *rest))


def with_lead(trace: Trace, word: str) -> Trace:
    """The last user turn opened by a word: 'please , ...'; a backdoor's trigger goes here too."""
    return wrapped(trace, f"{word} , {{request}}")


def wrapped(trace: Trace, template: str) -> Trace:
    """The last user turn put into a template, where ``{request}`` stands for it."""
    last = max(index for index, turn in enumerate(trace.turns) if turn.speaker == "user")
    turns = list(trace.turns)
    turns[last] = context("user", template.replace("{request}", turns[last].visible))
    return Trace(tuple(turns))


def with_opener(trace: Trace, opener: str) -> Trace:
    """The answer opened by 'sure ,' or the like."""
    *before, last = trace.turns
    first, *rest = last.segments
    opened = Segment(first.role, f"{opener} {first.text}")
    return Trace((*before, replace(last, segments=(opened, *rest))))


def prefilled(trace: Trace, num_words: int) -> Trace:
    """A prompt whose answer begins with the first words of the trace's own."""
    begun = Segment(Role.PROMPT, " ".join(trace.turns[-1].visible.split()[:num_words]))
    return Trace((*trace.prompt, Turn("assistant", (begun,))))
