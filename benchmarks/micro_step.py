"""A step of the micro world by `holdfast train` against a bare PyTorch loop doing the same work, measured in one run.

    python -m benchmarks.micro_step [--json FILE]

At a quarter of a million parameters the loop around the model is what costs. Both take the same rows in the same passes, in
turn; CPU seconds on one thread; the median step counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console
from transformers import LlamaForCausalLM
from transformers.utils import logging

from benchmarks.train_step import StepClock
from holdfast.config import TrainConfig
from holdfast.config.loading import load_config
from holdfast.data import read_traces, write_traces
from holdfast.records import Role
from holdfast.tokens import TokenRow, pad, tokenize_all
from holdfast.training import train
from holdfast.training.plan import StepPlan
from holdfast_studies.decisions.config import DecisionStudyConfig
from holdfast_studies.decisions.decision_study import BASE, Job, untrained, world_of
from holdfast_studies.worlds.arithmetic import Size
from holdfast_studies.worlds.arithmetic_tokenizer import arithmetic_tokenizer
from holdfast_studies.worlds.arithmetic_writing import corpus

STEPS, WARM_UP, BATCH, PASS = 22, 2, 64, 16
CONFIG = Path(__file__).parent.parent / "configs" / "arithmetic" / "micro.yaml"


def bare_loop(model: Path, rows: list[TokenRow]) -> list[float]:
    """Forward, cross-entropy on the trained tokens, backward, clip, AdamW, schedule; nothing else."""
    network = LlamaForCausalLM.from_pretrained(model).train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, STEPS)
    plan = StepPlan.make(
        [[len(row) for row in rows]], batch_size=BATCH, shares=[1.0], epochs=1, max_steps=STEPS, seed=0
    )
    seconds = []
    for step in range(STEPS):
        begun = time.process_time()
        chosen = [rows[number] for number in plan.rows_of_step(step)]
        count = sum(row.num_targets for row in chosen)
        for start in range(0, BATCH, PASS):
            batch = pad(chosen[start : start + PASS], 0)
            hidden = network.model(**batch.model_inputs()).last_hidden_state[:, :-1]
            trained = batch.roles[:, 1:] != Role.PROMPT
            logits = network.lm_head(hidden[trained])
            loss = torch.nn.functional.cross_entropy(logits, batch.ids[:, 1:][trained], reduction="sum") / count
            loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.process_time() - begun)
    return seconds[WARM_UP:]


def our_steps(folder: Path, model: Path, data: Path, number: int) -> list[float]:
    """The same steps through `holdfast train`."""
    clock = StepClock()
    config = TrainConfig.model_validate(
        {
            "run": str(folder / f"run-{number}"),
            "model": {"name": str(model), "device": "cpu"},
            "streams": [{"data": str(data)}],
            "training": {"max_steps": STEPS, "batch_size": BATCH, "micro_batch": PASS, "lr": 1e-3, "log_every": 100},
        }
    )
    train(config, say=lambda _: None, progress=False, callbacks=[clock])
    return clock.seconds


def measure(rounds: int) -> dict[str, float]:
    """Median CPU seconds of a step, both ways."""
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        study = load_config(DecisionStudyConfig, CONFIG, [f"run={folder}"])
        world = world_of(study)
        model = untrained(Job(study, 0, BASE), world)
        data = folder / "rows.jsonl"
        write_traces(data, corpus(world, [Size(n, 1) for n in range(2, 10)], BATCH * STEPS))
        rows, _ = tokenize_all(read_traces(data).traces, arithmetic_tokenizer(world))
        bare: list[float] = []
        ours: list[float] = []
        for number in range(rounds):
            bare += bare_loop(model, list(rows))
            ours += our_steps(folder, model, data, number)
    return {"bare": statistics.median(bare), "ours": statistics.median(ours)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures there ('-': standard output)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    seconds = measure(options.rounds)
    ratio = seconds["ours"] / seconds["bare"]
    row = {"ratio": "micro step / bare PyTorch loop", "measured": round(ratio, 3), "goal": 1.10}
    if options.json == "-":
        print(json.dumps(row))
        return
    Console().print(f"{row['ratio']}: {ratio:.2f} (goal <= 1.10); {1e3 * seconds['bare']:.0f} ms bare, "
                    f"{1e3 * seconds['ours']:.0f} ms ours")  # fmt: skip
    if options.json:
        Path(options.json).write_text(json.dumps(row) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
