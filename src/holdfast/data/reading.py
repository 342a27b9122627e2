"""Files, or a hub dataset, to traces: the format found and said aloud, every bad line reported."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.data.columns import HONOURED
from holdfast.data.fields import BadField, listed
from holdfast.data.folders import Shards, find_shards, is_glob, saved_folder, saved_rows, shard_rows
from holdfast.data.formats import Format, detect, unused_columns
from holdfast.data.hub import hub_rows, is_hub_name
from holdfast.data.problems import DataError, Problem
from holdfast.data.rows import Row, Rows, file_rows, memory_rows
from holdfast.records.traces import Trace, Turn

_CANONICAL = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Dataset:
    """The traces of one source, and what a reader should be told about them."""

    traces: tuple[Trace, ...]
    lines: tuple[int, ...]  # the line each trace starts on
    format: str
    sentence: str  # what was read, and how it was understood
    num_skipped: int
    problems: tuple[Problem, ...]  # of the lines that were skipped
    fingerprint: str
    source: str
    files: tuple[str, ...] = ()  # the file each trace stands in, where the source is several

    def where(self, trace: int) -> str:
        """``file:line`` of a trace."""
        return f"{self.files[trace] if self.files else self.source}:{self.lines[trace]}"


@dataclass(slots=True)
class _Raw:
    rows: list[Row] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    num_blank: int = 0
    cut: bool = False
    shards: Shards | None = None


@dataclass(slots=True)
class _Good:
    """What is kept of the good rows."""

    traces: list[Trace] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    unused: dict[str, None] = field(default_factory=dict)  # columns that are not read
    honoured: Counter[str] = field(default_factory=Counter)  # rows by column that changes their meaning


def read_traces(source: str | Path, *, skip_bad: int = 0, limit: int | None = None) -> Dataset:
    """Read every row of ``source``, or the first ``limit``; up to ``skip_bad`` bad ones are left out and counted.

    Raises ``DataError`` with all problems when there are more, when the file mixes formats, or when no row is left.
    """
    rows, shards = _open(source)
    return _dataset(str(source), _collect(rows, shards, limit), skip_bad)


def read_rows(rows: Iterable[Mapping[str, object]], *, skip_bad: int = 0, limit: int | None = None) -> Dataset:
    """The same for rows in memory: dicts as a line of a file has them. An iterator is drained.

    The source is named by count and contents (``memory: 47 rows, sha256 ...``), which is what a run's config keeps.
    """
    given = _dataset("memory", _collect(memory_rows(rows), None, limit), skip_bad)
    return replace(given, source=f"memory: {len(given.traces)} rows, sha256 {given.fingerprint[:16]}")


def traces_in_memory(traces: Iterable[Trace], kind: str = "rows") -> Dataset:
    """The same for rows that are traces already."""
    given = tuple(traces)
    digest = fingerprint(given)
    name = f"memory: {len(given)} {kind}, sha256 {digest[:16]}"
    return Dataset(given, tuple(range(1, len(given) + 1)), kind, name, 0, (), digest, name)


def _dataset(name: str, raw: _Raw, skip_bad: int) -> Dataset:
    assert skip_bad >= 0
    if not raw.rows:
        raise DataError([*raw.problems, *_no_rows(raw, name)])
    form = detect(raw.rows, name)
    if isinstance(form, Problem):
        raise DataError([*raw.problems, form])
    good = _convert(raw, form, name)
    traces = good.traces
    raw.problems.sort(key=lambda problem: (problem.source, problem.line or 0))
    if not traces:
        raw.problems += _no_rows(raw, name)
    if len(raw.problems) > skip_bad or any(problem.fatal for problem in raw.problems):
        raise DataError(raw.problems)
    return Dataset(
        traces=tuple(traces),
        lines=tuple(good.lines),
        format=form.name,
        sentence=_sentence(name, form, good, raw),
        num_skipped=len(raw.problems),
        problems=tuple(raw.problems),
        fingerprint=fingerprint(traces),
        source=name,
        files=tuple(good.files) if raw.shards else (),
    )


def fingerprint(traces: Iterable[Trace]) -> str:
    """SHA-256 of what the traces say, in order: the same whatever file they came from."""
    digest = hashlib.sha256()
    for trace in traces:
        digest.update(_CANONICAL.encode([_said(turn) for turn in trace.turns]).encode() + b"\n")
    return digest.hexdigest()


def _said(turn: Turn) -> list[object]:
    said: list[object] = [turn.speaker, [[part.role.label, part.text] for part in turn.segments]]
    return [*said, turn.fields] if turn.fields else said  # without fields, as it was before there were any


def _open(source: str | Path) -> tuple[Rows, Shards | None]:
    """The rows of a source, whatever kind it is; the files too, where it is several."""
    name = str(source)
    if (saved := saved_folder(name)) is not None:
        return saved_rows(*saved), None
    if isinstance(source, str) and is_hub_name(source):
        return hub_rows(source), None
    if Path(name).is_dir() or is_glob(name):
        shards = find_shards(name)
        return shard_rows(shards.files), shards
    return file_rows(Path(name)), None


def _collect(rows: Rows, shards: Shards | None, limit: int | None) -> _Raw:
    assert limit is None or limit > 0
    raw = _Raw(shards=shards)
    for item in rows:
        if isinstance(item, Row) and item.fields is None:
            raw.num_blank += 1
        elif len(raw.rows) + len(raw.problems) == limit:
            raw.cut = True
            break
        elif isinstance(item, Row):
            raw.rows.append(item)
        else:
            raw.problems.append(item)
    return raw


def _no_rows(raw: _Raw, source: str) -> list[Problem]:
    if any(problem.fatal for problem in raw.problems):
        return []  # that one says why
    got = "none that is good" if raw.problems else "only blank lines" if raw.num_blank else "an empty file"
    return [Problem(source, None, None, f"expected at least one row, got {got}", fatal=True)]


def _convert(raw: _Raw, form: Format, source: str) -> _Good:
    """Rows become traces one by one, and each is let go: a large file is never in memory twice."""
    good = _Good()
    raw.rows.reverse()
    while raw.rows:
        row = raw.rows.pop()
        fields = row.fields or {}
        try:
            good.traces.append(form.trace(fields))
        except BadField as error:
            raw.problems.append(Problem(row.file or source, row.line, error.field, str(error)))
            continue
        good.lines.append(row.line)
        good.files.append(row.file)
        good.unused.update(dict.fromkeys(unused_columns(form, fields)))
        good.honoured.update(key for key in HONOURED if fields.get(key))
    return good


def _sentence(source: str, form: Format, good: _Good, raw: _Raw) -> str:
    parts = [f"{source}: {_count(len(good.traces), 'row')} in the '{form.name}' format: {form.meaning}"]
    if raw.shards:
        parts.append(f"from {raw.shards.sentence}")
    parts += _honoured(good)
    if good.unused:
        parts.append(f"other columns ignored: {listed(good.unused)}")
    if raw.num_blank:
        parts.append(f"{_count(raw.num_blank, 'blank line')} passed over")
    if raw.problems:
        parts.append(f"{_count(len(raw.problems), 'bad line')} skipped")
    if raw.cut:
        parts.append("later rows not read")
    return "; ".join(parts)


def _honoured(good: _Good) -> list[str]:
    """What was done with columns that change the meaning of a row."""
    said = []
    for key in HONOURED:
        if num := good.honoured[key]:
            goes = "begins the conversation" if key == "system" else "goes to the chat template"
            said.append(f"'{key}' {goes} ({_count(num, 'row')})")
    with_fields = [turn.other_fields for trace in good.traces for turn in trace.turns if turn.fields]
    kinds = (("weight", "of weight 0"), ("tool_calls", "with tool calls"))
    counts = [f"{num} {kind}" for key, kind in kinds if (num := sum(key in more for more in with_fields))]
    return [*said, f"assistant turns that are context, not trained: {', '.join(counts)}"] if counts else said


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
