"""`holdfast ls`: what is here: runs, embedded models, objectives."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table

from holdfast.cli.output import as_written, json_option, write_json
from holdfast.config.errors import InputError

RUNS = Path("runs")


def ls(
    folder: Annotated[Path, typer.Argument(help="Where the runs are")] = RUNS,
    json: json_option = None,
) -> None:
    """List runs with their progress, and what the package brings along."""
    if folder != RUNS and not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    files = [path for name in ("config.yaml", "matrix.jsonl") for path in folder.glob(f"**/{name}")]
    folders = sorted({path.parent for path in files if not _is_hidden(path.relative_to(folder))})
    runs = [describe_run(path) for path in folders]
    if write_json(json, {"runs": runs}):
        return
    console = Console(highlight=False)
    if runs:
        table = Table("run", "model", "objectives", "step", "loss", "nll", "checkpoint", box=None, header_style="bold")
        for run in runs:
            columns = ("run", "model", "objectives", "step", "loss", "nll", "checkpoint")
            table.add_row(*(as_written(str(run[column])) for column in columns))
        console.print(table)
    else:
        console.print(f"no runs under {folder}; start one: holdfast train sft", markup=False)
    console.print("embedded models: tiny:base, tiny:aligned")


def _is_hidden(path: Path) -> bool:
    """Whether it lies in a folder such as ``.scratch-...``, where a matrix trains for a moment."""
    return any(part.startswith(".") for part in path.parts)


def describe_run(run: Path) -> dict[str, Any]:
    """One line about a run directory, whatever state it was left in. A matrix has cells instead of steps."""
    if not (run / "config.yaml").exists():
        num_cells = len((run / "matrix.jsonl").read_bytes().splitlines())
        cells = {"run": str(run), "model": "", "objectives": f"matrix, {num_cells} cells"}
        return {**cells, "step": "", "loss": "", "nll": "", "checkpoint": ""}
    try:
        config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
        model = config["model"]["name"]
        objectives = "grpo" if "rl" in config else " + ".join(stream["objective"] for stream in config["streams"])
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        model = objectives = "unreadable config"
    last = _last_row(run / "steps.jsonl")
    checkpoints = sorted(path.name for path in (run / "checkpoints").glob("step-*"))
    return {
        "run": str(run),
        "model": model,
        "objectives": objectives,
        "step": last.get("step", 0),
        "loss": _rounded(last.get("loss")),
        "nll": _rounded(last.get("nll")),
        "checkpoint": checkpoints[-1] if checkpoints else "",
    }


def _rounded(value: object) -> float | str:
    """A logged figure, rounded; nothing where there is none yet or it was no number."""
    return round(value, 4) if isinstance(value, int | float) else ""


def _last_row(path: Path) -> dict[str, Any]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    for line in reversed(lines):  # the last line may be torn by a kill
        try:
            row = json_format.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            return row
    return {}
