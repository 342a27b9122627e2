"""What `holdfast diagnose safety-gap` reads: a model, a task, the errors written into its answers, and how to train."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from holdfast.config import LoraSettings, ModelSettings, Precision, Settings, TokenInit


class TraceSettings(Settings):
    """The errors: see `holdfast traces make`."""

    builder: Literal["perturb", "random", "align", "refusal"] = "perturb"
    errors: tuple[int, int] = (1, 2)  # per answer
    length: tuple[int, int] = (1, 2)  # words
    clean: float = Field(default=0.2, ge=0, lt=1)
    starts: str | None = None  # refusal: the dataset whose answers are the wrong starts
    copies: int = Field(default=1, gt=0)  # traces of every answer, each with errors of its own


class SafetyGapConfig(Settings):
    """sft against masked_sft on the same traces, seed by seed."""

    run: str
    title: str
    model: ModelSettings
    train: str  # right answers to train on: any name that `holdfast traces make` takes
    test: str  # right answers to measure on
    num_train: int | None = Field(default=None, gt=0)
    num_test: int = Field(default=200, gt=0)
    skip_test: int = Field(default=0, ge=0)  # first rows left out: those that settings were chosen on
    traces: TraceSettings = TraceSettings()
    objectives: tuple[Literal["sft", "masked_sft"], ...] = Field(default=("sft", "masked_sft"), min_length=1)
    contexts: tuple[Literal["soft", "hard"], ...] = Field(default=("soft", "hard"), min_length=1)
    inits: tuple[TokenInit, ...] = Field(default=("mean",), min_length=1)
    plain: bool = False  # also plain sft on the answers without errors: what undo must beat
    seeds: tuple[int, ...] = Field(default=(0, 1, 2), min_length=1)
    steps: int = Field(default=300, gt=0)
    batch_size: int = Field(default=32, gt=0)
    micro_batch: int | None = Field(default=None, gt=0)
    lr: float = Field(default=1e-3, gt=0)
    precision: Precision = "fp32"
    lora: LoraSettings | None = None
    num_measurements: int = Field(default=10, gt=1)  # along training
    max_new_tokens: int = Field(default=64, gt=0)
    eval_batch: int = Field(default=64, gt=0)
    workers: int = Field(default=1, gt=0)  # trainings at a time, each a process of its own
    keep_models: bool = False  # of every training; else only its figures stay
