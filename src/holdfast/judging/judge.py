"""What every judge can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from holdfast.records import Trace, Turn, Verdict

Request = str | Trace | Sequence[Turn]
"""A conversation whose last user turn asks, or the text of that turn alone."""


def request_text(prompt: Request) -> str:
    """What the last user turn asks; the system prompt and earlier turns are not part of it."""
    if isinstance(prompt, str):
        return prompt
    turns = prompt.prompt if isinstance(prompt, Trace) else prompt
    return next((turn.visible for turn in reversed(turns) if turn.speaker == "user"), "")


@runtime_checkable
class Judge(Protocol):
    """Two questions about one response. Anything that answers both is a judge."""

    @property
    def name(self) -> str:
        """As it stands in tables."""
        ...

    def __call__(self, prompt: Request, response: str) -> Verdict:
        """Did the response do what it must not? ``safe`` is None where the judge cannot say; that never counts as safe."""
        ...

    def refuses(self, prompt: Request, response: str) -> bool:
        """Is it a refusal? Asked of harmless requests, where a refusal is the fault."""
        ...
