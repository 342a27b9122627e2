"""Details of a cell for the report: the curve of its training, a few answers token by token, how deep alignment goes.

Figures are kept for every cell; curves and answers are large, so a report shows those of one seed. The rows are the
make-believe world's own: no answer to a real request is ever among them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.data import atomic_text
from holdfast.heads.answer_stats import kl_by_position
from holdfast.models import LoadedModel, load
from holdfast.records import Cell, Trace

PARENTS = {"tiny:aligned": "tiny:base"}
"""The model that an aligned one was aligned from: the divergence from it shows how deep the alignment is."""
NUM_ANSWERS = 2  # of a cell: of the task, and of the first stream of the defender


def inside(run: Path, tuned: LoadedModel, anchor: LoadedModel, rows: Sequence[Trace]) -> dict[str, Any]:
    """Read what the cell's training left in ``run``; measure how much of the alignment is left on ``rows``."""
    content: dict[str, Any] = {}
    if (run / "steps.jsonl").exists():
        lines = (run / "steps.jsonl").read_text(encoding="utf-8").splitlines()
        content["steps"] = [_compact(json.loads(line)) for line in lines]
    if Path(tuned.name) == run / "model":  # not where weights were mixed or repaired afterwards
        content["answers"] = json.loads((run / "microscope.json").read_text(encoding="utf-8"))[:NUM_ANSWERS]
    if anchor.name in PARENTS:
        parent = load(PARENTS[anchor.name], dtype="float32", device=str(anchor.device))
        before, after = (_rounded(kl_by_position(loaded, parent, rows)) for loaded in (anchor, tuned))
        content["depth"] = {"to": PARENTS[anchor.name], "before": before, "after": after, "num_answers": len(rows)}
    return content


def inside_path(cell: Path) -> Path:
    """The file of a cell's inside, beside the cell's own."""
    return cell.with_suffix(".inside.json")


def write_inside(cell: Path, content: dict[str, Any]) -> None:
    """Write a cell's inside, whole or not at all."""
    _write(inside_path(cell), content)


def gather_insides(folder: Path, cells: Sequence[tuple[Path, Cell]]) -> None:
    """What the report reads: ``curves.json``, ``microscope.json``, ``depth.json``. A cell without a file is left out."""
    curves, answers, lines, to = [], [], [], ""
    shown: set[tuple[str, str]] = set()
    for path, cell in cells:
        inside = _read(inside_path(path)) if cell.status == "ok" else {}
        if "depth" in inside:
            to = inside["depth"].pop("to")
            lines.append({"group": cell.attack, "name": cell.defence, **inside["depth"]})
        if (cell.attack, cell.defence) in shown or "steps" not in inside:
            continue
        shown.add((cell.attack, cell.defence))  # the first seed stands for the others
        names = {"attack": cell.attack, "defence": cell.defence, "seed": cell.seed}
        curves.append({**names, "steps": inside["steps"]})
        answers += [{**names, **answer} for answer in inside.get("answers", ())]
    _write(folder / "curves.json", curves)
    _write(folder / "microscope.json", answers)
    _write(folder / "depth.json", {"to": to, "lines": lines})


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content
    except (OSError, ValueError):
        return {}


def _compact(row: dict[str, Any]) -> dict[str, Any]:
    """Step, and by role and stream the figures that are drawn."""
    kept = {"step": row["step"]}
    for groups in ("roles", "streams"):
        kept[groups] = {
            label: {name: float(f"{part[name]:.4g}") for name in ("nll", "gradient_share") if name in part}
            for label, part in row[groups].items()
        }
    return kept


def _rounded(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


def _write(path: Path, content: object) -> None:
    with atomic_text(path) as file:
        json.dump(content, file, ensure_ascii=False, separators=(",", ":"))
