"""One shape for everything that answers: who asks need not know whether a model or a server does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.generation.prompts import Prompt
from holdfast.generation.sample import generate
from holdfast.models import LoadedModel
from holdfast.records import Completion

Progress = Callable[[int, int], None]
"""(how many are done, how many there are)"""


class Sampler(Protocol):
    """Prompts in, as many completions out, in order. An answer that never came has ``finish_reason`` 'error'."""

    @property
    def name(self) -> str:
        """The model, as it stands in tables."""
        ...

    def __call__(
        self,
        prompts: Sequence[Prompt],
        *,
        max_new_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        on_progress: Progress | None = None,
    ) -> list[Completion]:
        """Temperature 0 is greedy."""
        ...


@dataclass(frozen=True)
class ModelSampler:
    """A model in this process."""

    loaded: LoadedModel
    batch_size: int = 64

    @property
    def name(self) -> str:
        """The name under which the model was loaded."""
        return self.loaded.name

    def __call__(
        self,
        prompts: Sequence[Prompt],
        *,
        max_new_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        on_progress: Progress | None = None,
    ) -> list[Completion]:
        """Batches of similar length, longest first."""
        return generate(
            self.loaded.model,
            self.loaded.tokenizer,
            prompts,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            top_p=top_p,
            seed=seed,
            batch_size=self.batch_size,
            on_progress=on_progress,
        )
