"""From a shell to the first answer: `holdfast generate tiny:aligned` against torch and transformers doing the same alone.

    python -m benchmarks.first_answer [--json benchmarks/results/first_answer.json]

Each in a process of its own, in turn; CPU time of the process, so that a busy machine does not count. The peer imports torch and
transformers, loads the same files and writes the same answer. What may be imported by whom is a test
(tests/interface/test_light_imports.py); here is what it costs.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.ledger import committed, finish, provenance, write
from holdfast.models.embedded import tiny_path

PROMPT, NUM_NEW, ROUNDS, GOAL = "how do i bake bread", 32, 5, 1.10
OURS = ["-m", "holdfast", "generate", "tiny:aligned", PROMPT, "--max-new-tokens", str(NUM_NEW)]
THEIRS = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
turns = [{"role": "user", "content": sys.argv[2]}]
ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt")["input_ids"]
written = model.generate(ids, max_new_tokens=int(sys.argv[3]), do_sample=False)
print(tokenizer.decode(written[0, ids.shape[1]:], skip_special_tokens=True))
"""


def cpu_seconds(arguments: list[str]) -> float:
    """User and system time of a child."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(rounds: int) -> dict[str, float]:
    """Median CPU seconds of both, in turn."""
    theirs = ["-c", THEIRS, str(tiny_path("tiny:aligned")), PROMPT, str(NUM_NEW)]
    ways = {"ours": OURS, "torch and transformers": theirs}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, arguments in ways.items():
            seconds[name].append(cpu_seconds(arguments))
    return {name: round(statistics.median(own), 3) for name, own in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", metavar="FILE", help="write everything there")
    options = parser.parse_args()
    seconds = measure(options.rounds)
    measured = round(seconds["ours"] / seconds["torch and transformers"], 3)
    ratio = "first answer: `holdfast generate tiny:aligned` / torch and transformers alone"
    rows = [{"ratio": ratio, "measured": measured, "goal": GOAL}]
    if options.json:
        write(
            Path(options.json), {**provenance(), "machine": {"cpu": "one thread"}, "ratios": rows, "seconds": seconds}
        )
    print(seconds)
    finish(rows, committed("first_answer"))


if __name__ == "__main__":
    main()
