"""What `holdfast train` reads: a model, an anchor, one or more streams, and how to step."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from holdfast.config.base import Settings, UserPath

Precision = Literal["fp32", "bf16", "fp16"]
TokenInit = Literal["mean", "description", "related", "mixed"]
MEMORY = "memory:"


def _is_rate(value: Any) -> Any:
    """Give one message for what is neither a number above 0 nor ``auto``; pydantic would give two."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value == "auto" or (is_number and 0 < value < math.inf):
        return value
    raise ValueError("expected a number above 0, or auto")


LearningRate = Annotated[float | Literal["auto"], BeforeValidator(_is_rate)]
"""``auto``: by the model's width, see ``holdfast.training.arguments``."""


class ModelSettings(Settings):
    """The model to train, and the tokens it must learn anew."""

    name: str
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = (
        "float32"  # of the weights; training.precision is autocast
    )
    device: str = "auto"
    attention: Literal["sdpa", "eager", "flash_attention_2"] = "sdpa"
    allow_pickle: bool = False
    new_tokens: tuple[str, ...] = ()
    new_token_init: TokenInit = "mean"

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class AnchorSettings(Settings):
    """The frozen aligned model that objectives compare with; by default the model as it was before training."""

    model: str | None = None
    via: Literal["auto", "model", "adapter_off", "cache"] = "auto"
    cache: UserPath | None = None  # folder of the anchor cache
    cache_hidden: bool = True  # keep hidden states too: exact kl without an anchor pass


class HoldSettings(Settings):
    """How far a held stream may drift from the anchor (docs/objectives/budget.md)."""

    early: float = Field(default=0.03, gt=0)  # nats an answer, over its first 5 tokens
    late: float = Field(default=0.02, gt=0)  # nats a token, after those
    wide: float = Field(default=30.0, ge=1)  # both begin this many times as wide, and narrow in the first 40 % of steps
    every: int = Field(default=1, ge=1)  # n: only every n-th step has held rows
    tokens: int | None = Field(default=None, ge=5)  # hold only the first so many of an answer; default: all


def _as_hold(value: Any) -> Any:
    """``true`` is the default budgets, ``false`` none."""
    if isinstance(value, bool):
        return HoldSettings() if value else None
    return value


class StreamSettings(Settings):
    """One dataset with its own objective, weight and share of every step."""

    data: UserPath
    rows: Any = Field(
        default=None, exclude=True, repr=False
    )  # a Dataset in memory, from Python only; ``data`` names it
    objective: str = "sft"
    options: dict[str, Any] = Field(default_factory=dict)
    weight: float = Field(default=1.0, gt=0)
    hold: Annotated[HoldSettings | None, BeforeValidator(_as_hold)] = None  # instead of a weight
    share: float = Field(default=1.0, gt=0)
    limit: int | None = Field(default=None, gt=0)
    skip_bad: int = Field(default=0, ge=0)
    train_on_prompt: bool = False  # prompts are targets too, as in pretraining
    vet: str | None = None  # a judge: where the anchor refuses by its word, the model is held to it
    name: str | None = None

    @model_validator(mode="after")
    def _held_by_one_thing(self) -> StreamSettings:
        if self.hold is None:
            return self
        if "weight" in self.model_fields_set:
            raise ValueError(
                "weight and hold: a weight says how hard a stream is held, hold how far; give one of the two"
            )
        if self.objective != "distill" or self.options:
            raise ValueError("hold: is for streams with objective: distill, without options")
        if not self.data.startswith("prompts:"):
            raise ValueError(f"hold: is for prompts that the anchor answers, data: prompts:...; got {self.data}")
        if self.train_on_prompt:
            raise ValueError(
                "hold: and train_on_prompt: budgets are of answers, and the prompt would count as their beginning"
            )
        return self

    @model_serializer(mode="wrap")
    def _without_an_unused_weight(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """So that what is written out loads back."""
        fields: dict[str, Any] = handler(self)
        if self.hold is not None:
            del fields["weight"]
        return fields

    @model_validator(mode="after")
    def _rows_in_memory(self) -> StreamSettings:
        if self.rows is not None and not hasattr(self.rows, "traces"):
            raise ValueError("rows: are given in Python (hf.Stream); here data: names a file or a dataset")
        if self.rows is None and self.data.startswith(MEMORY):
            raise ValueError(f"these rows were given in Python: run the same script again ({self.data})")
        return self


class LoraSettings(Settings):
    """Low-rank adapters (peft); ``quantize: nf4`` makes it QLoRA."""

    r: int = Field(default=16, gt=0)
    alpha: float = Field(default=32, gt=0)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: str | tuple[str, ...] = "all-linear"
    quantize: Literal["nf4"] | None = None
    merge: bool = False


class TrainingSettings(Settings):
    """How to step. ``batch_size`` counts rows of one optimizer step over all streams, processes and micro-batches."""

    epochs: float = Field(default=1.0, gt=0)
    max_steps: int | None = Field(default=None, gt=0)
    batch_size: int = Field(default=32, gt=0)
    micro_batch: int | None = Field(default=None, gt=0)  # rows per forward of one process; default: as many as fit
    tokens_per_pass: int | None = Field(default=None, gt=0)  # padding included; default: of micro_batch longest rows
    lr: LearningRate = 2e-5
    scheduler: str = "linear"
    warmup_steps: int = Field(default=0, ge=0)
    optimizer: str = "adamw_torch"
    adam_beta1: float = Field(default=0.9, ge=0, lt=1)
    adam_beta2: float = Field(default=0.999, ge=0, lt=1)
    weight_decay: float = Field(default=0.0, ge=0)
    max_grad_norm: float = Field(default=1.0, ge=0)
    max_length: int = Field(default=2048, gt=1)
    packing: bool = False
    freeze: tuple[str, ...] = ()  # names of parameters that are not trained, * and [0-9] allowed
    context: Literal["soft", "hard"] = "soft"
    precision: Precision = "fp32"
    gradient_checkpointing: bool = False
    seed: int = Field(default=0, ge=0, lt=2**32)
    log_every: int = Field(default=1, gt=0)
    save_every: int | None = Field(default=None, gt=0)  # steps; default: only at the end
    keep: int = Field(default=2, gt=0)  # checkpoints
    chunk_tokens: int | None = Field(default=None, gt=0)
    head: Literal["auto", "fused", "logits"] = "auto"


class TrainConfig(Settings):
    """A whole training run."""

    run: UserPath
    model: ModelSettings
    anchor: AnchorSettings = AnchorSettings()
    streams: tuple[StreamSettings, ...]
    training: TrainingSettings = TrainingSettings()
    lora: LoraSettings | None = None
    report_to: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _shares_fit(self) -> TrainConfig:
        if not self.streams:
            raise ValueError("expected at least one stream")
        rows_per_step(self.training.batch_size, [stream.share for stream in self.streams])
        return self

    @model_validator(mode="after")
    def _first_stream_is_in_every_step(self) -> TrainConfig:
        hold = self.streams[0].hold
        if hold is not None and hold.every > 1:
            raise ValueError("streams.0.hold.every: the first stream sets the steps of an epoch; put another one first")
        return self

    @model_validator(mode="after")
    def _something_learns(self) -> TrainConfig:
        if self.training.freeze and self.lora:
            raise ValueError("lora freezes everything but its adapters: leave training.freeze out, or lora")
        if self.training.freeze and self.model.new_tokens:
            raise ValueError("training.freeze: a new token that is frozen stays as it began: leave one of the two out")
        return self


def rows_per_step(batch_size: int, shares: list[float]) -> list[int]:
    """Split a step's rows by share (largest remainder); every stream gets at least one."""
    total = sum(shares)
    exact = [batch_size * share / total for share in shares]
    rows = [int(x) for x in exact]
    by_remainder = sorted(range(len(rows)), key=lambda i: rows[i] - exact[i])
    for i in by_remainder[: batch_size - sum(rows)]:
        rows[i] += 1
    if min(rows) == 0:
        raise ValueError(
            f"batch_size {batch_size} leaves a stream without rows: raise batch_size or that stream's share"
        )
    return rows
