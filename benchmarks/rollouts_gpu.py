"""Where the time of a GRPO step goes on a GPU: rollouts, scoring, update; our rollouts against TRL's own.

    python -m benchmarks.rollouts_gpu --model FOLDER [--json benchmarks/results/rollouts_gpu.json]

Two short runs of `holdfast train` on the same prompts with the same settings: 32 prompts of the arithmetic world in plain
English, 8 rollouts each, at most 128 tokens, bf16. They differ in the sampler alone: ours, or TRL's default, transformers'
``generate`` with a growing cache. Scoring is the log-probabilities under policy and reference, and the reward.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu_clock import machine
from benchmarks.ledger import committed, finish, provenance, write
from holdfast.config.rl import RlConfig
from holdfast.diagnostics.rl_tasks import task_of
from holdfast.training.rl import train_rl

STEPS, WARM_UP, PROMPTS, GROUP, NUM_NEW = 4, 1, 32, 8, 128
GOAL = 0.5  # of TRL's time


def run(model: str, sampler: str, folder: Path, device: str = "cuda") -> dict[str, Any]:
    """Median seconds of a step's parts, and rollout tokens per second."""
    config = RlConfig.model_validate(
        {
            "run": str(folder / sampler),
            "model": {"name": model, "device": device, "dtype": "bfloat16"},
            "task": "arithmetic",
            "task_options": {"text": True, "base": 10, "sizes": ["2x1", "3x1"], "num": PROMPTS * STEPS},
            "rl": {
                "steps": STEPS,
                "prompts_per_step": PROMPTS,
                "group": GROUP,
                "max_new_tokens": NUM_NEW,
                "sampler": sampler,
            },
        }
    )
    task = task_of(config)
    train_rl(config, task.prompts, task.reward, say=lambda _: None)
    lines = (folder / sampler / "steps.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines][WARM_UP:]
    figures: dict[str, Any] = {"sampler": sampler}
    for part in ("rollout", "scoring", "reward"):
        figures[part] = round(statistics.median(row[f"{part}_seconds"] for row in rows), 4)
    figures["step"] = round(statistics.median(row["step_time"] for row in rows), 4)
    figures["update"] = round(figures["step"] - figures["rollout"] - figures["scoring"], 4)
    rates = [row["completions/mean_length"] * PROMPTS * GROUP / row["rollout_seconds"] for row in rows]
    return {**figures, "rollout tokens per second": round(statistics.median(rates))}


def ratios(ours: dict[str, Any], theirs: dict[str, Any]) -> list[dict[str, Any]]:
    """The ratios; lower is better."""
    rate = "rollout tokens per second"
    step = round(ours["step"] / theirs["step"], 3)
    return [
        {"ratio": "rollouts: time per token / TRL's", "measured": round(theirs[rate] / ours[rate], 3), "goal": GOAL},
        {"ratio": "a whole GRPO step / with TRL's rollouts", "measured": step, "goal": None},
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True, help="a folder: SmolLM2-135M-Instruct for the committed figures")
    parser.add_argument("--json", metavar="FILE", help="write everything there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        rows = [run(options.model, sampler, Path(scratch)) for sampler in ("own", "trl")]
    print("\n".join(map(json.dumps, rows)), flush=True)
    results: dict[str, Any] = {
        **provenance(options.model),
        "machine": machine(),
        "ratios": ratios(*rows),
        "samplers": rows,
    }
    if options.json:
        write(Path(options.json), results)
    finish(results["ratios"], committed("rollouts_gpu"))


if __name__ == "__main__":
    main()
