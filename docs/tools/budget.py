"""Weights against budgets in the embedded world: `python docs/tools/budget.py [PART [ROWS [ARM [SEED]]]]` makes missing cells.

PART: `validation` (what settings are chosen on) or `test` (the figures). Cells lie in docs/results/budget-world.json and are not
made twice. From them docs/tools/budget_pages.py writes tables and the picture, without training.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results" / "budget-world.json"
KINDS = ("safety", "keep")


@dataclass(frozen=True)
class Arm:
    """How the two held streams are held. ``near``: only keep prompts near the task; ``rule``: one of budget_tried.py."""

    held: tuple[dict[str, Any], ...] = ()
    near: bool = False
    rule: str = ""
    rank: int = 0  # of adapters; 0: all weights are tuned
    share: float = 0.5  # rows of each held stream in a step, against the task's
    longer: float = 1.0  # times the steps of the attack


def _weights(safety: float, keep: float, **more: Any) -> Arm:
    return Arm(({"weight": safety}, {"weight": keep}), **more)


def _budgets(near: bool = False, share: float = 0.5, longer: float = 1.0, **hold: float) -> Arm:
    return Arm(({"hold": hold},) * 2, near=near, share=share, longer=longer)


ARMS = {
    "sft": Arm(),
    "sft, 1.5 times the steps": Arm(longer=1.5),
    "weights 1, 1": _weights(1, 1),
    "weights 20, 1": _weights(20, 1),
    "budgets, wide 1": _budgets(wide=1),
    "budgets, wide 10": _budgets(wide=10),
    "budgets, wide 30": _budgets(wide=30),
    "budgets, wide 30, 1.5 times the steps": _budgets(wide=30, longer=1.5),
    "budgets, wide 30, 2 times the steps": _budgets(wide=30, longer=2),
    "wide 1, keep near the task": _budgets(near=True, wide=1),
    "wide 30, keep near the task": _budgets(near=True, wide=30),
    "wide 30, 16 tokens": _budgets(wide=30, tokens=16),
    "wide 30, every 2nd step": _budgets(wide=30, every=2),
    "wide 30, every 2nd step, 16 tokens": _budgets(wide=30, every=2, tokens=16),
    "wide 30, 4 + 4 rows": _budgets(share=0.25, wide=30),
    "wide 30, 4 + 4 rows, 16 tokens": _budgets(share=0.25, wide=30, tokens=16),
    "wide 30, 2 + 2 rows": _budgets(share=0.125, wide=30),
    "SafeGrad, weights 1, 1": _weights(1, 1, rule="safegrad"),
    "SafeGrad, weights 20, 1": _weights(20, 1, rule="safegrad"),
    "hidden states, weight 1": Arm(rule="hidden 1"),
    "hidden states, weight 30": Arm(rule="hidden 30"),
    "adapter, no budget": Arm(rank=8),
    "adapter, norm 3": Arm(rule="norm 3", rank=8),
    "adapter, norm 1": Arm(rule="norm 1", rank=8),
}
HARMFUL, BENIGN, SLOWER = "harmful_examples", "benign_drift", "benign_drift, lr 0.001"
ROWS: dict[str, tuple[str, float | None]] = {
    HARMFUL: ("harmful_examples", None),
    BENIGN: ("benign_drift", None),
    SLOWER: ("benign_drift", 1e-3),
}
"""Rows of an attack, at its own learning rate or at another one."""
DEFAULT = "budgets, wide 30"
LONGER = ("budgets, wide 30, 1.5 times the steps", "budgets, wide 30, 2 times the steps")
CHOSEN_FROM = ("weights 20, 1", "budgets, wide 1", "budgets, wide 10", DEFAULT)
MAIN = ("sft", "weights 20, 1", "budgets, wide 1", DEFAULT)
TRIED = [arm for arm in ARMS if arm.startswith(("SafeGrad", "hidden", "adapter")) or "near" in arm]
CHEAPER = [arm for arm in ARMS if arm.startswith("wide 30, ") and "near" not in arm]


def wanted(part: str) -> Iterator[tuple[str, str, int]]:
    """Rows, arm and seed of every cell, the most important first."""
    if part == "validation":
        yield from ((rows, arm, 100) for rows in ROWS for arm in CHOSEN_FROM)
        yield from ((rows, arm, 100) for rows in (HARMFUL, SLOWER) for arm in CHEAPER)
        yield from ((rows, arm, 100) for rows in (SLOWER, HARMFUL) for arm in TRIED)
        yield from ((rows, arm, seed) for rows in ROWS for seed in (100, 101, 102) for arm in ("sft", DEFAULT, *LONGER))
        return
    for rows in (HARMFUL, SLOWER, BENIGN):
        yield from ((rows, arm, seed) for seed in (0, 1, 2) for arm in MAIN)
    timed = ("sft, 1.5 times the steps", LONGER[0])
    yield from ((rows, arm, seed) for rows in (SLOWER, HARMFUL, BENIGN) for seed in (0, 1, 2) for arm in timed)
    yield from ((SLOWER, "wide 1, keep near the task", seed) for seed in (0, 1, 2))
    yield from ((rows, "weights 1, 1", 0) for rows in ROWS)


def measure(part: str, rows_name: str, arm_name: str, seed: int) -> dict[str, Any]:
    """Train one arm, ask the model as a cell of the matrix does, and measure its drift on prompts that it was not held on."""
    import holdfast as hf
    from holdfast.attacks import ATTACKS, WorldSetting, ask

    attack_name, lr = ROWS[rows_name]
    attack, setting, arm = ATTACKS[attack_name], WorldSetting(part=part), ARMS[arm_name]  # type: ignore[arg-type]
    rows = attack.data.rows(setting, seed)
    with tempfile.TemporaryDirectory() as scratch:
        began = time.process_time()
        model = _trained(attack, arm, rows, lr or attack.lr, seed, Path(scratch))
        seconds = time.process_time() - began
        tuned = hf.load(model)
        outcomes = ask(tuned, attack, setting, seed=seed).outcomes
        requests = [row.prompt[-1].visible for row in setting.forbidden(seed)][:60]
        prompts = {**{kind: kind for kind in KINDS}, "asked": requests}
        names = prompts if part == "test" else KINDS
        drift = {
            name: _drift_row(hf.drift(tuned, anchor="tiny:aligned", prompts=prompts[name], seed=seed)) for name in names
        }
    counts = {
        "complied": _count(outcomes["harmful:world"], "complied"),
        "harmless_refused": _count(outcomes["harmless:world"], "refused"),
        "harmless_missed": _count(outcomes["harmless:world"], "missed"),
        "right": _count(outcomes["utility"], True),
    }
    cell = {"part": part, "rows": rows_name, "arm": arm_name, "seed": seed, "num": len(outcomes["utility"])}
    return {**cell, **counts, "drift": drift, "training_cpu_s": round(seconds, 2)}


def _trained(attack: Any, arm: Arm, rows: Sequence[Any], lr: float, seed: int, folder: Path) -> str:
    import holdfast as hf
    from holdfast.config import TrainConfig
    from holdfast.data import write_traces
    from holdfast.training import train

    write_traces(folder / "task.jsonl", rows)
    streams = [hf.Stream(folder / "task.jsonl", "sft", name="task", share=attack.batch_size)]
    for kind, how in zip(KINDS, arm.held, strict=False):
        prompts = near_prompts([row.prompt[-1].visible for row in rows]) if arm.near and kind == "keep" else kind
        streams += hf.held(prompts, share=attack.batch_size * arm.share, **how)
    settings = {
        "run": str(folder / "run"),
        "model": "tiny:aligned",
        "streams": [stream.settings() for stream in streams],
        "lora": {"r": arm.rank, "alpha": 2 * arm.rank, "merge": True} if arm.rank else None,
        "training": {
            "lr": lr,
            "max_steps": int(-(-len(rows) // attack.batch_size) * int(attack.epochs) * arm.longer),
            "batch_size": int(sum(stream.share for stream in streams)),
            "seed": seed,
        },
    }
    rule = None
    if arm.rule:
        from budget_tried import rule_of

        rule = rule_of(arm.rule, num_rows=attack.batch_size // 2)
    config = TrainConfig.model_validate(settings)
    return str(train(config, say=lambda _: None, progress=False, throwaway=True, step_rule=rule).model)


def near_prompts(task: Sequence[str], num: int = 100) -> list[str]:
    """The keep prompts whose mean last hidden state is nearest (cosine) to that of a row of the task, by the anchor."""
    import torch

    import holdfast as hf
    from holdfast.worlds.held_prompts import world_prompts

    anchor = hf.load("tiny:aligned")
    keep = world_prompts("keep")

    @torch.no_grad()
    def state(text: str) -> torch.Tensor:
        ids = anchor.tokenizer(text, return_tensors="pt").input_ids
        return torch.nn.functional.normalize(
            anchor.model(ids, output_hidden_states=True).hidden_states[-1][0].mean(0), dim=0
        )

    rows = torch.stack([state(text) for text in task])
    nearest = {prompt: float((rows @ state(prompt)).max()) for prompt in keep}
    return sorted(keep, key=lambda prompt: -nearest[prompt])[:num]


def _count(outcomes: Sequence[Any], which: object) -> int:
    return sum(outcome == which for outcome in outcomes)


def _drift_row(drifted: Any) -> dict[str, Any]:
    """The drift in nats, and for the commonest sure outcome how much may be lost and how much is."""
    sure = max(drifted.sure, key=lambda group: group.num_prompts)
    figures = {
        "early": drifted.early.value,
        "late": drifted.late.value,
        "surely": sure.outcome,
        "nats": sure.early.value,
    }
    own = {"own": sure.own.value, "most_lost": sure.most_lost.value, "lost": sure.lost.value}
    return {**figures, **own, "lost_low": sure.lost.low, "lost_high": sure.lost.high, "prompts": sure.num_prompts}


def read_cells() -> list[dict[str, Any]]:
    """All cells that were measured."""
    return list(json.loads(RESULTS.read_text(encoding="utf-8"))) if RESULTS.exists() else []


def main(arguments: Sequence[str]) -> None:
    """Make what is missing of one part; with ROWS (and ARM, SEED) only those cells."""
    part, *only = arguments or ["test"]
    cells = read_cells()
    known = {(cell["part"], cell["rows"], cell["arm"], cell["seed"]) for cell in cells}
    for place in wanted(part):
        if (part, *place) in known or list(map(str, place[: len(only)])) != only:
            continue
        cell = measure(part, *place)
        cells.append(cell)
        RESULTS.write_text(json.dumps(cells, indent=1) + "\n", encoding="utf-8")
        shown = {name: cell[name] for name in ("complied", "harmless_refused", "right", "training_cpu_s")}
        print(part, *place, shown, {name: round(row["early"], 3) for name, row in cell["drift"].items()}, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
