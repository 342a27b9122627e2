"""Files, or a hub dataset, to traces. The format is recognised and reported, and so is every bad line."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.config import InputError
from holdfast.data.columns import HONOURED
from holdfast.data.default_prompts import PREFIX
from holdfast.data.fields import BadField, counted, listed
from holdfast.data.folders import Shards, find_shards, is_glob, saved_folder, saved_rows, shard_rows
from holdfast.data.formats import Format, FormatVote, unused_columns
from holdfast.data.hub import hub_rows, is_hub_name
from holdfast.data.problems import DataError, Problem
from holdfast.data.rows import Row, Rows, file_rows, memory_rows
from holdfast.data.stored_traces import StoredTraces, fingerprint
from holdfast.records.traces import Trace

CONTEXT_FIELDS = {"weight": "of weight 0", "tool_calls": "with tool calls"}


@dataclass(frozen=True, slots=True)
class Dataset:
    """The traces of one source, and what a reader should be told about them."""

    traces: Sequence[Trace]  # those of a source are made anew whenever they are asked for
    lines: Sequence[int]  # the line each trace starts on
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


class _Reading:
    """Rows of one source become traces as they go by, and are let go; what is to be told about them is counted."""

    def __init__(self, source: str, shards: Shards | None = None) -> None:
        self.source, self.shards = source, shards
        self.vote = FormatVote()
        self.waiting: list[Row] = []  # those before the first row that has a format
        self.traces = StoredTraces()
        self.lines, self.files = array("q"), list[str]()
        self.unused: dict[str, None] = {}  # columns that are not read
        self.honoured: Counter[str] = Counter()  # rows by column that changes their meaning
        self.turns: Counter[str] = Counter()  # by field that makes an answer context
        self.not_rows: list[Problem] = []
        self.bad_rows: list[Problem] = []
        self.num_blank = 0
        self.cut = False

    def take(self, rows: Rows, limit: int | None) -> None:
        """Go through all rows, or the first ``limit``, bad ones included."""
        assert limit is None or limit > 0
        num_taken = 0
        for item in rows:
            if isinstance(item, Row) and item.fields is None:
                self.num_blank += 1
                continue
            if num_taken == limit:
                self.cut = True
                break
            num_taken += 1
            if isinstance(item, Row):
                self._vote(item)
            else:
                self.not_rows.append(item)

    def _vote(self, row: Row) -> None:
        """A row is converted when the format is known. Of a source with two formats no row is: it is refused at the end."""
        self.vote.add(row)
        self.waiting.append(row)
        if self.vote.is_mixed:
            self.waiting.clear()
        elif self.vote.format is not None:
            for waiting in self.waiting:
                self._convert(waiting, self.vote.format)
            self.waiting.clear()

    def _convert(self, row: Row, form: Format) -> None:
        fields = row.fields or {}
        try:
            trace = form.trace(fields)
        except BadField as error:
            self.bad_rows.append(Problem(row.file or self.source, row.line, error.field, str(error)))
            return
        self.traces.append(trace)
        self.lines.append(row.line)
        if self.shards:
            self.files.append(row.file)
        self.unused.update(dict.fromkeys(unused_columns(form, fields)))
        self.honoured.update(key for key in HONOURED if (value := fields.get(key)) and str(value).strip())
        for turn in trace.turns:
            if turn.fields:
                self.turns.update(key for key in turn.other_fields if key in CONTEXT_FIELDS)

    def dataset(self, skip_bad: int) -> Dataset:
        """The good rows. Raises ``DataError`` with all problems, in the order of the lines."""
        assert skip_bad >= 0
        if not self.vote.num_rows:
            raise DataError([*self.not_rows, *self._no_rows(self.not_rows)])
        form = self.vote.format
        if form is None:
            raise DataError([*self.not_rows, self.vote.problem(self.source)])
        problems = sorted([*self.not_rows, *self.bad_rows], key=lambda problem: (problem.source, problem.line or 0))
        if not self.traces:
            problems += self._no_rows(problems)
        if len(problems) > skip_bad or any(problem.fatal for problem in problems):
            raise DataError(problems)
        return Dataset(
            traces=self.traces,
            lines=self.lines,
            format=form.name,
            sentence=self._sentence(form, len(problems)),
            num_skipped=len(problems),
            problems=tuple(problems),
            fingerprint=self.traces.fingerprint,
            source=self.source,
            files=tuple(self.files),
        )

    def _no_rows(self, problems: Sequence[Problem]) -> list[Problem]:
        if any(problem.fatal for problem in problems):
            return []  # that one says why
        got = "none that is good" if problems else "only blank lines" if self.num_blank else "none"
        return [Problem(self.source, None, None, f"expected at least one row, got {got}", fatal=True)]

    def _sentence(self, form: Format, num_bad: int) -> str:
        parts = [f"{self.source}: {counted(len(self.traces), 'row')} in the '{form.name}' format: {form.meaning}"]
        if self.shards:
            parts.append(f"from {self.shards.sentence}")
        parts += self._meant()
        if self.unused:
            parts.append(f"other columns ignored: {listed(self.unused)}")
        if self.num_blank:
            parts.append(f"{counted(self.num_blank, 'blank line')} passed over")
        if num_bad:
            parts.append(f"{counted(num_bad, 'bad line')} skipped")
        if self.cut:
            parts.append("later rows not read")
        return "; ".join(parts)

    def _meant(self) -> list[str]:
        """What was done with columns that change the meaning of a row."""
        said = []
        for key in HONOURED:
            if num := self.honoured[key]:
                goes = "begins the conversation" if key == "system" else "goes to the chat template"
                said.append(f"'{key}' {goes} ({counted(num, 'row')})")
        counts = [f"{num} {kind}" for key, kind in CONTEXT_FIELDS.items() if (num := self.turns[key])]
        return [*said, f"assistant turns that are context, not trained: {', '.join(counts)}"] if counts else said


def read_traces(source: str | Path, *, skip_bad: int = 0, limit: int | None = None) -> Dataset:
    """Read every row of ``source``, or the first ``limit``; up to ``skip_bad`` bad ones are left out and counted.

    Raises ``DataError`` with all problems when there are more, when the file mixes formats, or when no row is left.
    """
    rows, shards = _open(source)
    return _dataset(str(source), rows, shards, limit, skip_bad)


def read_rows(rows: Iterable[Mapping[str, object]], *, skip_bad: int = 0, limit: int | None = None) -> Dataset:
    """Read rows in memory, dicts as a line of a file has them, as ``read_traces`` does. An iterator is drained.

    The source is named by count and contents (``memory: 47 rows, sha256 ...``), which is what a run's config keeps.
    """
    for name, value, least in (("limit", limit, 1), ("skip_bad", skip_bad, 0)):
        if value is not None and value < least:
            raise InputError(f"memory: {name}: expected {least} or more, got {value}")
    given = _dataset("memory", memory_rows(rows), None, limit, skip_bad)
    return replace(given, source=f"memory: {len(given.traces)} rows, sha256 {given.fingerprint[:16]}")


def traces_in_memory(traces: Iterable[Trace], kind: str = "rows") -> Dataset:
    """A dataset of rows that are traces already."""
    given = tuple(traces)
    digest = fingerprint(given)
    name = f"memory: {len(given)} {kind}, sha256 {digest[:16]}"
    return Dataset(given, tuple(range(1, len(given) + 1)), kind, name, 0, (), digest, name)


def _open(source: str | Path) -> tuple[Rows, Shards | None]:
    """The rows of a source, whatever kind it is; the files too, where it is several."""
    name = str(source)
    if not name:
        raise InputError("data: expected a file, a folder or the name of a dataset, got an empty text")
    if name.startswith(PREFIX):
        raise InputError(f"{name}: requests only, which your model answers when training begins; it has no rows yet")
    if (saved := saved_folder(name)) is not None:
        return saved_rows(*saved), None
    if isinstance(source, str) and is_hub_name(source):
        return hub_rows(source), None
    if Path(name).is_dir() or is_glob(name):
        shards = find_shards(name)
        return shard_rows(shards.files), shards
    return file_rows(Path(name)), None


def _dataset(source: str, rows: Rows, shards: Shards | None, limit: int | None, skip_bad: int) -> Dataset:
    reading = _Reading(source, shards)
    reading.take(rows, limit)
    return reading.dataset(skip_bad)
