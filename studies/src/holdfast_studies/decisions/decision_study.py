"""Base, SFT without and with reflection, DFT, GRPO over operand sizes: a small version of Table 1 and Fig. 1 of [004].

One folder per seed and model. What is finished is not made again. Every measured response is kept, so that
`holdfast diagnose calibration` can be run on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, TrainerCallback

from holdfast.config import RlConfig, TrainConfig
from holdfast.data import write_traces
from holdfast.records import Trace, context
from holdfast.tokens import prompt_ids
from holdfast.training import load_policy, sample, train, train_rl
from holdfast_studies.decisions.config import DecisionStudyConfig, PhaseSettings
from holdfast_studies.decisions.rl_task import ArithmeticPrompts, arithmetic_task
from holdfast_studies.json_files import write_json, write_lines
from holdfast_studies.pool import in_processes
from holdfast_studies.study_folder import claim_study
from holdfast_studies.worlds.arithmetic import ArithmeticWorld, Size
from holdfast_studies.worlds.arithmetic_tokenizer import arithmetic_tokenizer
from holdfast_studies.worlds.arithmetic_writing import Mix, corpus, plain_sft, problems, reflection_sft
from holdfast_studies.worlds.slips import Slips

BASE = "base"
ROLLOUTS = "responses.jsonl"
EVAL_BATCH = 512
Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """One model of one seed."""

    config: DecisionStudyConfig
    seed: int
    name: str

    @property
    def folder(self) -> Path:
        """The job's folder."""
        return Path(self.config.run) / f"seed-{self.seed}" / self.name

    @property
    def done(self) -> bool:
        """Whether the job has ended: its responses are written last."""
        return (self.folder / ROLLOUTS).exists()


def run_study(config: DecisionStudyConfig, *, on_job: Callable[[Job, int, int], None] | None = None) -> list[Job]:
    """Run everything that is missing: bases first, then what starts from them. GRPO comes before the rest: it takes longest."""
    claim_study(config, config.run, free=("better", "worse"))
    bases = [Job(config, seed, BASE) for seed in config.seeds]
    names = sorted(config.variants, key=lambda name: config.variants[name].grpo is None)
    variants = [Job(config, seed, name) for name in names for seed in config.seeds]
    jobs, done = [*bases, *variants], 0
    for stage in (bases, variants):
        for job in _work_through(stage, config.workers):
            done += 1
            if on_job:
                on_job(job, done, len(jobs))
    return jobs


def _work_through(jobs: Sequence[Job], workers: int) -> Iterator[Job]:
    missing = [job for job in jobs if not job.done]
    yield from (job for job in jobs if job.done)
    yield from in_processes(run_job, missing, workers)


def run_job(job: Job) -> Job:
    """Train (or load) one model and write its responses."""
    job.folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    model = _train(job)
    trained = time.perf_counter() - began
    rows = list(responses(job, model))
    clock = {"train_seconds": round(trained, 1), "sample_seconds": round(time.perf_counter() - began - trained, 1)}
    write_json(job.folder / "clock.json", clock)
    write_lines(job.folder / ROLLOUTS, rows)
    return job


def world_of(config: DecisionStudyConfig) -> ArithmeticWorld:
    """The config's world."""
    settings = config.world
    return ArithmeticWorld(
        settings.base, Size.read(settings.largest), settings.max_attempts, settings.fused, settings.beside
    )


def _train(job: Job) -> Path:
    config, world = job.config, world_of(job.config)
    if job.name == BASE:
        mix = Mix(config.base.slip, config.base.honest, config.base.show)
        rows = corpus(world, _sizes(config.base.sizes), config.base.rows, seed=job.seed, mix=mix)
        start = untrained(job, world)
        return supervised(job.folder, start, rows, config.base, "sft", seed=job.seed, device=config.device)
    variant = config.variants[job.name]
    start = Job(config, job.seed, BASE).folder / "run" / "model"
    sizes = _sizes(variant.sizes)
    if variant.phase is None:
        return _reinforced(job, world, start)
    if variant.reflection:
        rows = reflection_sft(world, sizes, variant.phase.rows, seed=job.seed, corrective=variant.corrective)
    else:
        rows = plain_sft(world, sizes, variant.phase.rows, seed=job.seed)
    phase, objective = variant.phase, variant.objective
    return supervised(job.folder, start, rows, phase, objective, seed=job.seed, device=config.device)


def supervised(
    folder: Path,
    start: str | Path,
    rows: Sequence[Trace],
    phase: PhaseSettings,
    objective: str,
    *,
    seed: int,
    device: str,
    callbacks: Sequence[TrainerCallback] = (),
) -> Path:
    """Train the model ``start`` on these rows, in a run inside ``folder``; returns the folder of the trained model."""
    data = folder / "rows.jsonl"
    write_traces(data, rows)
    settings = {
        "run": str(folder / "run"),
        "model": {"name": str(start), "device": device},
        "streams": [{"data": str(data), "objective": objective}],
        "training": {
            "max_steps": phase.steps,
            "batch_size": phase.batch_size,
            "micro_batch": phase.micro_batch or phase.batch_size,
            "lr": phase.lr,
            "scheduler": "cosine",
            "warmup_steps": phase.warmup_steps,
            "adam_beta2": 0.95,
            "precision": phase.precision,
            "log_every": max(1, phase.steps // 20),
            "seed": seed,
        },
    }
    config = TrainConfig.model_validate(settings)
    result = train(config, say=_quiet, progress=False, throwaway=True, callbacks=callbacks)
    if result.interrupted:  # saved; there is no model to ask yet
        raise KeyboardInterrupt
    return result.model


def _reinforced(job: Job, world: ArithmeticWorld, start: Path) -> Path:
    config, variant = job.config, job.config.variants[job.name]
    assert variant.grpo is not None
    settings = config.world
    made = ArithmeticPrompts(
        base=settings.base,
        largest=settings.largest,
        fused=settings.fused,
        beside=settings.beside,
        max_attempts=settings.max_attempts,
        sizes=variant.sizes,
        num=variant.prompts,
        slip=settings.slip,
    )
    rl = RlConfig(
        run=str(job.folder / "run"),
        model={"name": str(start), "device": config.device},  # type: ignore[arg-type]
        rl=variant.grpo.model_copy(update={"seed": job.seed}),
        task="arithmetic",
        task_options=made.model_dump(mode="json"),
        extract="product",
    )
    task = arithmetic_task(world, made, seed=job.seed)
    return train_rl(rl, task.prompts, task.reward, observe=task.observe, environment=task.environment, say=_quiet)


def responses(job: Job, model: Path) -> Iterator[dict[str, Any]]:
    """Sample answers to the test problems of every size; all models of a seed have the same problems."""
    config, world = job.config, world_of(job.config)
    tokenizer = arithmetic_tokenizer(world)
    device = torch.device("cuda" if config.device in ("auto", "cuda") and torch.cuda.is_available() else "cpu")
    policy = load_policy(model, device)
    slips = Slips(world, tokenizer, config.world.slip)
    for size in config.eval_sizes:
        shape = Size.read(size)
        test_problems = problems(world, [shape], config.num_eval, seed=f"test/{job.seed}/{size}")
        for start in range(0, len(test_problems), EVAL_BATCH):
            part = test_problems[start : start + EVAL_BATCH]
            written = sample(
                policy,
                [prompt_ids([context("user", world.prompt(problem))], tokenizer) for problem in part],
                max_new_tokens=world.longest_response(shape),
                end_id=tokenizer.eos_token_id,
                pad_id=tokenizer.pad_token_id,
                seed=job.seed * 7919 + start,
                environment=slips,
            )
            for problem, rollout in zip(part, written, strict=True):
                text = tokenizer.decode(rollout.ids, skip_special_tokens=True)
                yield {
                    "prompt": world.prompt(problem),
                    "response": text,
                    "answer": str(world.value(problem)),
                    "size": size,
                    "stopped": rollout.ended,
                }


def untrained(job: Job, world: ArithmeticWorld) -> Path:
    """Make a model with random weights, of the config's size, and return its folder."""
    sizes, tokenizer = job.config.model, arithmetic_tokenizer(world)
    torch.manual_seed(job.seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=sizes.hidden,
            intermediate_size=sizes.feed_forward,
            num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.heads,
            num_key_value_heads=sizes.heads,
            head_dim=sizes.hidden // sizes.heads,
            max_position_embeddings=2048,
            rope_parameters={"rope_type": "default", "rope_theta": sizes.rope_theta},
            initializer_range=0.08 if sizes.hidden <= 128 else 0.03,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    folder = job.folder / "untrained"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _sizes(names: Sequence[str]) -> list[Size]:
    return [Size.read(name) for name in names]


def _quiet(_: str) -> None:
    """Print nothing: the study has its own progress bar."""
