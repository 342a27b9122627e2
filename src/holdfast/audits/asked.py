"""A suite that was asked and scored, and its file: an interrupted audit goes on with the next suite."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from holdfast.audits.provenance import code_hash, model_hash, own_code
from holdfast.audits.suites import Scored, Suite, is_missing
from holdfast.data import atomic_text, fingerprint
from holdfast.judging import JUDGES
from holdfast.records import Agreement, Completion, Figure, Outcome

BESIDE_ROWS = ("kinds", "schemas", "tasks")
"""What suites hold beside their rows that decides figures: types of requests, tables of queries, tests of functions."""


@dataclass(frozen=True)
class AskedSuite:
    """A suite's results. ``lines`` are for ``completions.jsonl``: verdicts and hashes, and texts if answers are kept."""

    figures: tuple[Figure, ...]
    agreements: tuple[Agreement, ...]
    lines: tuple[dict[str, Any], ...]
    num_missing: int
    kl: tuple[tuple[float, ...], ...] = ()  # by answer and position
    outcomes: Mapping[str, tuple[Outcome | None, ...]] = field(default_factory=dict)  # by judge, of every answer
    untouched: Mapping[str, tuple[Outcome | None, ...]] = field(
        default_factory=dict
    )  # of the anchor's to harmless requests


def put_together(
    suite: Suite, completions: Sequence[Completion], scored: Scored, kl: Sequence[Sequence[float]], keep_answers: bool
) -> AskedSuite:
    """What is kept of a suite: its figures, and a line for every answer."""
    lines = [
        _line(suite.name, completion, verdicts, keep_answers)
        for completion, verdicts in zip(completions, scored.verdicts, strict=True)
    ]
    missing = sum(map(is_missing, completions))
    depth = tuple(tuple(row) for row in kl)
    return AskedSuite(scored.figures, scored.agreements, tuple(lines), missing, depth, scored.outcomes)


def _line(suite: str, completion: Completion, verdicts: dict[str, str], keep_answers: bool) -> dict[str, Any]:
    line: dict[str, Any] = {
        "suite": suite,
        "request_sha256": hashlib.sha256(completion.prompt.encode()).hexdigest(),
        "answer_sha256": hashlib.sha256(completion.text.encode()).hexdigest(),
        "finish_reason": completion.finish_reason,
        "verdicts": verdicts,
    }
    return {**line, "request": completion.prompt, "answer": completion.text} if keep_answers else line


def identity(model: str, anchor: str | None, settings: dict[str, Any]) -> dict[str, Any]:
    """What decides every suite's answers. Reads all weights: once for an audit, not once for a suite."""
    hashes = {"model": model_hash(model), "anchor": None if anchor is None else model_hash(anchor)}
    return {**hashes, "settings": settings, "code": code_hash(), "own_code": own_code(*JUDGES.values())}


def asked_path(folder: Path, suite: Suite, shared: dict[str, Any]) -> Path:
    """The file of a suite's answers. Its name is a hash of everything that decides what is in it."""
    judges = [judge.name for judge in getattr(suite, "judges", ())]
    beside = {name: repr(getattr(suite, name, ())) for name in BESIDE_ROWS}
    parts = {**shared, "suite": suite.name, "rows": fingerprint(suite.rows), "judges": judges, **beside}
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
    return folder / f"{suite.name}-{key}.json"


def write_asked(path: Path, done: AskedSuite) -> None:
    """Write a suite's answers, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_text(path) as file:
        figures = [figure.to_json() for figure in done.figures]
        agreements = [agreement.to_json() for agreement in done.agreements]
        json.dump({**asdict(done), "figures": figures, "agreements": agreements}, file)


def read_asked(path: Path) -> AskedSuite | None:
    """None if it is not there or cannot be read: then the suite is asked again."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return AskedSuite(
            figures=tuple(map(Figure.from_json, content["figures"])),
            agreements=tuple(map(Agreement.from_json, content["agreements"])),
            lines=tuple(content["lines"]),
            num_missing=content["num_missing"],
            kl=tuple(tuple(row) for row in content["kl"]),
            outcomes={judge: tuple(words) for judge, words in content["outcomes"].items()},
            untouched={judge: tuple(words) for judge, words in content["untouched"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
