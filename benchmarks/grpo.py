"""A GRPO step on a CPU: ours against TRL's GRPOTrainer with its own sampler; and whether memory grows from step to step.

    python -m benchmarks.grpo [MODEL] [--json benchmarks/results/grpo.json]

``tiny:aligned``, then MODEL (a folder or a .gguf file) where one is given. Both trainers take turns on one thread with the same
model, prompts, reward and settings, those of ``GrpoSettings``: a group of 8, temperature 1, KL to a second model. What they
write is drawn, so their CPU time is divided by the tokens that they wrote. Memory is the process's, in 200 small steps of
``tiny:aligned``.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.answers_gpu import by_length, prompts
from benchmarks.audit import TINY
from benchmarks.growth import resident
from benchmarks.ledger import committed, cpu_machine, finish, model_name, options, provenance, write
from benchmarks.train_step import WARM_UP, StepClock
from holdfast.config.rl import RlConfig
from holdfast.models.load import model_source
from holdfast.records import Reply
from holdfast.training.rl import RlPrompt, train_rl

GROUP, NUM_NEW, ROUNDS = 8, 32, 2
SENTENCES = 4  # of a prompt; one prompt a step
STEPS, TINY_STEPS = WARM_UP + 2, WARM_UP + 10
GROWTH_STEPS, EARLY, WINDOW = 200, 50, 10
GROWTH_GOAL = 1.04
"""Over 400 steps the resident memory lay within 2.5 %, without a trend: that is the allocator. A callback that kept a copy
of the weights (0.8 MB) in every step made it 1.20."""


class TokenClock(StepClock):
    """The CPU seconds of every step, and how many tokens it wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: list[float] = []

    def on_log(self, *_: Any, logs: dict[str, float] | None = None, **__: Any) -> None:
        """Every step is logged."""
        if logs and "completions/mean_length" in logs:
            self.tokens.append(GROUP * logs["completions/mean_length"])


class Memory(TrainerCallback):
    """Resident memory at the end of every step, in MB."""

    def __init__(self) -> None:
        self.megabytes: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Read it."""
        self.megabytes.append(resident("VmRSS"))


def problems(num: int) -> list[RlPrompt]:
    """Requests of as many sentences each, so that the steps are alike."""
    return [RlPrompt(text, "1") for text in prompts(7 * num)[SENTENCES - 1 :: 7]]


def ours(model: str, folder: Path, num_steps: int, callback: TrainerCallback, **settings: Any) -> None:
    """Train as `holdfast train` does."""
    common = {"steps": num_steps, "prompts_per_step": 1, "group": GROUP, "max_new_tokens": NUM_NEW, **settings}
    config = RlConfig.model_validate(
        {"run": str(folder), "model": {"name": model, "device": "cpu", "dtype": "float32"}, "rl": common}
    )
    train_rl(config, problems(num_steps), by_length, callbacks=[callback], say=lambda _: None)


def trl(model: str, folder: Path, num_steps: int, callback: TrainerCallback) -> None:
    """The same by TRL's own trainer and sampler."""

    def reward(completions: list[Any], **_: Any) -> list[float | None]:
        return by_length([Reply((), text[0]["content"]) for text in completions])

    arguments = GRPOConfig(
        output_dir=str(folder),
        max_steps=num_steps,
        per_device_train_batch_size=GROUP,
        num_generations=GROUP,
        max_completion_length=NUM_NEW,
        learning_rate=1e-6,
        lr_scheduler_type="constant",
        beta=0.001,
        model_init_kwargs={"dtype": "float32"},
        gradient_checkpointing=False,
        bf16=False,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=0,
    )
    rows = [{"prompt": [{"role": "user", "content": problem.prompt}]} for problem in problems(num_steps)]
    trainer = GRPOTrainer(
        model_source(model), reward, arguments, train_dataset=Dataset.from_list(rows), callbacks=[callback]
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()


def measure(model: str, rounds: int) -> list[dict[str, Any]]:
    """A row for each trainer, over all steps after the warm-up of every round."""
    ways = {"ours": ours, "TRL": trl}
    num_steps = TINY_STEPS if model == TINY else STEPS
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    tokens: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(rounds):
            for name, train in ways.items():
                clock = TokenClock()
                train(model, Path(scratch) / f"{name}-{number}", num_steps, clock)
                seconds[name] += clock.seconds
                tokens[name] += clock.tokens[WARM_UP:]
    return [
        {
            "model": model_name(model),
            "trainer": name,
            "CPU seconds of a step": round(statistics.mean(seconds[name]), 4),
            "tokens of a step": round(statistics.mean(tokens[name]), 1),
            "tokens per CPU second": round(sum(tokens[name]) / sum(seconds[name]), 2),
        }
        for name in ways
    ]


def growth() -> dict[str, float]:
    """Resident MB of our trainer after 50 steps and after 200, each the median of the ten steps before."""
    memory = Memory()
    with tempfile.TemporaryDirectory() as scratch:
        ours(TINY, Path(scratch) / "run", GROWTH_STEPS, memory)
    return {
        f"MB after {step} steps": round(statistics.median(memory.megabytes[step - WINDOW : step]), 1)
        for step in (EARLY, GROWTH_STEPS)
    }


def ratios(steps: list[dict[str, Any]], megabytes: dict[str, float]) -> list[dict[str, Any]]:
    """Lower is better."""
    rate = "tokens per CPU second"
    rows: list[dict[str, Any]] = [
        {"ratio": f"{own['model']}: a GRPO step, CPU time of a token / TRL's GRPOTrainer",
         "measured": round(theirs[rate] / own[rate], 3), "goal": 1.05}
        for own, theirs in zip(steps[::2], steps[1::2], strict=True)
    ]  # fmt: skip
    early, late = megabytes.values()
    name = f"{TINY}: GRPO, memory after {GROWTH_STEPS} steps / after {EARLY}"
    return [*rows, {"ratio": name, "measured": round(late / early, 3), "goal": GROWTH_GOAL, "gate": True}]


def main() -> None:
    given = options(__doc__, ROUNDS, "SmolLM2-135M")
    torch.set_num_threads(1)
    megabytes = growth()
    steps = [row for model in (TINY, given.model) if model for row in measure(model, given.rounds)]
    print("\n".join(map(json.dumps, [*steps, megabytes])), flush=True)
    rows = ratios(steps, megabytes)
    finish(rows, committed("grpo"))
    if given.json:
        written = {**provenance(given.model), "machine": cpu_machine(), "ratios": rows}
        write(Path(given.json), {**written, "steps": steps, "memory": megabytes})


if __name__ == "__main__":
    main()
