"""inspect's logs, ``.eval`` and ``.json``, read with the library that wrote them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast.config.extras import need_extra
from holdfast.evaluations.evaluation import Direction, Evaluation, Trial, scores_of


def is_inspect_log(path: Path) -> bool:
    """Whether a file is named or begins like a log of inspect."""
    if path.suffix == ".eval":
        return True
    if path.suffix != ".json":
        return False
    try:
        with path.open(encoding="utf-8") as file:
            begin = file.read(4096)
    except (OSError, UnicodeDecodeError):
        return False
    return begin.lstrip().startswith("{") and '"version"' in begin and '"eval"' in begin


def read_inspect(logs: Sequence[Path], source: str) -> Evaluation:
    """Every scorer's values that are one number, or a letter that inspect counts as one (C, P, I, N).

    A scorer that gives several values is a figure for each. Epochs of a sample, and several logs of a task, are repeats.
    """
    need_extra("inspect", f"{source}: a log of inspect", "inspect_ai")
    trials: dict[str, list[Trial]] = {}
    skipped: dict[str, None] = {}
    directions: dict[str, Direction] = {}
    for path in logs:
        log = _read(path)
        if log.status != "success":
            skipped[f"{path.name}: the evaluation ended with status '{log.status}'; what it scored is compared"] = None
        for sample in log.samples or []:
            content = hashlib.sha256(_text(sample.input).encode()).hexdigest()[:16]
            for name, value, less in _values(sample.scores or {}):
                figure = f"{log.eval.task}/{name}"
                directions[figure] = "less" if less else "more"
                if value is None:
                    skipped[f"{figure}: not one number per item"] = None
                else:
                    trials.setdefault(figure, []).append(Trial(str(sample.id), value, content))
    figures = {name: scores_of(rows, directions[name], f"{source}, {name}") for name, rows in trials.items()}
    return Evaluation(source, figures, tuple(skipped))


def _read(path: Path) -> Any:
    from inspect_ai.log import read_eval_log

    try:
        return read_eval_log(str(path))
    except Exception as error:
        reason = str(error).partition("\n")[0][:200] or type(error).__name__
        raise InputError(f"{path}: inspect cannot read it: {reason}") from None


def _text(prompt: Any) -> str:
    if isinstance(prompt, str):
        return prompt
    return json.dumps([[message.role, message.text] for message in prompt])


def _values(scores: dict[str, Any]) -> Iterator[tuple[str, float | None, bool]]:
    """Figure, value, and whether less of it is better: our own logs say so, inspect has no word for it."""
    for scorer, score in scores.items():
        less = (score.metadata or {}).get("better") == "less"
        if isinstance(score.value, dict):
            for key, value in score.value.items():
                yield f"{scorer}/{key}", _number(value), less
        else:
            yield scorer, _number(score.value), less


LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""What inspect's own accuracy counts for its letters: correct, partly, incorrect, no answer."""


def _number(value: Any) -> float | None:
    if isinstance(value, bool | int | float):
        return float(value)
    return LETTERS.get(value) if isinstance(value, str) else None
