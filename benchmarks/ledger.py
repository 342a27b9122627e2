"""The committed ratios and the new ones: a benchmark fails where a ratio is more than a tenth worse.

It also fails where a ratio that has ``"gate": true`` is above its goal, whatever was committed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

RESULTS = Path(__file__).parent / "results"
TOLERANCE = 1.10


def options(doc: str | None, rounds: int, model: str, *, needs_model: bool = False) -> argparse.Namespace:
    """What a benchmark of a model is told on the command line. ``model``: the one of the committed figures."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    help_model = f"a folder or a .gguf file: {model} for the committed figures"
    parser.add_argument("model", nargs=None if needs_model else "?", help=help_model)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--json", metavar="FILE", help="write everything there")
    return parser.parse_args()


def provenance(model: str | None = None) -> dict[str, str]:
    """The date and the command. Paths of this machine are left out: the model's, and where the results were put."""
    kind = "FILE" if model and Path(model).is_file() else "FOLDER"
    given = [kind if word == model else word for word in sys.argv[1:]]
    for option in {"--json", "--out"} & set(given):
        at = given.index(option)
        del given[at : at + 2]
    when = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    module = Path(sys.argv[0]).stem
    name = "benchmarks" if module == "__main__" else f"benchmarks.{module}"
    return {"date": when, "command": " ".join(["python -m", name, *given])}


def cpu_machine() -> dict[str, str]:
    """What the figures of a CPU were measured on."""
    return {
        "cpu": f"{platform.processor() or platform.machine()}, one thread",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def model_name(model: str) -> str:
    """A model's name in tables: of a folder or a file the last part alone."""
    return Path(model).name.removesuffix(".gguf") if Path(model).exists() else model


def committed(name: str) -> dict[str, Any] | None:
    """The committed results of that benchmark; None without any."""
    path = RESULTS / f"{name}.json"
    results: dict[str, Any] | None = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    return results


def write(path: Path, everything: dict[str, Any]) -> None:
    """Write JSON with one row of a list per line, so that a changed row is a changed line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = []
    for name, value in everything.items():
        if isinstance(value, list):
            rows = ",\n".join(f"  {json.dumps(row)}" for row in value)
            fields.append(f' "{name}": [\n{rows}\n ]')
        else:
            fields.append(f' "{name}": {json.dumps(value)}')
    path.write_text("{\n" + ",\n".join(fields) + "\n}\n", encoding="utf-8")


def regressions(now: Sequence[dict[str, Any]], before: Sequence[dict[str, Any]]) -> list[str]:
    """A line for every ratio that is more than a tenth above the committed one; lower is better in all of them."""
    known = {row["ratio"]: row["measured"] for row in before}
    return [
        f"{row['ratio']}: {row['measured']:.3f}, was {known[row['ratio']]:.3f}"
        for row in now
        if row["ratio"] in known and row["measured"] > TOLERANCE * known[row["ratio"]]
    ]


def finish(ratios: Sequence[dict[str, Any]], before: dict[str, Any] | None) -> None:
    """Print the ratios; exit 1 where one is above its gate, or more than a tenth worse than the one ``before``."""
    for row in ratios:
        goal = "" if row["goal"] is None else f"   goal <= {row['goal']:.2f}"
        print(f"{row['ratio']:94} {row['measured']:.3f}{goal}")
    if above := [row["ratio"] for row in ratios if row.get("gate") and row["measured"] > row["goal"]]:
        sys.exit("above the goal:\n" + "\n".join(above))
    worse = regressions(ratios, before["ratios"] if before else [])
    if worse:
        sys.exit("worse by more than a tenth than the committed ratios:\n" + "\n".join(worse))
