"""The model's own mistakes: its sample laid beside the reference; where they part, the sample is the error."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher

from holdfast.generation import generate
from holdfast.models import LoadedModel
from holdfast.traces.errors import Budget, Error, RightAnswer

MARGIN = 1.5  # how much longer than the longest reference a sample may get


class Align:
    """``samples``: what the model wrote for each reference."""

    def __init__(self, samples: Mapping[RightAnswer, str]) -> None:
        self.samples = samples

    @classmethod
    def sampled(
        cls,
        model: LoadedModel,
        references: Sequence[RightAnswer],
        *,
        temperature: float = 1.0,
        seed: int = 0,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Align:
        """Let the model answer every request once."""
        longest = max(len(model.tokenizer(reference.text)["input_ids"]) for reference in references)
        written = generate(
            model.model,
            model.tokenizer,
            [reference.trace for reference in references],
            max_new_tokens=round(MARGIN * longest),
            temperature=temperature,
            seed=seed,
            on_progress=on_progress,
        )
        return cls({reference: sample.text for reference, sample in zip(references, written, strict=True)})

    def places(self, reference: RightAnswer) -> range:
        """A sample may leave the reference anywhere."""
        return range(len(reference.words) + 1)

    def __call__(self, reference: RightAnswer, budget: Budget, rng: random.Random) -> list[Error]:
        """The errors that the sample made, at as many places as the budget allows."""
        wrong = {error.at: error for error in departures(reference.words, self.samples[reference].split(), budget, rng)}
        return [wrong[at] for at in budget.places(list(wrong), rng)]


def departures(right: list[str], written: list[str], budget: Budget, rng: random.Random) -> list[Error]:
    """Unmatched spans of the sample, cut to the length of an error, at the place of the reference where they stand.

    Where the sample only leaves words out, the error is the word that comes too early; a sample that merely ends too
    soon has written nothing that could be taken back.
    """
    errors = []
    for kind, at, _, start, end in SequenceMatcher(None, right, written, autojunk=False).get_opcodes():
        wrong = written[start : start + 1] if kind == "delete" else written[start:end]
        wrong = wrong[: budget.num_words(rng)]
        if kind != "equal" and wrong and wrong[:1] != right[at : at + 1]:
            errors.append(Error(at, tuple(wrong)))
    return errors
