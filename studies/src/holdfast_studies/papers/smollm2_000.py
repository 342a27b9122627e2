"""[000] Part (c) on SmolLM2-135M: SQL, two-digit arithmetic and GSM8K with wrong spans taken back.

Set-up: what `holdfast diagnose safety-gap studies/configs/undo/smollm2_TASK.yaml` left in runs/undo-smollm2-TASK (or below
HOLDFAST_RUNS): sft and masked_sft on the same traces, the seeds and contexts that are there; a task with fewer than two seeds
of both is left out. Measured: log p(error | prefix), p(undo | error), p(correction | undo) at the first and last measurement.
Rules, as for the embedded world (`000-theorem-c`): 'much greater' holds if in every task and context every seed of sft lies
above every seed of masked_sft by at least log 10 at the end, in part if they are apart somewhere. 'Equally well' holds if the
means differ by at most 0.05 everywhere, in part somewhere. A task on which masked SFT undoes less than half of the errors did not
learn its traces and is left out of both (added after the figures had been seen, 2026-11-16 for 'equally well', 2026-11-17 for
'much greater').
"""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast.stats import Estimate
from holdfast_studies.papers.divergence_000 import EQUAL, MUCH, READINGS, learned, values
from holdfast_studies.papers.study import (
    Claim,
    ClaimVerdict,
    Figures,
    Finding,
    Machine,
    OnProgress,
    Study,
    needed,
    verdict_of,
)

ID = "000-theorem-c-smollm2"
TASKS = ("sql", "arithmetic", "gsm8k")
PAIR = ("sft", "masked_sft")
UNDOING = "a task on which masked SFT learns to undo, unlike"


def run(scale: Machine, on_progress: OnProgress) -> Figures:
    """The ends of every arm's curves, by task."""
    root = Path(os.environ.get("HOLDFAST_RUNS", "runs"))
    found = {task: arms for task in TASKS if (arms := _arms(root / f"undo-smollm2-{task}" / "arms"))}
    if not found:
        raise InputError(
            f"{root}: no undo-smollm2-TASK there; `holdfast diagnose safety-gap studies/configs/undo/smollm2_sql.yaml` makes one"
        )
    return {"tasks": found}


def reads(scale: Machine) -> list[Path]:
    """The files of the arms of every task, those that are there."""
    root = Path(os.environ.get("HOLDFAST_RUNS", "runs"))
    return [path for task in TASKS for path in sorted(root.glob(f"undo-smollm2-{task}/arms/*.json"))]


def _arms(folder: Path) -> dict[str, Any]:
    """First and last readings by 'objective, context'; only contexts with two seeds of either objective."""
    arms: dict[str, list[dict[str, list[float]]]] = {}
    for path in sorted(folder.glob("*.json")):
        row = json.loads(path.read_text(encoding="utf-8"))
        curve = {int(step): reading for step, reading in row["curve"].items()}
        ends = {str(step): [round(curve[step][name], 5) for name in READINGS] for step in (min(curve), max(curve))}
        arms.setdefault(f"{row['arm']['objective']}, {row['arm']['context']}", []).append(ends)
    contexts = {name.partition(", ")[2] for name in arms}
    whole = [context for context in contexts if all(len(arms.get(f"{arm}, {context}", ())) >= 2 for arm in PAIR)]
    kept = {f"{arm}, {context}": arms[f"{arm}, {context}"] for context in sorted(whole) for arm in PAIR}
    return {"arms": kept, "readings": list(READINGS), "contexts": sorted(whole)} if kept else {}


def _both(figures: Figures, task: str, context: str, reading: str) -> tuple[list[float], list[float]]:
    sft, masked = (values(figures["tasks"][task], f"{arm}, {context}", reading) for arm in PAIR)
    return sft, masked


def _by_learning(figures: Figures) -> tuple[list[tuple[str, str]], list[str]]:
    """Task and context of what masked SFT has learned to undo; and the names of what it has not."""
    pairs = [(task, context) for task, seen in figures["tasks"].items() for context in seen["contexts"]]
    kept = [(task, context) for task, context in pairs if learned(figures["tasks"][task], context)]
    return kept, [f"{task}, {context}" for task, context in pairs if (task, context) not in kept]


def _left_out(names: list[str]) -> str:
    return f"; left out, as masked SFT undoes less than half of the errors there: {'; '.join(names)}" if names else ""


def much_greater(figures: Figures) -> Finding:
    """Judge part (c): are errors much likelier after SFT than after masked SFT?"""
    gaps = {}
    kept, not_learned = _by_learning(figures)
    if not kept:
        return needed(f"{UNDOING} {'; '.join(not_learned)}")
    for task, context in kept:
        sft, masked = _both(figures, task, context, "log_p_error")
        gaps[f"{task}, {context}"] = (min(sft) - max(masked), statistics.fmean(sft) - statistics.fmean(masked))
    least = [gap for gap, _ in gaps.values()]
    verdict: ClaimVerdict = "holds" if min(least) >= MUCH else "holds in part" if max(least) > 0 else "does not hold"
    found = "log p(error given prefix), sft minus masked_sft in nats: " + ", ".join(
        f"{name} {mean:+.2f} (least of any two seeds {gap:+.2f})" for name, (gap, mean) in gaps.items()
    )
    found += _left_out(not_learned)
    return Finding(verdict, found, Estimate(statistics.fmean(mean for _, mean in gaps.values()), n=_seeds(figures)))


def equally_well(figures: Figures) -> Finding:
    """Judge part (a) as behaviour: do both objectives learn to undo and to correct?"""
    gaps = {}
    kept, not_learned = _by_learning(figures)
    if not kept:
        return needed(f"{UNDOING} {'; '.join(not_learned)}")
    for task, context in kept:
        for reading in ("p_undo", "p_correction"):
            sft, masked = _both(figures, task, context, reading)
            gaps[f"{reading} {task}, {context}"] = statistics.fmean(sft) - statistics.fmean(masked)
    close = [abs(gap) <= EQUAL for gap in gaps.values()]
    verdict = verdict_of(close)
    found = "sft minus masked_sft: " + ", ".join(f"{name} {gap:+.3f}" for name, gap in gaps.items())
    found += _left_out(not_learned)
    return Finding(verdict, found, Estimate(max(gaps.values(), key=abs), n=_seeds(figures)))


def _seeds(figures: Figures) -> int:
    return min(len(curves) for seen in figures["tasks"].values() for curves in seen["arms"].values())


STUDY = Study(
    id=ID,
    paper="000",
    title="Safety Gap theorem, part (c), on SmolLM2-135M",
    claims=(
        Claim(
            id=ID,
            place="Part (c)",
            text="on a real model, SFT makes errors much likelier than masked SFT does",
            printed="p_SFT(e given p) >> p_mSFT(e given p)",
            judge=much_greater,
            rule="changed",
        ),
        Claim(
            id="000-equal-learning-smollm2",
            place="Part (a)",
            text="on a real model, both objectives learn to undo and to correct equally well",
            printed="'equally well under both regimes'",
            judge=equally_well,
            rule="changed",
        ),
    ),
    run=run,
    seconds={"h200": 1},
    reads=reads,
    model="SmolLM2-135M",
)
