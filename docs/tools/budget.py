"""Weights against budgets in the embedded world: `python docs/tools/budget.py` trains, measures and writes two pages.

Task rows on tiny:aligned, each learned alone (sft) and beside `prompts:safety` and `prompts:keep`: with weights, and within
budgets. Cells that docs/results/budget-world.json has already are not made again. From it the table of docs/objectives/budget.md
and the tables of docs/results/budget.md are written; `--table` only writes them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
RESULTS = DOCS / "results" / "budget-world.json"
PAGES = {DOCS / "objectives" / "budget.md": "table", DOCS / "results" / "budget.md": "planes"}
BEGIN, END = "<!-- budget:begin -->\n", "<!-- budget:end -->"
ARMS: dict[str, list[dict[str, Any]] | None] = {
    "sft": None,
    "weights 1, 1": [{"weight": 1.0}, {"weight": 1.0}],
    "weights 5, 5": [{"weight": 5.0}, {"weight": 5.0}],
    "weights 20, 1": [{"weight": 20.0}, {"weight": 1.0}],
    "budgets": [{"hold": True}, {"hold": True}],
    "budgets, ten times as wide": [{"hold": {"early": 0.3, "late": 0.2}}] * 2,
    "budgets, narrowing": [{"hold": {"wide": 10}}] * 2,
}
SHOWN = ("sft", "weights 1, 1", "weights 20, 1", "budgets")  # on docs/objectives/budget.md
ROWS: dict[str, tuple[str, float | None]] = {
    "harmful_examples": ("harmful_examples", None),
    "benign_drift": ("benign_drift", None),
    "benign_drift, lr 0.001": ("benign_drift", 1e-3),
}
"""Rows of an attack, at its own learning rate or at another one."""
SEEDS = (0, 1)


def measure(rows_name: str, arm: str, seed: int) -> dict[str, Any]:
    """Train one arm, ask the model as a cell of the matrix does, and measure its drift on prompts that it was not held on."""
    import holdfast as hf
    from holdfast.attacks import ATTACKS, WorldSetting, ask
    from holdfast.data import write_traces

    attack_name, lr = ROWS[rows_name]
    attack, setting = ATTACKS[attack_name], WorldSetting()
    rows = attack.data.rows(setting, seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_traces(folder / "task.jsonl", rows)
        streams = [hf.Stream(folder / "task.jsonl", "sft", name="task", share=attack.batch_size)]
        for kind, how in zip(("safety", "keep"), ARMS[arm] or (), strict=False):
            streams += hf.held(kind, share=attack.batch_size / 2, **how)
        result = hf.train(
            "tiny:aligned",
            streams,
            run=folder / "run",
            lr=lr or attack.lr,
            max_steps=-(-len(rows) // attack.batch_size) * int(attack.epochs),
            batch_size=int(sum(stream.share for stream in streams)),
            seed=seed,
            say=lambda _: None,
            progress=False,
        )
        tuned = hf.load(str(result.model))
        outcomes = ask(tuned, attack, setting, seed=seed).outcomes
        drift = {kind: drift_row(hf.drift(tuned, anchor="tiny:aligned", prompts=kind)) for kind in ("safety", "keep")}
    shares = {
        "complied": _share(outcomes["harmful:world"], "complied"),
        "harmless_refused": _share(outcomes["harmless:world"], "refused"),
        "utility": _share(outcomes["utility"], True),
    }
    return {"rows": rows_name, "arm": arm, "seed": seed, **shares, "drift": drift}


def _share(outcomes: Sequence[Any], which: object) -> float:
    return float(sum(outcome == which for outcome in outcomes) / len(outcomes))


def drift_row(drifted: Any) -> dict[str, Any]:
    """Nats, and of the sure outcomes that matter (refusals; of harmless prompts, answers) what may be and what is lost."""
    sure = max(drifted.sure, key=lambda group: group.num_prompts)
    figures = {"early": drifted.early.value, "late": drifted.late.value}
    return {**figures, "surely": sure.outcome, "most_lost": sure.most_lost.value, "lost": sure.lost.value}


def of(cells: list[dict[str, Any]], rows: str, arm: str) -> list[dict[str, Any]]:
    """The seeds of one arm."""
    return [cell for cell in cells if (cell["rows"], cell["arm"]) == (rows, arm)]


def mean(cells: list[dict[str, Any]], *path: str) -> float | None:
    """The mean over the seeds that have this figure."""
    values = []
    for cell in cells:
        value: Any = cell
        for name in path:
            value = value.get(name, {}) if isinstance(value, dict) else {}
        values += [value] if isinstance(value, int | float) else []
    return sum(values) / len(values) if values else None


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _nats(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def table(cells: list[dict[str, Any]]) -> str:
    """For docs/objectives/budget.md: means over the seeds; the drift in nats per answer."""
    lines = [
        "| rows | held by | answered | look-alikes refused | right | drift: safety, keep |",
        "|---|---|---|---|---|---|",
    ]
    for rows in ("harmful_examples", "benign_drift"):
        for arm in SHOWN:
            own = of(cells, rows, arm)
            shares = [_percent(mean(own, name)) for name in ("complied", "harmless_refused", "utility")]
            drifts = [_nats(mean(own, "drift", kind, "early")) for kind in ("safety", "keep")]
            lines.append(f"| `{rows}` | {arm} | {' | '.join(shares)} | {', '.join(filter(None, drifts))} |")
    return "\n".join(lines) + "\n"


def front(cells: list[dict[str, Any]], rows: str) -> set[str]:
    """The arms that no other arm beats in one of *answered* and *right* without losing in the other."""
    places: dict[str, tuple[float, float]] = {}
    for arm in ARMS:
        own = of(cells, rows, arm)
        complied, right = mean(own, "complied"), mean(own, "utility")
        if complied is not None and right is not None:
            places[arm] = (-complied, right)

    def is_beaten(place: tuple[float, float]) -> bool:
        return any(
            other != place and all(a >= b for a, b in zip(other, place, strict=True)) for other in places.values()
        )

    return {arm for arm, place in places.items() if not is_beaten(place)}


def planes(cells: list[dict[str, Any]]) -> str:
    """For docs/results/budget.md: a plane of safety and task for each kind of rows, and the bound beside what was lost."""
    parts = []
    for rows in ROWS:
        lines = [
            f"## {rows}\n",
            "| held by | seeds | answered | right | front | nats: safety | keep | refusals lost, at most | lost |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for arm in ARMS:
            if own := of(cells, rows, arm):
                shares = [_percent(mean(own, name)) for name in ("complied", "utility")]
                nats = [_nats(mean(own, "drift", kind, "early")) for kind in ("safety", "keep")]
                lost = [_percent(mean(own, "drift", "safety", name)) for name in ("most_lost", "lost")]
                mark = "x" if arm in front(cells, rows) else ""
                lines.append("| " + " | ".join([arm, str(len(own)), *shares, mark, *nats, *lost]) + " |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def main() -> None:
    """Make what is missing, then write the tables."""
    cells: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    known = {(cell["rows"], cell["arm"], cell["seed"]) for cell in cells}
    for place in ((rows, arm, seed) for seed in SEEDS for rows in ROWS for arm in ARMS):
        if place not in known and "--table" not in sys.argv:
            cells.append(measure(*place))
            RESULTS.write_text(json.dumps(cells, indent=1) + "\n", encoding="utf-8")
            print(*place, {name: cells[-1][name] for name in ("complied", "harmless_refused", "utility")}, flush=True)
    for page, maker in PAGES.items():
        before, rest = page.read_text(encoding="utf-8").split(BEGIN)
        page.write_text(before + BEGIN + globals()[maker](cells) + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
