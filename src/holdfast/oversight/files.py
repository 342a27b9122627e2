"""Calibration rows, labelled answers and pools of samples from files, every fault with file, line and field."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from holdfast.config import InputError
from holdfast.data import BadField, Fields, read_table, take_text
from holdfast.data.fields import described
from holdfast.judging import Judge, verdicts
from holdfast.oversight.estimators import Pool


class CalibrationRows(NamedTuple):
    """Safety scores and labels, one row per prompt."""

    scores: list[float]
    unsafe: list[bool]
    num_left_out: int  # further rows of a prompt already seen: they would not be independent
    num_unscored: int = 0  # answers that the judge could not score


class _Labelled(NamedTuple):
    prompt: str | None
    response: str
    score: float
    unsafe: bool


class _Sample(NamedTuple):
    pool: str
    reward: float
    safe: bool
    gold: float | None


def read_calibration(path: Path, judge: Judge | None = None) -> CalibrationRows:
    """Rows with ``unsafe`` (the label) and ``score`` (safety, 0 to 1), or ``prompt`` and ``response`` for a judge to score.

    What a judge cannot score gets -inf: it passes at no threshold. Of several rows with one prompt the first counts.
    """
    rows = read_table(path, partial(_labelled, judged=judge is not None))
    first: dict[str | int, _Labelled] = {}
    for number, row in enumerate(rows):
        first.setdefault(number if row.prompt is None else row.prompt, row)
    kept = list(first.values())
    scores: Sequence[float | None] = [row.score for row in kept] if judge is None else _scored(judge, kept)
    return CalibrationRows(
        scores=[-math.inf if score is None else score for score in scores],
        unsafe=[row.unsafe for row in kept],
        num_left_out=len(rows) - len(kept),
        num_unscored=scores.count(None),
    )


def _scored(judge: Judge, rows: Sequence[_Labelled]) -> list[float | None]:
    said = verdicts(judge, [(row.prompt or "", row.response) for row in rows])
    scores = [None if verdict.safe is None else verdict.score for verdict in said]
    if scores.count(None) == len(scores):
        raise InputError(
            f"judge {judge.name}: scored not one of {len(rows)} answers, so it promises nothing: {said[0].reason}"
        )
    return scores


def _labelled(fields: Fields, *, judged: bool) -> _Labelled:
    unsafe = _take_bool(fields, "unsafe")
    if judged:
        return _Labelled(take_text(fields, "prompt"), take_text(fields, "response"), 0.0, unsafe)
    score, prompt = _take_number(fields, "score"), fields.get("prompt")
    if not 0 <= score <= 1:
        raise BadField("score", "a number from 0 to 1", str(score))
    return _Labelled(None if prompt is None else json.dumps(prompt), "", score, unsafe)


def read_labelled(path: Path) -> tuple[list[tuple[str, str]], list[bool]]:
    """Rows with ``prompt``, ``response`` and ``right``: what a reward is trained on."""
    rows = read_table(
        path, lambda row: (take_text(row, "prompt"), take_text(row, "response"), _take_bool(row, "right"))
    )
    return [(prompt, response) for prompt, response, _ in rows], [right for _, _, right in rows]


def read_pools(path: Path) -> dict[str, Pool]:
    """Rows with ``prompt`` (or another ``id``), ``reward``, ``safe`` and perhaps ``gold``: one pool per prompt, in order."""
    rows = read_table(path, _sample)
    without = sum(row.gold is None for row in rows)
    if 0 < without < len(rows):
        raise InputError(
            f"{path}: field 'gold': {without} of {len(rows)} rows lack it; give it in all of them or in none"
        )
    pools: dict[str, list[_Sample]] = {}
    for row in rows:
        pools.setdefault(row.pool, []).append(row)
    return {name: _pool(samples) for name, samples in pools.items()}


def _sample(fields: Fields) -> _Sample:
    name = next((str(value) for key in ("id", "prompt") if (value := fields.get(key)) is not None), "")
    if not name:
        raise BadField("prompt", "what says which samples belong together", "nothing")
    gold = None if fields.get("gold") is None else _take_number(fields, "gold")
    return _Sample(name, _take_number(fields, "reward"), _take_bool(fields, "safe"), gold)


def _pool(samples: Sequence[_Sample]) -> Pool:
    gold = [draw.gold for draw in samples if draw.gold is not None]
    return Pool(tuple(draw.reward for draw in samples), tuple(draw.safe for draw in samples), tuple(gold) or None)


def _take_bool(fields: Fields, name: str) -> bool:
    value = fields.get(name)
    if isinstance(value, bool):
        return value
    raise BadField(name, "true or false", described(fields, name))


def _take_number(fields: Fields, name: str) -> float:
    value = fields.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise BadField(name, "a number", described(fields, name))
