"""What `holdfast diagnose safety-gap` reads: a model, a task, the errors written into its answers, and how to train."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from holdfast.config import LoraSettings, ModelSettings, Precision, Settings, TokenInit

Control = Literal["untouched", "plain", "own", "random_undo", "perturbed"]


class OwnSettings(Settings):
    """Builder ``own``: the model's own wrong attempts, each up to its first wrong step."""

    num_attempts: int = Field(default=8, gt=1)  # answers drawn per request
    num_wrong: int = Field(default=2, gt=0)  # wrong attempts per request whose first wrong step is looked for
    num_rollouts: int = Field(default=8, gt=0)  # continuations of a beginning; it is lost if all of them fail
    temperature: float = Field(default=1.0, gt=0)
    batch_size: int = Field(default=512, gt=0)  # answers drawn at a time


class TraceSettings(Settings):
    """The errors: see `holdfast traces make`; ``own`` is described in docs/undo.md."""

    builder: Literal["perturb", "random", "align", "refusal", "own"] = "perturb"
    errors: tuple[int, int] = (1, 2)  # per answer
    length: tuple[int, int] = (1, 2)  # words
    clean: float = Field(default=0.2, ge=0, lt=1)
    starts: str | None = None  # refusal: the dataset whose answers are the wrong starts
    copies: int = Field(default=1, gt=0)  # traces of every answer (own: of every request), each with errors of its own
    own: OwnSettings = OwnSettings()


class FileHashes(Settings):
    """sha256 of the files that a study was planned with; other files are refused. None is not checked."""

    model: str | None = None
    train: str | None = None
    test: str | None = None


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
    controls: tuple[Control, ...] = ()  # what undo must beat: see safety_gap.CONTROLS
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
    eval_dtype: Literal["float32", "bfloat16"] | None = None  # of models that write answers; by default model.dtype
    num_sampled: int = Field(default=4, gt=0)  # own: answers to every test request at temperature 1
    max_undos: int = Field(default=64, gt=0)  # in an answer
    workers: int = Field(default=1, gt=0)  # trainings at a time, each a process of its own
    keep_models: bool = False  # keep the model of every training, not only its figures
    sha256: FileHashes = FileHashes()

    @model_validator(mode="after")
    def _controls_fit(self) -> SafetyGapConfig:
        needs_own = [name for name in self.controls if name != "plain"]
        if self.traces.builder != "own" and needs_own:
            raise ValueError(f"controls: {', '.join(needs_own)} need traces.builder: own")
        return self
