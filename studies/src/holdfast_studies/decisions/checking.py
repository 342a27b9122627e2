"""Checking oneself on a pretrained model: train every arm, choose its setting on validation, ask the test problems.

One folder per seed and arm. A finished job is not run again. Models are deleted when their job is done; every response to
a test problem is kept, and so are the figures along training.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from holdfast.config import RlConfig
from holdfast.diagnostics import matching
from holdfast.models import load, named_with_origin
from holdfast.records import Trace, Turn, context
from holdfast.training import RlPrompt, train_rl
from holdfast_studies.decisions.checking_config import BASE, OWN, CheckingConfig
from holdfast_studies.decisions.checking_measure import FORM, Readers, Row, answer_test, ask, judged, point, start_of
from holdfast_studies.decisions.config import PhaseSettings
from holdfast_studies.decisions.decision_study import ROLLOUTS, supervised
from holdfast_studies.decisions.products import split_words, stated
from holdfast_studies.json_files import read_json, read_lines, write_json, write_lines
from holdfast_studies.pool import in_processes
from holdfast_studies.study_folder import claim_study
from holdfast_studies.worlds.arithmetic import Size
from holdfast_studies.worlds.arithmetic_text import checked_problems, checked_rows

Say = Callable[[str], None]
CURVE, CHOICE, OWN_ROWS, SKIPPED = "curve.json", "choice.json", "own.jsonl", "skipped.json"
FREE = ("eval_batch", "cost", "title")


@dataclass(frozen=True)
class CheckingJob:
    """One arm of one seed. ``lr``: one of the rates that are tried."""

    config: CheckingConfig
    name: str
    seed: int
    lr: float | None = None

    @property
    def folder(self) -> Path:
        """The job's folder."""
        arm = Path(self.config.run) / f"seed-{self.seed}" / self.name
        return arm if self.lr is None else arm / f"lr-{self.lr:g}"

    @property
    def done(self) -> bool:
        """Whether the job has ended: its responses are written last."""
        return (self.folder / ROLLOUTS).exists() or (self.folder / SKIPPED).exists()


def checking_stages(config: CheckingConfig) -> list[list[CheckingJob]]:
    """Jobs that may run at once, stage by stage: base models, the first seed (it chooses for the others), the other seeds.

    GRPO comes first in a stage: it takes longest.
    """
    first, *others = config.seeds
    names = sorted(config.arms, key=lambda name: config.arms[name].grpo is None)
    return [
        [CheckingJob(config, BASE, seed) for seed in config.seeds],
        [CheckingJob(config, name, first) for name in names],
        [CheckingJob(config, name, seed) for seed in others for name in names],
    ]


def run_checking(config: CheckingConfig, say: Say = print, seconds: float | None = None) -> bool:
    """Run what is missing, and return whether everything is there. After ``seconds`` no further job is begun."""
    model = named_with_origin(config.model).rpartition("/")[2]  # its folder may differ on another machine
    claim_study(config.model_copy(update={"model": model}), config.run, free=FREE)
    deadline = None if seconds is None else time.time() + seconds
    stages = checking_stages(config)
    jobs = [job for stage in stages for job in stage]
    if config.form is not None and not all(job.done for job in jobs):
        _teach_form(config, config.form, say)
    for stage in stages:
        missing = [job for job in stage if not job.done]
        for line in in_processes(partial(_run, deadline=deadline), missing, config.workers):
            if line is not None:
                say(f"{sum(job.done for job in jobs)} of {len(jobs)} done; {line}")
        if any(not job.done for job in stage):
            say(f"time is up: {sum(job.done for job in jobs)} of {len(jobs)} done; the same command goes on")
            return False
    return True


def _teach_form(config: CheckingConfig, phase: PhaseSettings, say: Say) -> None:
    """Train on traces of small sizes, unless that is done. This model is kept: every job starts from it."""
    folder = Path(config.run) / FORM
    if Path(start_of(config)).is_dir():
        return
    shutil.rmtree(folder, ignore_errors=True)  # a training that was cut off
    folder.mkdir(parents=True)
    sizes = [Size.read(size) for size in config.form_sizes]
    rows = checked_rows(sizes, phase.rows, seed=-1, corrective=config.corrective)
    supervised(folder, config.model, rows, phase, "sft", seed=0, device=config.device)
    say(f"taught the form: {phase.steps} steps on traces of {', '.join(config.form_sizes)}")


def _run(job: CheckingJob, deadline: float | None) -> str | None:
    """Run one job and return a line about it; None if it is too late to begin."""
    began = time.time()
    if deadline is not None and began > deadline:
        return None
    job.folder.mkdir(parents=True, exist_ok=True)
    (_measure_base if job.name == BASE else _train_and_measure)(job, Readers(job.config))
    return f"{job.name}, seed {job.seed}: {time.time() - began:.0f} s"


# --- jobs -----------------------------------------------------------------------------------------------------------


def _measure_base(job: CheckingJob, readers: Readers) -> None:
    """Measure the base model: the first point of every curve, its own right responses, and its test."""
    config = job.config
    if job.seed == config.seeds[0]:
        write_json(job.folder / CURVE, [point(config, readers, readers.holding(readers.base.model), 0)])
    if OWN in config.arms and not (job.folder / OWN_ROWS).exists():
        problems = checked_problems(config.sizes, config.own.num_problems, "train", seed=f"own/{job.seed}")
        num = config.own.num_samples
        rows = ask(readers.base, problems, config, config.max_train_tokens, num=num, seed=job.seed)
        write_lines(job.folder / OWN_ROWS, rows)
    write_lines(job.folder / ROLLOUTS, answer_test(config, job.seed, readers.base))


def _train_and_measure(job: CheckingJob, readers: Readers) -> None:
    config, arm = job.config, job.config.arms[job.name]
    first = config.seeds[0]
    if arm.phase is not None and arm.rows == "own" and len(own_traces(job)) < config.own.least:
        why = f"the base model wrote {len(own_traces(job))} right responses, fewer than {config.own.least}"
        write_json(job.folder / SKIPPED, {"why": why})
        return
    if job.seed == first:
        tried = {lr: _train(replace(job, lr=lr), readers) for lr in arm.lrs}
        accuracies = {lr: float(curve[-1]["observed"]["value"] or 0.0) for lr, curve in tried.items()}
        write_json(
            job.folder / CHOICE, {"lr": chosen(accuracies), "accuracies": {str(lr): a for lr, a in accuracies.items()}}
        )
    lr = read_json(CheckingJob(config, job.name, first).folder / CHOICE)["lr"]
    trying = replace(job, lr=lr)
    write_json(job.folder / CURVE, _train(trying, readers))
    model = load(str(trying.folder / "run" / "model"), dtype="float32", device=config.device)
    rows = answer_test(config, job.seed, model)
    for folder in job.folder.glob("lr-*/run"):
        shutil.rmtree(folder)
    write_lines(job.folder / ROLLOUTS, rows)


def chosen(accuracies: dict[float, float]) -> float:
    """The rate with the highest accuracy on validation; of equal ones the lower rate."""
    return min(accuracies, key=lambda lr: (-accuracies[lr], lr))


def _train(job: CheckingJob, readers: Readers) -> list[Row]:
    """Train with one rate, unless that is done, and return the curve."""
    config, arm = job.config, job.config.arms[job.name]
    if (job.folder / "run" / "model").is_dir():  # the last thing that a training makes
        return list(read_json(job.folder / CURVE))
    shutil.rmtree(job.folder, ignore_errors=True)  # a training that was cut off
    job.folder.mkdir(parents=True)
    watch = Curve(job, readers)
    write_json(job.folder / CURVE, watch.points)
    if arm.phase is not None:
        rows = own_traces(job) if arm.rows == "own" else _written_traces(job)
        supervised(
            job.folder,
            start_of(config),
            rows,
            arm.phase.model_copy(update={"lr": job.lr}),
            arm.objective,
            seed=job.seed,
            device=config.device,
            callbacks=[watch],
        )
    else:
        _reinforce(job, watch)
    return watch.points


def _written_traces(job: CheckingJob) -> list[Trace]:
    phase = job.config.arms[job.name].phase
    assert phase is not None
    return checked_rows(job.config.sizes, phase.rows, seed=job.seed, corrective=job.config.corrective)


def own_traces(job: CheckingJob) -> list[Trace]:
    """The base model's responses that stopped on the right answer, as rows to imitate; at most as many as the arm wants."""
    phase = job.config.arms[job.name].phase
    assert phase is not None
    path = CheckingJob(job.config, BASE, job.seed).folder / OWN_ROWS
    rows = read_lines(path)
    marks = judged(rows)
    right = [
        row
        for row, tries, stopped in zip(rows, marks.right, marks.stopped, strict=True)
        if stopped and tries[-1:] == (True,)
    ]
    random.Random(f"own/{job.seed}").shuffle(right)
    return [
        Trace(
            (context("user", row["prompt"]), Turn("assistant", split_words(row["response"], row["stopped"]).segments))
        )
        for row in right[: phase.rows]
    ]


def _reinforce(job: CheckingJob, watch: Curve) -> None:
    config, arm = job.config, job.config.arms[job.name]
    assert arm.grpo is not None
    num = arm.rollouts // arm.grpo.group
    problems = checked_problems(config.sizes, num, "train", seed=f"rl/{job.seed}")
    task = matching([RlPrompt(*problem) for problem in problems], split_words, stated)
    changes = {
        "lr": job.lr,
        "seed": job.seed,
        "max_new_tokens": config.max_train_tokens,
        "temperature": config.temperature,
    }
    rl = RlConfig(
        run=str(job.folder / "run"),
        model={"name": start_of(config), "device": config.device},  # type: ignore[arg-type]
        rl=arm.grpo.model_copy(update=changes),
        task="products in words",
        extract="words",
    )
    train_rl(rl, task.prompts, task.reward, observe=task.observe, callbacks=[watch], say=lambda _: None)


class Curve(TrainerCallback):
    """Measures the model at equal distances along its training, with the first seed."""

    def __init__(self, job: CheckingJob, readers: Readers) -> None:
        self.job, self.readers, self.points = job, readers, list[Row]()
        steps, num = job.config.arms[job.name].steps, job.config.curve.points
        is_first = job.seed == job.config.seeds[0]
        self.at = {max(1, round(steps * k / num)) for k in range(1, num + 1)} if is_first else set[int]()

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Measure at one of the points."""
        if state.global_step in self.at:
            loaded = self.readers.holding(model)
            self.points.append(point(self.job.config, self.readers, loaded, state.global_step))
            write_json(self.job.folder / CURVE, self.points)


def finished(config: CheckingConfig, name: str) -> Iterator[CheckingJob]:
    """The jobs of an arm whose responses are there."""
    jobs = (CheckingJob(config, name, seed) for seed in config.seeds)
    return (job for job in jobs if (job.folder / ROLLOUTS).exists())
