"""Weights against budgets in the embedded world: `python docs/tools/budget.py` trains, measures and writes both files.

Two kinds of task rows on tiny:aligned, each learned alone (sft) and beside `prompts:safety` and `prompts:keep`: with weights 1,
with the weights of the study (20 and 1), and within the default budgets. Cells that docs/results/budget-world.json has already
are not made again; the table of docs/objectives/budget.md is written from it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
RESULTS, PAGE = DOCS / "results" / "budget-world.json", DOCS / "objectives" / "budget.md"
BEGIN, END = "<!-- budget:begin -->\n", "<!-- budget:end -->"
ARMS: dict[str, list[dict[str, Any]] | None] = {
    "sft": None,
    "weights 1, 1": [{"weight": 1.0}, {"weight": 1.0}],
    "weights 20, 1": [{"weight": 20.0}, {"weight": 1.0}],
    "budgets": [{"hold": True}, {"hold": True}],
}
ATTACKS_MEASURED = ("harmful_examples", "benign_drift")
SEEDS = (0, 1)


def measure(attack_name: str, arm: str, seed: int) -> dict[str, Any]:
    """Train one arm, and ask the model as a cell of the matrix does."""
    import holdfast as hf
    from holdfast.attacks import ATTACKS, WorldSetting, ask
    from holdfast.data import write_traces

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
            lr=attack.lr,
            max_steps=-(-len(rows) // attack.batch_size) * int(attack.epochs),
            batch_size=int(sum(stream.share for stream in streams)),
            seed=seed,
            say=lambda _: None,
            progress=False,
        )
        asked = ask(hf.load(str(result.model)), attack, setting, seed=seed)
        drift = json.loads((folder / "run" / "hold.json").read_text()) if arm == "budgets" else {}
    shares = {name: sum(map(bool, outcomes)) / len(outcomes) for name, outcomes in asked.outcomes.items()}
    return {"attack": attack_name, "arm": arm, "seed": seed, **shares, "drift": drift}


def table(cells: list[dict[str, Any]]) -> str:
    """Means over the seeds, in per cent; the drift on fresh prompts in nats per answer."""
    lines = [
        "| rows | held by | answered | look-alikes refused | right | drift: safety, keep |",
        "|---|---|---|---|---|---|",
    ]
    for attack in ATTACKS_MEASURED:
        for arm in ARMS:
            own = [cell for cell in cells if (cell["attack"], cell["arm"]) == (attack, arm)]
            shares = [
                f"{100 * sum(cell[name] for cell in own) / len(own):.1f} %"
                for name in ("asr", "over_refusal", "utility")
            ]
            drifts = [
                f"{sum(cell['drift'][kind]['early']['k'] for cell in own) / len(own):.3f}"
                for kind in ("safety", "keep")
                if own[0]["drift"]
            ]
            lines.append(f"| `{attack}` | {arm} | {' | '.join(shares)} | {', '.join(drifts)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Make what is missing, then write the table."""
    cells: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    known = {(cell["attack"], cell["arm"], cell["seed"]) for cell in cells}
    for place in ((attack, arm, seed) for seed in SEEDS for attack in ATTACKS_MEASURED for arm in ARMS):
        if place not in known and "--table" not in sys.argv:
            cells.append(measure(*place))
            RESULTS.write_text(json.dumps(cells, indent=1) + "\n", encoding="utf-8")
            print(*place, {name: cells[-1][name] for name in ("asr", "over_refusal", "utility")}, flush=True)
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(before + BEGIN + table(cells) + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
