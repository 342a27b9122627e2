"""Settings of sampling: which model is asked what, and how; and an estimate of the GPU time."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field, model_validator

from holdfast_studies.qwen.config import SourcesConfig

Domain = Literal["humaneval", "mbpp", "requests"]
DOMAINS: tuple[Domain, ...] = get_args(Domain)
CODE: tuple[Domain, ...] = ("humaneval", "mbpp")
NUM_TASKS: dict[str, int] = {"humaneval": 164, "mbpp": 500}  # of the whole files
READ_TFLOPS = 250.0  # that a GPU reaches while the model reads its own answers
QUESTION_TOKENS = 40


class ChoosingConfig(SourcesConfig):
    """One run: pools of ``num_samples`` answers to every task and request of one model."""

    run: str
    title: str
    model: str  # a .gguf file, a folder or a hub id
    domains: tuple[Domain, ...] = DOMAINS
    num_samples: int = Field(default=64, ge=2)  # in the pool of one problem
    ns: tuple[int, ...] = Field(default=(1, 2, 4, 8, 16, 32), min_length=1)  # those above num_samples are left out
    temperature: float = Field(default=0.8, gt=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_new_tokens: dict[Domain, int] = Field(default={"humaneval": 384, "mbpp": 256, "requests": 64})
    num_tasks: dict[str, int] = Field(default_factory=dict)  # of a domain of code: the first so many, else all
    num_requests: int = Field(default=400, ge=2)
    requests: tuple[str, ...] = ("strongreject", "jailbreakbench", "advbench")  # names of sources
    judges: tuple[str, ...] = Field(default=("outcome", "refusal_phrases"), min_length=2)  # the first is gold
    seed: int = 0
    dtype: str = "bfloat16"
    device: str = "auto"
    batch_size: int = Field(default=512, gt=0)
    batches_a_chunk: int = Field(default=8, gt=0)  # a kill can lose one chunk; every chunk captures a CUDA graph
    alpha: float = Field(default=0.05, gt=0, lt=1)  # of the certified bound
    target: float = Field(default=0.1, gt=0, lt=1)  # the risk that a threshold is chosen for
    num_resamplings: int = Field(default=200, gt=0)
    num_bootstrap: int = Field(default=1000, gt=0)
    parameters: float = Field(default=1.54e9, gt=0)  # for the estimate alone, as is
    step_ms: float = Field(default=25.0, gt=0)  # a step of generation for a whole batch

    @model_validator(mode="after")
    def _known(self) -> ChoosingConfig:
        wanted = {*(name for name in self.domains if name in CODE), *(self.requests if self._asks else ())}
        if missing := sorted(wanted - set(self.sources)):
            raise ValueError(f"sources: {', '.join(missing)} missing")
        if short := [name for name in self.domains if self.max_new_tokens.get(name, 0) < 1]:
            raise ValueError(f"max_new_tokens: {', '.join(short)}: expected a number above 0")
        if strange := sorted(set(self.num_tasks) - set(CODE)):
            raise ValueError(f"num_tasks: {', '.join(strange)} is none of {', '.join(CODE)}")
        return self

    @property
    def _asks(self) -> bool:
        return "requests" in self.domains

    @property
    def curve_ns(self) -> list[int]:
        """The n for which the pools are large enough."""
        return sorted({n for n in self.ns if n <= self.num_samples})


def plan(config: ChoosingConfig) -> list[str]:
    """A line for every domain: samples, steps of generation, and estimated seconds to sample and to read."""
    lines = [f"{'domain':12} {'prompts':>7} {'samples':>8} {'steps':>6} {'sampling':>9} {'reading':>8}"]
    total = 0.0
    for name in config.domains:
        prompts = config.num_requests if name == "requests" else config.num_tasks.get(name, NUM_TASKS[name])
        length = config.max_new_tokens[name]
        samples = prompts * config.num_samples
        steps = -(-samples // config.batch_size) * length
        sampling = steps * config.step_ms / 1000
        questions = 1 if name == "requests" else 2
        work = 2 * config.parameters * samples * (length + questions * QUESTION_TOKENS)
        reading = work / (READ_TFLOPS * 1e12)
        total += sampling + reading
        lines.append(f"{name:12} {prompts:7,} {samples:8,} {steps:6,} {sampling:7.0f} s {reading:6.0f} s")
    lines.append(
        f"about {total:.0f} s of a GPU, loading not counted ({config.step_ms:g} ms a step of {config.batch_size} rows,"
        f" {READ_TFLOPS:g} TFLOP/s while reading; no answer is taken to end early)"
    )
    return lines
