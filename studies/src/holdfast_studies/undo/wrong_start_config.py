"""What `holdfast diagnose wrong-start` reads: refusals that begin wrongly, what else is trained, and what is asked."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from holdfast.config import ModelSettings, Settings


class WrongStartConfig(Settings):
    """sft against masked_sft on refusals that begin wrongly. Requests are the safety world's: it knows what is told."""

    run: str
    title: str
    model: ModelSettings
    refuse: str  # requests that are refused; their refusals get the wrong starts
    starts: str  # the first words of its answers are the wrong starts
    keep: tuple[str, ...] = ()  # trained as they are: harmless requests, answered
    num_refuse: int = Field(default=300, gt=0)
    num_keep: int = Field(default=300, gt=0)  # rows of each source in keep
    length: tuple[int, int] = (1, 12)  # words of a wrong start
    clean: float = Field(default=0.3, ge=0, lt=1)  # refusals without one
    test_refuse: str
    test_keep: str
    num_test: int = Field(default=200, gt=0)  # rows of each source that is asked
    skip_test: int = Field(default=0, ge=0)  # first rows left out: those that settings were chosen on
    depths: tuple[int, ...] = Field(default=(1, 4, 8, 12), min_length=1)  # words that are put into the model's mouth
    contexts: tuple[Literal["soft", "hard"], ...] = Field(default=("soft", "hard"), min_length=1)
    seeds: tuple[int, ...] = Field(default=(0, 1, 2), min_length=1)
    steps: int = Field(default=300, gt=0)
    batch_size: int = Field(default=32, gt=0)
    lr: float = Field(default=1e-3, gt=0)
    max_new_tokens: int = Field(default=64, gt=0)
    eval_batch: int = Field(default=128, gt=0)
    workers: int = Field(default=1, gt=0)  # trainings at a time, each a process of its own
