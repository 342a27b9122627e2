"""A response as attempts and decisions: split at exact tokens, or at phrases such as "let me recheck" ([004] §3.2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.config import InputError
from holdfast.judging.extractors import Candidate, Extractor
from holdfast.records import Role, Segment

MARKERS = (
    r"\bwait\b", r"\bhold on\b", r"\bhmm\b", r"\bon second thought\b", r"\blet me (?:re-?|double[- ]?)\w*",
    r"\blet me (?:verify|check|try|go back)\b", r"\blet's (?:re-?|double[- ]?)\w*", r"\blet's (?:verify|check)\b",
    r"\bI'?ll (?:go back|re-?\w+|double[- ]?check)\b", r"\bI (?:made|have made) (?:a|an) \w*\s*(?:mistake|error|slip)\b",
    r"\bthat(?:'s| is| was) (?:not right|wrong|incorrect|a mistake)\b", r"\bto (?:double[- ]?check|verify)\b",
)  # fmt: skip
"""Phrases with which a response turns back on itself; regular expressions, upper and lower case alike."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """A response taken apart. ``answers[k]`` is what attempt k came to; ``segments`` spell the whole text with roles."""

    answers: tuple[str, ...]
    stopped: bool
    segments: tuple[Segment, ...]


Splitter = Callable[[str, bool], Attempts]
"""(response, whether it ended by itself) -> its attempts."""


def lexical_splitter(extract: Extractor, markers: Sequence[str] = MARKERS) -> Splitter:
    """Cut at markers. A marker counts as a decision to go on if an answer stands before it and another one follows.

    The text from the marker to the next candidate answer is the decision, the rest is sampling. What an attempt came to
    is the last candidate before the next decision. A marker after which no candidate follows is reflection that ended
    in stopping: decision text, but no new attempt.
    """
    pattern = _compiled(markers)

    def split(text: str, ended: bool) -> Attempts:
        candidates = list(extract(text))
        return _put_together(text, _turns(text, candidates, pattern), candidates, ended)

    return split


def token_splitter(extract: Extractor, *, resample: str, stop: str | None = None) -> Splitter:
    """Cut at exact tokens: each ``resample`` ends an attempt and begins the next one; ``stop`` ends the response.

    With a ``stop`` token, a response that lacks it was cut off. One that stops on an attempt without an answer has a wrong last
    attempt: it did decide to try again.
    """

    def split(text: str, ended: bool) -> Attempts:
        body, stopped, _ = text.partition(stop) if stop else (text, "", "")
        pieces = body.split(resample)
        answers = [candidates[-1].answer if (candidates := list(extract(piece))) else "" for piece in pieces]
        if not stopped and not answers[-1] and len(answers) > 1:
            answers.pop()  # cut off before the new attempt came to anything
        segments: list[Segment] = []
        for number, piece in enumerate(pieces):
            segments += [Segment(Role.DECISION, resample)] if number else []
            segments += [Segment(Role.SAMPLE, piece)] if piece else []
        segments += [Segment(Role.DECISION, stopped)] if stopped else []
        answered = tuple(answers) if any(answers) else ()
        return Attempts(answered, bool(stopped) if stop else ended, tuple(segments))

    return split


def _compiled(markers: Sequence[str]) -> re.Pattern[str]:
    for marker in markers:
        try:
            re.compile(marker)
        except re.error as error:
            raise InputError(f"marker '{marker}' is no regular expression: {error}") from None
    return re.compile("|".join(f"(?:{marker})" for marker in markers), re.IGNORECASE)


def _turns(text: str, candidates: Sequence[Candidate], pattern: re.Pattern[str]) -> list[tuple[int, int]]:
    """The decisions as spans (marker, next candidate). Markers inside such a span, or before any answer, are not turns."""
    spans: list[tuple[int, int]] = []
    for match in pattern.finditer(text):
        since = spans[-1][1] if spans else 0
        if not any(since <= candidate.start and candidate.end <= match.start() for candidate in candidates):
            continue
        following = next((candidate.start for candidate in candidates if candidate.start >= match.end()), len(text))
        spans.append((match.start(), following))
    return spans


def _put_together(
    text: str, turns: Sequence[tuple[int, int]], candidates: Sequence[Candidate], ended: bool
) -> Attempts:
    starts = [0, *(end for _, end in turns)]
    stops = [*(start for start, _ in turns), len(text)]
    answers: list[str] = []
    segments: list[Segment] = []
    for number, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        if number:
            segments.append(Segment(Role.DECISION, text[stops[number - 1] : start]))
        if start < stop:
            segments.append(Segment(Role.SAMPLE, text[start:stop]))
        inside = [candidate.answer for candidate in candidates if start <= candidate.start < stop]
        answers += inside[-1:]
    return Attempts(tuple(answers), ended, tuple(segments))
