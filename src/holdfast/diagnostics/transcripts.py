"""Responses with their reference answers, from the logs people have: plain JSONL, TRL, verl, lm-eval, inspect."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.config import InputError, did_you_mean
from holdfast.config.arguments import fitting
from holdfast.config.errors import refuse_unknown
from holdfast.data import DataError, Problem, given_rows
from holdfast.data.fields import describe
from holdfast.data.rows import Row, file_rows

RESPONSES = ("response", "completion", "output", "generation", "text")
REFERENCES = ("reference", "answer", "target", "ground_truth", "gts", "solution", "label")
PROMPTS = ("prompt", "question", "input", "problem", "query")
CUT_OFF = ("length", "max_tokens", "model_length")
Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Transcript:
    """One response. ``ended`` is None where the log does not say whether it was cut off.

    ``problem`` tells which responses belong together. ``prompt`` is what was asked: empty where the log does not say it, None
    where ``problem`` is it.
    """

    problem: str
    response: str
    reference: str
    ended: bool | None = None
    group: str = ""
    prompt: str | None = None

    @property
    def asked(self) -> str:
        """What the response answers; empty where nobody knows."""
        return self.problem if self.prompt is None else self.prompt


class Transcripts(NamedTuple):
    """What a file holds, and a sentence about how it was understood."""

    transcripts: tuple[Transcript, ...]
    sentence: str


@dataclass(frozen=True)
class Columns:
    """Which columns to read; None: the first of the usual names that is there."""

    response: str | None = None
    reference: str | None = None
    problem: str | None = None
    group: str | None = None


Source = str | Path | Iterable[Mapping[str, Any] | Transcript]
"""A file, or rows in memory: dicts with the columns of such a file, or transcripts."""


def as_columns(given: Columns | Mapping[str, str] | None) -> Columns:
    """The columns, or ``InputError`` for names of others."""
    if isinstance(given, Columns | None):
        return given or Columns()
    if not isinstance(given, Mapping):
        raise InputError(f'columns=: expected {{"response": "NAME"}}, got a value of type {type(given).__name__}')
    refuse_unknown("columns=", given, Columns.__dataclass_fields__)
    return Columns(**{name: fitting("columns", name, column, "str | None") for name, column in given.items()})


def read_transcripts(source: Source, columns: Columns | Mapping[str, str] | None = None) -> Transcripts:
    """Every response of a file or of rows in memory; rows that lack a response or a reference are all named."""
    columns = as_columns(columns)
    if isinstance(source, str | Path):
        path, file = str(source), Path(source).expanduser()
        if not file.exists():
            raise InputError(f"{path}: no such file")
        kind, rows = _rows(file)
    else:
        given = given_rows(source, "transcripts")
        ready = tuple(row for row in given if isinstance(row, Transcript))
        if given and len(ready) == len(given):
            return Transcripts(ready, f"{len(ready)} responses in memory")
        path = "rows in memory"
        kind, rows = _shape(list(enumerate(given, 1)))
    convert = _SHAPES[kind]
    transcripts: list[Transcript] = []
    problems: list[Problem] = []
    for number, fields in rows:
        try:
            if not isinstance(fields, dict):
                raise _Missing("samples" if kind == "inspect log" else None, f"expected a dict, got {describe(fields)}")
            one = convert(fields, columns)
            if not one.reference.strip():
                raise _Missing("reference", "expected a reference answer, got nothing")
            transcripts.append(one if one.problem else replace(one, problem=f"row {number}"))  # unnamed: each by itself
        except _Missing as missing:
            problems.append(Problem(path, number, missing.field, missing.message))
    if problems:
        raise DataError(problems)
    if not transcripts:
        raise InputError(f"{path}: no responses in it")
    unknown = sum(transcript.ended is None for transcript in transcripts)
    note = f"; {unknown} do not say whether they were cut off: taken as ended" if unknown else ""
    return Transcripts(tuple(transcripts), f"{path}: {len(transcripts)} responses ({kind}){note}")


class _Missing(Exception):  # noqa: N818  (it never leaves this module: it becomes a Problem)
    def __init__(self, field: str | None, message: str) -> None:
        self.field, self.message = field, message


def _rows(path: Path) -> tuple[str, list[tuple[int, Fields]]]:
    inspect = _inspect_samples(path)
    if inspect is not None:
        return "inspect log", list(enumerate(inspect, 1))
    rows: list[tuple[int, Fields]] = []
    problems: list[Problem] = []
    for item in file_rows(path):
        if isinstance(item, Problem):
            problems.append(item)
        elif isinstance(item, Row) and item.fields is not None:
            rows.append((item.line, item.fields))
    if problems:
        raise DataError(problems)
    return _shape(rows)


def _shape(rows: list[tuple[int, Fields]]) -> tuple[str, list[tuple[int, Fields]]]:
    """Whose rows they are, by their columns."""
    first = rows[0][1] if rows and isinstance(rows[0][1], Mapping) else {}
    if "resps" in first and "doc" in first:
        return "lm-eval samples", _one_filter(rows)
    if "gts" in first and "output" in first:
        return "verl rollouts", rows
    if "completion" in first and ("advantage" in first or isinstance(first.get("completion"), list)):
        return "TRL completions", rows
    return "plain rows", rows


def _inspect_samples(path: Path) -> list[Fields] | None:
    """The samples of an inspect log: a zip named .eval, or one JSON object that holds them."""
    try:
        if path.suffix == ".eval":
            with zipfile.ZipFile(path) as archive:
                names = sorted(name for name in archive.namelist() if name.startswith("samples/"))
                return [json.loads(archive.read(name)) for name in names]
        if path.suffix == ".json":
            whole = json.loads(path.read_bytes())
            if isinstance(whole, dict) and "samples" in whole and "eval" in whole:
                return whole["samples"] if isinstance(whole["samples"], list) else []
    except (ValueError, zipfile.BadZipFile, NotImplementedError) as error:
        if path.suffix == ".eval":
            raise InputError(f"{path}: not an inspect log that can be read: {error}") from None
    return None


def _one_filter(rows: list[tuple[int, Fields]]) -> list[tuple[int, Fields]]:
    """lm-eval writes a response once per filter (strict-match, flexible-extract): it is one response all the same."""
    first = rows[0][1].get("filter")
    return [row for row in rows if row[1].get("filter") == first]


def _plain(fields: Fields, columns: Columns) -> Transcript:
    response = _text(_find(fields, columns.response, RESPONSES, "response"))
    reference = _text(_find(fields, columns.reference, REFERENCES, "reference"))
    prompt = _prompt(fields)
    problem = prompt if columns.problem is None else _text(_named(fields, columns.problem))
    return Transcript(problem, response, reference, _ended(fields), _group(fields, columns), prompt)


def _lm_eval(fields: Fields, columns: Columns) -> Transcript:
    response, doc = fields.get("resps"), fields.get("doc")
    while isinstance(response, list) and response:
        response = response[0]
    reference = fields.get(columns.reference or "target")
    if reference is None:
        reference = _find(doc if isinstance(doc, dict) else {}, columns.reference, REFERENCES, "reference")
    problem, group = str(fields.get("doc_id", "")), _group(fields, columns)
    return Transcript(problem, _text(response), _text(reference), None, group, _lm_eval_prompt(fields, doc))


def _lm_eval_prompt(fields: Fields, doc: Any) -> str:
    """The first argument of the request, as lm-eval logs it; without that the question of the document."""
    arguments = fields.get("arguments")
    first = next(iter(arguments.values()), None) if isinstance(arguments, dict) else None
    if isinstance(first, dict) and isinstance(first.get("arg_0"), str):
        return str(first["arg_0"])
    return _prompt(doc if isinstance(doc, dict) else {})


def _inspect(fields: Fields, columns: Columns) -> Transcript:
    output = fields.get("output")
    choices = output.get("choices") if isinstance(output, dict) else None
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    reason = first.get("stop_reason")
    return Transcript(
        str(fields.get("id", "")),
        _text(first.get("message")),
        _text(_find(fields, columns.reference, ("target",), "reference")),
        None if reason in (None, "unknown") else reason not in CUT_OFF,
        _group({**fields, **(fields.get("metadata") or {})}, columns),
        _text(fields.get("input")),
    )


_SHAPES: dict[str, Callable[[Fields, Columns], Transcript]] = {
    "plain rows": _plain,
    "TRL completions": _plain,
    "verl rollouts": _plain,
    "lm-eval samples": _lm_eval,
    "inspect log": _inspect,
}


def _prompt(fields: Fields) -> str:
    """The prompt, under the first of the usual names that is there; of a conversation, its last message."""
    return _text(next((fields[name] for name in PROMPTS if fields.get(name) is not None), None))


def _group(fields: Fields, columns: Columns) -> str:
    return "" if columns.group is None else str(_named(fields, columns.group))


def _named(fields: Fields, column: str) -> Any:
    if column not in fields:
        raise _Missing(column, f"no such column{did_you_mean(column, fields)}")
    return fields[column]


def _find(fields: Fields, named: str | None, usual: tuple[str, ...], what: str) -> Any:
    names = (named,) if named else usual
    value = next((fields[name] for name in names if fields.get(name) is not None), None)
    if value is None:
        how = f'; name its column: columns={{"{what}": ...}}'
        near = did_you_mean(named, fields) if named else how
        raise _Missing(what, f"expected a column {' or '.join(names)}, got {', '.join(map(str, fields))}{near}")
    return value


def _ended(fields: Fields) -> bool | None:
    if isinstance(fields.get("stopped"), bool):
        return bool(fields["stopped"])
    if isinstance(fields.get("truncated"), bool):
        return not fields["truncated"]
    reason = fields.get("finish_reason") or fields.get("stop_reason")
    return None if reason is None else reason not in CUT_OFF


def _text(value: Any) -> str:
    """Text out of a string, a number, a list of messages (the last one's content), or a list of content parts."""
    return "".join(_pieces(value))


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        if value and isinstance(value[-1], dict) and "role" in value[-1]:
            yield from _pieces(value[-1].get("content"))
        elif value and isinstance(value[0], dict):
            yield from (str(part.get("text", "")) for part in value)
        elif value:
            yield from _pieces(value[0])
    elif isinstance(value, dict):
        yield from _pieces(value.get("ground_truth", value.get("content", "")))
    elif value is not None:
        yield str(value)
