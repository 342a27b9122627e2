"""lm-eval's per-item results: ``samples_TASK_DATE.jsonl``, which ``lm_eval --log_samples --output_path`` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast.data import BadField, Fields, read_table
from holdfast.data.fields import describe
from holdfast.evaluations.evaluation import Direction, Evaluation, Trial, scores_of

NAME = re.compile(r"samples_(?P<task>.+?)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
OUR_TASK = "holdfast_refusal"
"""Its metrics are by a judge of outcomes (`holdfast tasks lm-eval`)."""


def samples_files(path: Path) -> list[Path]:
    """The samples files that a path names: itself, or all beneath the folder."""
    if path.is_file():
        return [path] if path.name.startswith("samples_") and path.suffix == ".jsonl" else []
    return sorted(path.rglob("samples_*.jsonl"))


def read_lm_eval(files: Sequence[Path], source: str) -> Evaluation:
    """Every task's metrics that give one number per item. Several files of a task are repeats of it.

    Which way a metric is better is read from ``results_*.json`` beside the samples; without that file more is better.
    """
    folders = sorted({file.parent for file in files})
    if len(folders) > 1:
        names = ", ".join(folder.name for folder in folders[:4])
        raise InputError(f"{source}: samples of several models ({names}): name one folder")
    less = _less_is_better(folders[0])
    trials: dict[str, list[Trial]] = {}
    skipped: dict[str, None] = {}
    directions: dict[str, Direction] = {}
    for file in files:
        task = _task(file)
        for sample in read_table(file, Sample):
            for metric, value in sample.metrics.items():
                filtered = "" if sample.filter in ("none", "") else f",{sample.filter}"
                figure = f"{task}/{metric}{filtered}"
                if value is None:
                    skipped[f"{figure}: not one number per item"] = None
                    continue
                directions[figure] = "less" if (task, metric) in less else "more"
                trials.setdefault(figure, []).append(Trial(sample.item, value, sample.content))
    figures = {name: scores_of(rows, directions[name], f"{source}, {name}") for name, rows in trials.items()}
    judged = frozenset(name for name in figures if name.startswith(OUR_TASK))
    return Evaluation(source, figures, tuple(skipped), judged)


class Sample:
    """One line. ``metrics`` has None for a metric that is no single number."""

    def __init__(self, fields: Fields) -> None:
        doc_id, names = fields.get("doc_id"), fields.get("metrics")
        if not isinstance(doc_id, int):
            raise BadField("doc_id", "a whole number, as lm-eval writes", describe(doc_id))
        if not isinstance(names, list):
            raise BadField("metrics", "a list of names, as lm-eval writes", describe(names))
        self.item = str(doc_id)
        self.content = str(fields.get("doc_hash") or "")
        self.filter = str(fields.get("filter") or "")
        self.metrics = {str(name): _score(fields.get(str(name))) for name in names}


def _score(value: object) -> float | None:
    return float(value) if isinstance(value, bool | int | float) else None


def _task(file: Path) -> str:
    match = NAME.fullmatch(file.name)
    return match["task"] if match else file.stem.removeprefix("samples_")


def _less_is_better(folder: Path) -> set[tuple[str, str]]:
    """(task, metric) of every metric that should be small, from all results files of a folder."""
    less: set[tuple[str, str]] = set()
    for file in sorted(folder.glob("results_*.json")):
        try:
            content: Any = json.loads(file.read_text(encoding="utf-8"))
            tasks = content.get("higher_is_better", {})
            less |= {(task, name) for task, names in tasks.items() for name, more in names.items() if more is False}
        except (OSError, ValueError, AttributeError):
            raise InputError(f"{file}: expected the results file of lm-eval") from None
    return less
