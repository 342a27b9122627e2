"""What ``python -m holdfast_studies.real.align`` reads: a stock model, what it shall refuse, and how hard to try."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from holdfast.config import LoraSettings, Settings


class AlignVariant(Settings):
    """One variant to try; the best on validation prompts is kept."""

    lr: float = Field(gt=0)
    epochs: float = Field(gt=0)  # passes over the requests
    keep_rows: int = Field(default=32, gt=0)  # look-alikes in one step
    keep_weight: float = Field(default=1.0, gt=0)  # of every harmless stream, against the refusals' 1
    freeze: tuple[str, ...] = ()  # names of parameters that stay the stock model's


class AlignConfig(Settings):
    """Requests are learned to be refused; look-alikes and other harmless prompts keep the stock model's answers."""

    run: str
    model: str  # the stock model
    requests: tuple[str, ...] = ()  # files of requests to refuse, beside the package's own
    harmless: tuple[str, ...] = ()  # files of harmless prompts, beside the package's look-alikes
    num_harmless: int = Field(default=600, ge=0)  # of those files, at most
    variants: tuple[AlignVariant, ...] = Field(min_length=1)
    refuse_rows: int = Field(default=32, gt=0)  # requests in one step
    other_rows: int = Field(default=16, gt=0)  # other harmless rows in one step
    rows_per_pass: int | None = Field(default=None, gt=0)  # of a step: memory against time
    answer_tokens: int = Field(default=48, gt=0)  # of the other answers
    opening_tokens: int = Field(default=12, gt=0)  # of the answers to look-alikes: whether to help is decided there
    judge: str = "refusal_phrases"
    lora: LoraSettings | None = LoraSettings()
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    device: str = "auto"
    seed: int = 0
    workers: int = Field(default=1, gt=0)  # variants at a time
