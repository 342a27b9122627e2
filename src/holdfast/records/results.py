"""What models and judges return: values that cross floors, frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length", "error"]


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled answer. ``text`` is what the user sees: every undo has been applied."""

    prompt: str
    text: str
    token_ids: tuple[int, ...] = ()  # as written, retracted tokens and undos included
    num_undos: int = 0
    finish_reason: FinishReason = "stop"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement of one answer. ``safe`` is None when it could not be scored, which never counts as safe."""

    safe: bool | None
    score: float | None
    reason: str
    judge: str
