"""Calibration rows and pools of samples from JSONL, every fault with file, line and field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.config import InputError
from holdfast.judging import Judge
from holdfast.oversight.estimators import Pool


class CalibrationRows(NamedTuple):
    """Safety scores and labels, one row per prompt."""

    scores: list[float]
    unsafe: list[bool]
    num_left_out: int  # further rows of a prompt already seen: they would not be independent


def read_calibration(path: Path, judge: Judge | None = None) -> CalibrationRows:
    """Rows with ``unsafe`` (the label) and ``score`` (safety, 0 to 1), or ``prompt`` and ``response`` for a judge to score.

    What a judge cannot score gets 0: it would not pass. Of several rows with one prompt the first counts.
    """
    scores, unsafe, seen, num_left_out = [], [], set(), 0
    for place, row in _rows(path):
        prompt = row.get("prompt")
        if prompt is not None and prompt in seen:
            num_left_out += 1
            continue
        seen.add(prompt)
        label = _field(row, "unsafe", bool, place)
        if judge is None:
            score = float(_field(row, "score", float, place))
            if not 0 <= score <= 1:
                raise InputError(f"{place}: field 'score': expected a number from 0 to 1, got {score}")
        else:
            verdict = judge(_field(row, "prompt", str, place), _field(row, "response", str, place))
            score = 0.0 if verdict.score is None or verdict.safe is None else verdict.score
        scores.append(score)
        unsafe.append(bool(label))
    if not scores:
        raise InputError(f"{path}: there are no rows")
    return CalibrationRows(scores, unsafe, num_left_out)


def read_labelled(path: Path) -> tuple[list[tuple[str, str]], list[bool]]:
    """Rows with ``prompt``, ``response`` and ``right``: what a reward is trained on."""
    rows = list(_rows(path))
    pairs = [(str(_field(row, "prompt", str, place)), str(_field(row, "response", str, place))) for place, row in rows]
    return pairs, [bool(_field(row, "right", bool, place)) for place, row in rows]


def read_pools(path: Path) -> dict[str, Pool]:
    """Rows with ``prompt`` (or another ``id``), ``reward``, ``safe`` and perhaps ``gold``: one pool per prompt, in order."""
    rows: dict[str, list[tuple[float, bool, float | None]]] = {}
    for place, row in _rows(path):
        name = str(row.get("id", row.get("prompt", "")))
        if not name:
            raise InputError(f"{place}: field 'prompt': missing; it says which samples belong together")
        gold = float(_field(row, "gold", float, place)) if row.get("gold") is not None else None
        reward, safe = _field(row, "reward", float, place), _field(row, "safe", bool, place)
        rows.setdefault(name, []).append((float(reward), bool(safe), gold))
    if not rows:
        raise InputError(f"{path}: there are no rows")
    return {name: _pool(samples) for name, samples in rows.items()}


def _pool(samples: list[tuple[float, bool, float | None]]) -> Pool:
    rewards, safe, gold = zip(*samples, strict=True)
    return Pool(rewards, safe, None if None in gold else gold)


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}:{number}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise InputError(f"{path}:{number}: expected an object")
        yield f"{path}:{number}", row


def _field(row: dict[str, Any], name: str, kind: type, place: str) -> Any:
    value = row.get(name)
    right = isinstance(value, int | float) and not isinstance(value, bool) if kind is float else isinstance(value, kind)
    if not right:
        words = {bool: "true or false", float: "a number", str: "text"}[kind]
        raise InputError(f"{place}: field '{name}': expected {words}, got {json.dumps(value)[:60]}")
    return value
