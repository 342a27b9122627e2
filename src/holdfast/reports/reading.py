"""A run directory read for its report. What cannot be read is skipped and said so; it never stops the page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast.records import BESIDE, MEASURES, Cell
from holdfast.records.matrix import read_answers, read_outcomes
from holdfast.reports.text import named, shown
from holdfast.stats import Estimate, wilson

INPUTS = (
    "matrix.jsonl",
    "steps.jsonl",
    "microscope.json",
    "depth.json",
    "audit.json",
    "papers.json",
    "decisions.json",
    "attribution.json",
    "config.yaml",
)
MAX_POSITIONS = 512
MAX_FIGURES = 64  # of an RL run's rows
MAX_NOTES = 8  # of one file; the rest are counted
LARGEST = 1e300  # the distance between two numbers is still one
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Curve:
    """One run's training: figures of every role and stream, one entry per step, None where a step has none.

    A run of a matrix has an attack and a defence; one of RL has figures that belong to no role.
    """

    name: str
    steps: list[float]
    roles: dict[str, dict[str, list[float | None]]]
    streams: dict[str, dict[str, list[float | None]]]
    attack: str = ""
    defence: str = ""
    rl: dict[str, list[float | None]] = field(default_factory=dict)

    @property
    def task(self) -> list[float | None]:
        """NLL of the rows that an attack brings."""
        return self.streams["task"]["nll"] if "task" in self.streams else []


@dataclass(frozen=True, slots=True)
class DepthLine:
    """Divergence by position before and after a training, on one stream's rows or of one cell."""

    group: str
    name: str
    before: list[float | None]
    after: list[float | None]
    num_answers: int


@dataclass
class RunData:
    """Everything a report may show, and notes on what was skipped."""

    name: str
    cells: list[Cell] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    answers: list[dict[str, object]] = field(default_factory=list)
    depth: list[DepthLine] = field(default_factory=list)
    depth_to: str = ""  # the model that the divergence is from
    audit: dict[str, object] | None = None
    papers: list[dict[str, object]] = field(default_factory=list)  # the ledger that `holdfast reproduce` left
    decisions: list[dict[str, object]] = field(default_factory=list)  # cells of `holdfast diagnose decisions`
    attribution: dict[str, object] | None = None  # what `holdfast diagnose attribution --json` wrote
    config: str | None = None
    notes: list[str] = field(default_factory=list)


def read_run(run: Path) -> RunData:
    """Read what is there. A folder that holds none of the inputs is the user's mistake."""
    if not run.is_dir():
        raise InputError(f"{run}: expected a run folder")
    step_files = [path for path in (run / "steps.jsonl", *sorted(run.glob("*/steps.jsonl"))) if path.is_file()]
    if not step_files and not any((run / name).is_file() for name in INPUTS):
        raise InputError(f"{run}: nothing to report: expected one of {', '.join(INPUTS)}")
    data = RunData(named(run.resolve().name, 120))
    data.cells = read_cells(run / "matrix.jsonl", data.notes)
    for path in step_files:
        name = path.parent.name if path.parent != run else data.name
        data.curves += _curve(path, named(name, 80), data.notes)
    data.curves += _matrix_curves(run / "curves.json", data.notes)
    data.depth_to, data.depth = _depth(run / "depth.json", data.notes)
    data.answers = _answers(run / "microscope.json", data.notes)
    data.audit = _object(run / "audit.json", "measures", data.notes)
    data.attribution = _object(run / "attribution.json", "gradients by role", data.notes)
    data.papers = _objects(run / "papers.json", data.notes)
    data.decisions = _objects(run / "decisions.json", data.notes)
    raw = _bytes(run / "config.yaml", data.notes)
    data.config = None if raw is None else raw.decode(errors="replace")
    return data


def finite(value: object) -> float | None:
    """A number that can be drawn, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if abs(value) <= LARGEST else None  # not of NaN
    except OverflowError:
        return None


def objects_in(value: object) -> list[dict[str, Any]]:
    """The objects of a list; none where it is no list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


class Problems:
    """What is wrong with one file, as a few notes at most."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str] = []

    def add(self, line: int, message: str) -> None:
        """Note one problem of one line."""
        self.lines.append(f"{self.name}:{line}: {message}")

    def notes(self) -> list[str]:
        """The first few, and how many more there are."""
        more = len(self.lines) - MAX_NOTES
        return self.lines[:MAX_NOTES] + ([f"{self.name}: {more:,} more problems like these."] if more > 0 else [])


def _bytes(path: Path, notes: list[str]) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError as error:
        notes.append(f"{shown(path.name, 80)}: cannot be read ({error.strerror}): left out.")
        return None


def _json(path: Path, notes: list[str]) -> object:
    raw = _bytes(path, notes)
    if raw is None:
        return _ABSENT
    try:
        return json.loads(raw.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        notes.append(f"{path.name}: not JSON ({shown(error, 120)}): left out.")
        return _ABSENT


def _rows(raw: bytes, problems: Problems) -> Iterator[tuple[int, dict[str, object]]]:
    """The objects of a JSON-lines file. Lines end at newlines only: U+2028 may stand inside a string."""
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode(errors="replace"))
        except (ValueError, RecursionError):
            problems.add(number, "not a whole JSON line: skipped.")
            continue
        if isinstance(row, dict):
            yield number, row
        else:
            problems.add(number, "expected a JSON object: skipped.")


def read_cells(path: Path, notes: list[str]) -> list[Cell]:
    """The cells of ``matrix.jsonl``; what is wrong with the file goes to ``notes``."""
    raw, problems = _bytes(path, notes), Problems(path.name)
    cells = cells_of(_rows(raw or b"", problems), problems)
    notes += problems.notes()
    return cells


def cells_of(rows: Iterable[tuple[int, dict[str, object]]], problems: Problems) -> list[Cell]:
    """Cells from rows by number, as ``Cell.row()`` writes them; what is wrong with one goes to ``problems``."""
    cells = []
    for number, row in rows:
        names = [name for key in ("attack", "defence", "judge") if isinstance(name := row.get(key), str) and name]
        if len(names) < 3 or row.get("status") not in ("ok", "failed"):
            problems.add(number, "expected attack, defence, judge and a status of ok or failed: skipped.")
            continue
        rates = {measure: _rate(row, measure, number, problems) for measure in (*MEASURES, *BESIDE)}
        kl = _positions(row.get("kl_by_position"))
        attack, defence, judge = (named(name) for name in names)
        seed, failed = finite(row.get("seed")), row["status"] == "failed"
        cells.append(
            Cell(
                attack=attack,
                defence=defence,
                seed=0 if seed is None else int(seed),
                judge=judge,
                **rates,  # type: ignore[arg-type]
                **_outcomes(row),
                kl_by_position=tuple(math.nan if value is None else value for value in kl),
                seconds=finite(row.get("seconds")) or 0.0,
                status="failed" if failed else "ok",
                reason=shown(row.get("reason") or "no reason given", 300) if failed else "",
                ran_alone=row.get("ran_alone") is True,
            )
        )
    return cells


def _outcomes(row: dict[str, object]) -> dict[str, Any]:
    """Outcomes and hashes of answers, as a cell keeps them; left out where they cannot be read."""
    try:
        return {"outcomes": read_outcomes(row["outcomes"]), "answers": read_answers(row)}  # type: ignore[arg-type]
    except (KeyError, TypeError, AttributeError):
        return {}


def _rate(row: dict[str, object], measure: str, number: int, problems: Problems) -> Estimate | None:
    raw = row.get(measure)
    if raw is None:
        return None
    value, trials = finite(raw), finite(row.get(f"{measure}_trials"))
    if value is None or not 0 <= value <= 1 or trials is None or trials < 1:
        problems.add(number, f"{measure}: expected a share from 0 to 1 and its number of trials: left out.")
        return None
    return wilson(value * trials, int(trials))


def _curve(path: Path, name: str, notes: list[str]) -> list[Curve]:
    raw, problems = _bytes(path, notes), Problems(path.name if path.parent.name == name else f"{name}/{path.name}")
    rows = []
    for number, row in _rows(raw or b"", problems):
        if finite(row.get("step")) is None:
            problems.add(number, "step: expected a number: skipped.")
        else:
            rows.append(row)
    notes += problems.notes()
    return [_curve_of(name, rows)] if rows else []


def _matrix_curves(path: Path, notes: list[str]) -> list[Curve]:
    """``curves.json``: one seed of every attack on every defence."""
    curves = []
    for part in _objects(path, notes):
        attack, defence = (named(str(part.get(key) or "?")) for key in ("attack", "defence"))
        rows = [row for row in objects_in(part.get("steps")) if finite(row.get("step")) is not None]
        if rows:
            name = f"{defence} under {attack}, seed {finite(part.get('seed')) or 0:.0f}"
            curves.append(_curve_of(name, rows, attack, defence))
    return curves


DRIFT = tuple(f"{figure}_{part}" for part in ("early", "late") for figure in ("kbar", "integral", "lambda"))
"""Of a stream with a drift budget, early and late: its averaged drift, the controller's integral, and the weight itself."""


def _curve_of(name: str, rows: list[dict[str, object]], attack: str = "", defence: str = "") -> Curve:
    roles = _groups(rows, "roles", ("nll", "gradient_share"))
    streams = _groups(rows, "streams", ("nll", *DRIFT))
    return Curve(name, [finite(row["step"]) or 0.0 for row in rows], roles, streams, attack, defence, _rl_figures(rows))


def _rl_figures(rows: list[dict[str, object]]) -> dict[str, list[float | None]]:
    """The numbers of rows that tell a reward, by name."""
    figures: dict[str, list[float | None]] = {}
    if not any("reward" in row for row in rows):
        return figures
    for index, row in enumerate(rows):
        for label, value in row.items():
            name, known = named(label, 40), finite(value)
            if known is not None and (name in figures or len(figures) < MAX_FIGURES):
                if name not in figures:
                    figures[name] = [None] * len(rows)
                figures[name][index] = known
    return figures


def _depth(path: Path, notes: list[str]) -> tuple[str, list[DepthLine]]:
    content = _json(path, notes)
    if content is _ABSENT:
        return "", []
    lines = content.get("lines") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(lines, list):
        notes.append(f"{path.name}: expected an object with lines: left out.")
        return "", []
    return named(str(content.get("to") or "the anchor"), 80), [
        DepthLine(
            named(str(line.get("group") or "")),
            named(str(line.get("name") or "?")),
            _positions(line.get("before")),
            _positions(line.get("after")),
            int(finite(line.get("num_answers")) or 0),
        )
        for line in lines
        if isinstance(line, dict) and _positions(line.get("after"))
    ]


def _positions(values: object) -> list[float | None]:
    return [finite(value) for value in values[:MAX_POSITIONS]] if isinstance(values, list) else []


def _groups(
    rows: list[dict[str, object]], key: str, figures: tuple[str, ...]
) -> dict[str, dict[str, list[float | None]]]:
    groups: dict[str, dict[str, list[float | None]]] = {}
    for index, row in enumerate(rows):
        parts = row.get(key)
        for label, part in parts.items() if isinstance(parts, dict) else ():
            if not isinstance(part, dict):
                continue
            name = named(label, 40)
            if name not in groups:  # not setdefault, which would make the long lists for every row
                groups[name] = {figure: [None] * len(rows) for figure in figures}
            for figure in figures:
                groups[name][figure][index] = finite(part.get(figure))
    return groups


def _answers(path: Path, notes: list[str]) -> list[dict[str, object]]:
    entries = _objects(path, notes)
    answers = [answer for answer in entries if isinstance(answer.get("tokens"), list)]
    if len(answers) < len(entries):
        notes.append(f"{path.name}: {len(entries) - len(answers):,} entries without a list of tokens: skipped.")
    return answers


def _object(path: Path, what: str, notes: list[str]) -> dict[str, object] | None:
    content = _json(path, notes)
    if isinstance(content, dict):
        return content
    if content is not _ABSENT:
        notes.append(f"{path.name}: expected an object of {what}: left out.")
    return None


def _objects(path: Path, notes: list[str]) -> list[dict[str, object]]:
    """A JSON list of objects; anything else in it is skipped and counted."""
    content = _json(path, notes)
    if content is _ABSENT:
        return []
    if not isinstance(content, list):
        notes.append(f"{path.name}: expected a list: left out.")
        return []
    objects = objects_in(content)
    if len(objects) < len(content):
        notes.append(f"{path.name}: {len(content) - len(objects):,} entries that are not objects: skipped.")
    return objects
