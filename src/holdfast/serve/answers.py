"""What the client gets, whatever the path: choices, each with what the layer has to say about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.serve.logprobs import Tokens

COUNTS = ("drawn", "judged", "safe")
PIECE = 48  # characters


@dataclass(frozen=True)
class Choice:
    """One answer, or a refusal of this layer in its place."""

    text: str
    finish_reason: str
    returned: bool  # False: a refusal of this layer
    verdict: dict[str, Any]
    tokens: Tokens | None = None
    tool_calls: tuple[dict[str, Any], ...] = ()


def pieces(text: str) -> list[str]:
    """A judged text as a stream sends it."""
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


@dataclass(frozen=True)
class Answer:
    """All choices for one request, and what drawing them cost."""

    choices: tuple[Choice, ...]
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def returned(self) -> bool:
        """Whether any choice is the model's own answer, and not a refusal of this server."""
        return any(choice.returned for choice in self.choices)

    @property
    def usage(self) -> dict[str, int]:
        """Tokens of all candidates, returned or not: that is what was paid."""
        total = self.prompt_tokens + self.completion_tokens
        counts = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
        return {**counts, "total_tokens": total}

    @property
    def verdict(self) -> dict[str, Any]:
        """The verdict of the only choice. Of several the first that was refused speaks for all, and the counts are summed."""
        first = next((choice for choice in self.choices if not choice.returned), self.choices[0])
        if len(self.choices) == 1:
            return first.verdict
        num_refused = sum(not choice.returned for choice in self.choices)
        reason = f"{num_refused} of {len(self.choices)} answers refused; {first.verdict['reason']}"
        summed = {name: sum(choice.verdict[name] for choice in self.choices) for name in COUNTS}
        return {**first.verdict, **summed, "reason": reason if num_refused else first.verdict["reason"]}


def joined(answers: Sequence[Answer]) -> Answer:
    """The answers to several prompts of one request."""
    return Answer(
        tuple(choice for answer in answers for choice in answer.choices),
        sum(answer.prompt_tokens for answer in answers),
        sum(answer.completion_tokens for answer in answers),
    )
