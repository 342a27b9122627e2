"""What `holdfast diagnose decisions` reads: a world, a model made from nothing, and the ways to go on training it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from holdfast.config import GrpoSettings, Settings


class WorldSettings(Settings):
    """The arithmetic world, and how often its environment writes a step of an attempt down wrongly."""

    base: int = Field(default=5, ge=2)
    largest: str = "9x1"
    max_attempts: int = Field(default=4, gt=0, le=8)
    fused: bool = True
    beside: bool = False  # a check writes the attempt's value beside its own
    slip: float = Field(default=0.06, ge=0, lt=1)


class SizeSettings(Settings):
    """A plain Llama."""

    hidden: int = Field(default=64, gt=0)
    layers: int = Field(default=3, gt=0)
    heads: int = Field(default=4, gt=0)
    feed_forward: int = Field(default=192, gt=0)
    rope_theta: float = Field(default=100.0, gt=1)


class PhaseSettings(Settings):
    """Supervised training: so many rows, for so many steps."""

    rows: int = Field(default=2000, gt=0)
    steps: int = Field(default=200, gt=0)
    batch_size: int = Field(default=32, gt=0)
    micro_batch: int | None = Field(default=None, gt=0)  # default: the whole batch
    lr: float = Field(default=1e-3, gt=0)
    warmup_steps: int = Field(default=20, ge=0)
    precision: Literal["fp32", "bf16"] = "fp32"


class BaseSettings(PhaseSettings):
    """The base model's corpus: all sizes; few writers check honestly, some for show, the rest not at all."""

    sizes: tuple[str, ...] = Field(default=("2x1",), min_length=1)
    honest: float = Field(default=0.3, ge=0, le=1)
    show: float = Field(default=0.35, ge=0, le=1)
    slip: float = Field(default=0.06, ge=0, lt=1)


class VariantSettings(Settings):
    """One way to go on from the base: supervised rows with an objective, or GRPO."""

    sizes: tuple[str, ...] = Field(min_length=1)
    phase: PhaseSettings | None = None
    objective: str = "sft"
    reflection: bool = True
    corrective: float = Field(default=0.5, ge=0, le=1)  # share of rows that begin with an error
    grpo: GrpoSettings | None = None
    prompts: int = Field(default=2000, gt=0)  # of GRPO

    @model_validator(mode="after")
    def _one_way(self) -> VariantSettings:
        if (self.phase is None) == (self.grpo is None):
            raise ValueError("expected either phase: (supervised) or grpo:")
        return self


class DecisionStudyConfig(Settings):
    """A study: every variant and the base itself, over sizes and seeds."""

    run: str
    seeds: tuple[int, ...] = Field(default=(0, 1, 2), min_length=1)
    world: WorldSettings = WorldSettings()
    model: SizeSettings = SizeSettings()
    base: BaseSettings
    variants: dict[str, VariantSettings]
    eval_sizes: tuple[str, ...] = Field(min_length=1)
    num_eval: int = Field(default=200, gt=1)
    device: str = "auto"
    workers: int = Field(default=1, gt=0)
    better: str = "grpo"  # the two variants that the summary compares
    worse: str = "sft_reflection"
