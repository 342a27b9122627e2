"""An audit on a CPU: its CPU time against transformers' own generation of the same answers, and what the judges take of it.

    python -m benchmarks.audit [MODEL] [--json benchmarks/results/audit.json]

``tiny:aligned``, then MODEL (a folder or a .gguf file) where one is given. Audit and peer answer the same prompts greedily in
batches of the same size and similar length, one after the other on one thread, round after round. The peer encodes the prompts
and writes tokens; the audit also decodes, judges and makes figures.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.answers_gpu import by_transformers, prompts, suite_of
from benchmarks.ledger import committed, cpu_machine, finish, model_name, options, provenance, write
from holdfast.audits.model_audit import Plan, audit_model
from holdfast.generation import ModelSampler
from holdfast.models import load

TINY = "tiny:aligned"
NUM_REQUESTS, NUM_NEW, BATCH, ROUNDS = 32, 48, 16, 3
TINY_ROUNDS = 7  # times as many: a round of it takes half a second
JUDGES_GOAL = 0.5
"""Judges are never the slower half: they take at most so much of the time that writing the answers takes."""


def measure(model: str, rounds: int, num_requests: int = NUM_REQUESTS) -> dict[str, Any]:
    """Median CPU seconds of the answers, of judging them, of a whole audit and of the peer."""
    torch.set_num_threads(1)
    loaded, requests = load(model, device="cpu"), prompts(num_requests)
    suite, sampler = suite_of(requests, NUM_NEW), ModelSampler(loaded, BATCH)
    results: dict[str, Any] = {}
    ways: dict[str, Callable[[], Any]] = {
        "answers s": lambda: sampler([row.prompt for row in suite.rows], max_new_tokens=NUM_NEW),
        "judges s": lambda: suite.score(results["answers s"]),
        "audit s": lambda: audit_model(sampler, Plan(safety=(suite,))),
        "transformers s": lambda: by_transformers(loaded, requests, NUM_NEW, BATCH),
    }
    seconds: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds * TINY_ROUNDS if model == TINY else rounds):
        for name, work in ways.items():
            begun = time.process_time()
            results[name] = work()
            seconds[name].append(time.process_time() - begun)
    return {
        "model": model_name(model),
        "requests": len(requests),
        **{name: round(statistics.median(own), 4) for name, own in seconds.items()},
        "tokens": sum(len(one.token_ids) for one in results["answers s"]),
        "tokens of transformers": results["transformers s"],
    }


def ratios(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Lower is better."""
    audit, judges = row["audit s"] / row["transformers s"], row["judges s"] / row["answers s"]
    name = f"{row['model']}: an audit with two judges / transformers' own generation"
    share = f"{row['model']}: two judges / writing the answers that they judge"
    return [
        {"ratio": name, "measured": round(audit, 3), "goal": 1.2},
        {"ratio": share, "measured": round(judges, 4), "goal": JUDGES_GOAL, "gate": True},
    ]


def main() -> None:
    given = options(__doc__, ROUNDS, "SmolLM2-135M")
    audits = [measure(model, given.rounds) for model in (TINY, given.model) if model]
    rows = [row for audit in audits for row in ratios(audit)]
    finish(rows, committed("audit"))
    if given.json:
        write(
            Path(given.json),
            {**provenance(given.model), "machine": cpu_machine(), "ratios": rows, "audits": audits},
        )


if __name__ == "__main__":
    main()
