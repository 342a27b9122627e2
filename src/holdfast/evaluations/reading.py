"""Which program wrote an evaluation, and its scores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, SupportsFloat, SupportsIndex

from holdfast.config import InputError
from holdfast.data import BadField, Fields, as_table, read_answer_lines, read_audit, read_table, table_name
from holdfast.data.fields import describe, described
from holdfast.evaluations.evaluation import Direction, Evaluation, Trial, scores_of
from holdfast.evaluations.inspect_logs import is_inspect_log, read_inspect
from holdfast.evaluations.lm_eval_samples import read_lm_eval, samples_files
from holdfast.records import AuditResult, Figure, suite_of

EXPECTED = (
    "expected an audit's folder, lm-eval's samples_*.jsonl or their folder, an inspect log (.eval, .json), "
    "or rows with id and score (.jsonl, .json, .csv, .parquet)"
)


def read_evaluation(source: object) -> Evaluation:
    """Read what ``source`` names or is.

    A path: the folder of an audit, or its ``audit.json``; a folder or file of lm-eval's samples; a log of inspect, or a folder
    of its logs; a table of rows with ``id`` and ``score``, or ``id`` and ``scores`` (an object: figure -> score). In Python
    also: an ``Audit``, a finished run (its folder's audit), rows as dicts, or a mapping from item to score.
    Raises ``InputError`` for anything else.
    """
    if isinstance(run := getattr(source, "run", None), Path):
        source = run
    if isinstance(source, Evaluation):
        return source
    if isinstance(source, AuditResult):
        return _audit(source, (), source.model)
    result = getattr(source, "result", None)
    if isinstance(result, AuditResult):
        return _audit(result, getattr(source, "answers", ()), result.model)
    if isinstance(source, Mapping):
        return _table([{"id": str(item), "score": score} for item, score in source.items()])
    if isinstance(source, str | Path):
        return _path(Path(source).expanduser())
    if isinstance(source, Iterable):
        return _table(source)
    raise InputError(f"compare: a value of type {type(source).__name__}; {EXPECTED}")


def _path(path: Path) -> Evaluation:
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if path.is_dir() and (path / "audit.json").exists():
        return _audit(read_audit(path / "audit.json"), _answers(path / "completions.jsonl"), str(path))
    if files := samples_files(path):
        return read_lm_eval(files, str(path))
    if path.is_dir():
        logs = sorted({*path.glob("*.eval"), *(log for log in path.glob("*.json") if is_inspect_log(log))})
        if logs:
            return read_inspect(logs, str(path))
        if (path / "config.yaml").exists():
            raise InputError(
                f"{path}: this run has no audit yet; write one with hf.audit(model, out=run), or `holdfast audit`"
            )
        raise InputError(f"{path}: nothing here is an evaluation; {EXPECTED}")
    if path.name == "audit.json":
        return _audit(read_audit(path), _answers(path.with_name("completions.jsonl")), str(path))
    return read_inspect([path], str(path)) if is_inspect_log(path) else _table(path)


def _table(source: Path | Iterable[Mapping[str, object]]) -> Evaluation:
    table = as_table(source)
    name = str(source) if isinstance(source, Path) else "memory"
    trials: dict[str, list[Trial]] = {}
    for item, scores in read_table(table, _row):
        for figure, score in scores.items():
            trials.setdefault(figure, []).append(Trial(item, score))
    figures = {figure: scores_of(rows, "more", f"{table_name(table)}, {figure}") for figure, rows in trials.items()}
    return Evaluation(name, figures)


def _row(fields: Fields) -> tuple[str, dict[str, float]]:
    item = fields.get("id")
    if isinstance(item, bool) or not isinstance(item, str | SupportsIndex) or item == "":
        raise BadField("id", "a string or a whole number", described(fields, "id"))
    scores = fields.get("scores")
    if isinstance(scores, Mapping) and scores:
        return str(item), {str(name): _number(f"scores.{name}", value) for name, value in scores.items()}
    return str(item), {"score": _number("score", fields.get("score"))}


def _number(field: str, value: object) -> float:
    if isinstance(value, str | SupportsFloat):
        try:
            return float(value)
        except (TypeError, ValueError, RuntimeError):  # arrays and tensors of several numbers
            pass
    raise BadField(field, "a number, true or false", describe(value))


def _answers(path: Path) -> list[dict[str, Any]]:
    return read_answer_lines(path) if path.exists() else []


def _audit(result: AuditResult, answers: Sequence[Mapping[str, Any]], source: str) -> Evaluation:
    """Figures that kept a score for every answer. Items are requests, by their hash."""
    by_suite: dict[str, list[str]] = {}
    for line in answers:
        by_suite.setdefault(str(line.get("suite")), []).append(str(line.get("request_sha256"))[:16])
    figures, notes = {}, []
    for figure in result.figures:
        if figure.better == "neither":
            continue
        try:
            scores = figure.by_row
        except ValueError:
            raise InputError(f"{source}: the scores of {figure.key} are not numbers; audit that model again") from None
        if not scores:
            notes.append(f"{figure.key}: not compared, because the audit has no score of each answer")
            continue
        better: Direction = "less" if figure.better == "less" else "more"
        rows = zip(_items(figure, len(scores), by_suite, result), scores, strict=True)
        trials = [Trial(item, score, content) for (item, content), score in rows]
        scored = scores_of(trials, better, f"{source}, {figure.key}")
        figures[figure.key] = replace(scored, is_part=": " in figure.name)
    judged = frozenset(figure.key for figure in result.figures if figure.can_err)
    return Evaluation(source, figures, tuple(notes), judged)


def _items(
    figure: Figure, num: int, by_suite: Mapping[str, Sequence[str]], result: AuditResult
) -> list[tuple[str, str]]:
    """Each answer's item, and what tells whether two audits asked the same there.

    A suite's own figures have an answer for each of its requests. Of a figure on part of a suite only the order is known: the
    rows must be the same, which the audit's fingerprints say.
    """
    suite = suite_of(figure.name, by_suite)
    if suite is not None and len(by_suite[suite]) == num:
        return [(item, item) for item in by_suite[suite]]
    rows_hash = hashlib.sha256(" ".join(result.fingerprints).encode()).hexdigest()[:16]
    return [(f"row {number}", rows_hash) for number in range(1, num + 1)]
