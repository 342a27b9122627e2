"""The arithmetic studies' figures for [004]'s tables: read from what `holdfast diagnose decisions ... --json` wrote.

Training those models takes longer than a study of the ledger may, so the ledger reads their results instead of making them
anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast_studies.papers.measured import ClaimVerdict
from holdfast_studies.papers.study import Figures

RESULTS = Path("docs/results/decisions")
RATES = ("observed", "observed_stopped", "p_s", "p_dC", "p_dW", "echo", "wrong_to_right")


def read_runs(*names: str, folder: Path | None = None) -> Figures:
    """Of every study that is there: its sizes, and by model and size the rates, their intervals and the seeds one by one."""
    paths = {name: (folder or RESULTS) / f"{name}.json" for name in names}
    found = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}
    if not found:
        first = names[0]
        raise InputError(
            f"{paths[first]}: not there; make it with `holdfast diagnose decisions"
            f" studies/configs/arithmetic/{first}.yaml --json FILE`"
        )
    return {name: _short(report["cells"]) for name, report in found.items()}


def _short(cells: Iterable[dict[str, Any]]) -> dict[str, Any]:
    models: dict[str, dict[str, Any]] = {}
    for cell in cells:
        row: dict[str, Any] = {name: _rounded(cell[name]) for name in RATES}
        row["by_seed"] = [round(value, 4) for value in cell["accuracy_by_seed"]]
        row["held_out_error"] = None if cell["held_out_error"] is None else round(cell["held_out_error"], 4)
        models.setdefault(cell["model"], {})[cell["size"]] = row
    return {"sizes": list(next(iter(models.values()))), "models": models}


def _rounded(estimate: dict[str, Any]) -> list[float] | None:
    """[value, low, high], or None where the data cannot say it."""
    if estimate["value"] is None:
        return None
    return [round(estimate.get(name, estimate["value"]), 4) for name in ("value", "low", "high")]


def rate(study: dict[str, Any], model: str, size: str, name: str = "observed") -> float | None:
    """One value."""
    figure = study["models"][model][size][name]
    return None if figure is None else float(figure[0])


def shown(study: dict[str, Any], model: str, name: str = "observed") -> str:
    """Per cent by size: '96, 49, 0'."""
    values = [rate(study, model, size, name) for size in study["sizes"]]
    return ", ".join("-" if value is None else f"{100 * value:.0f}" for value in values)


def over_studies(figures: Figures, rule: Callable[[dict[str, Any]], bool | None]) -> ClaimVerdict:
    """A rule of one study: holds if in all that can say, in part if in some."""
    answers = [answer for answer in (rule(study) for study in figures.values()) if answer is not None]
    if not answers:
        return "not testable here"
    return "holds" if all(answers) else "holds in part" if any(answers) else "does not hold"


def sentence(figures: Figures, words: Callable[[dict[str, Any]], str]) -> str:
    """One clause per study."""
    return "; ".join(f"{name}: {words(study)}" for name, study in figures.items())
