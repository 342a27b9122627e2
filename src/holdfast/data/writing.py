"""Traces to a file that reads back as the same traces, or to no file at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from holdfast.config import InputError
from holdfast.data.fields import BadField
from holdfast.data.formats import FORMATS
from holdfast.records.roles import Role
from holdfast.records.traces import Segment, Trace, Turn, chat_arguments


@contextmanager
def atomic_text(path: Path) -> Iterator[IO[str]]:
    """A UTF-8 file that appears under its name whole, when the block ends well, or not at all.

    A pipe, ``/dev/stdout`` or another device is written to as it is: a file in its place would be no such thing.
    """
    is_device = _is_device(path)
    written = path if is_device else path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with written.open("w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            if not is_device:
                os.fsync(file.fileno())
        if not is_device:
            written.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        if not is_device:
            with suppress(OSError):  # gone already, or its folder never was
                written.unlink()


def _is_device(path: Path) -> bool:
    """Whether this is something else than a plain file. ``/dev/stdout`` is, even where the shell made it lead to one."""
    return path.exists() and (not path.is_file() or path.absolute().parent in (Path("/dev"), Path("/dev/fd")))


def write_traces(path: str | Path, traces: Sequence[Trace]) -> None:
    """Write JSON lines in the plainest form that holds every trace: `text`, `messages`, our own, or a chat pair."""
    path = Path(path)
    if path.suffix != ".jsonl":
        raise InputError(f"{path}: expected a name that ends in .jsonl")
    lines = json_lines(traces)
    with atomic_text(path) as file:
        file.writelines(lines)


def json_lines(traces: Sequence[Trace]) -> list[str]:
    """What ``write_traces`` writes, line by line."""
    return [json.dumps(row, ensure_ascii=False) + "\n" for row in _rows(traces)]


def _rows(traces: Sequence[Trace]) -> list[dict[str, object]]:
    if not traces:
        raise ValueError("no traces to write: an empty file is not a dataset")
    furthest = 0
    for name, to_row in _FORMS.items():
        rows = [{**to_row(_spoken(trace)), **chat_arguments(trace.turns)} for trace in traces]
        bad = next((i for i, trace in enumerate(traces) if not _reads_back(name, rows[i], trace)), None)
        if bad is None:
            return rows
        furthest = max(furthest, bad)
    raise ValueError(
        f"traces[{furthest}] cannot be written with the others: a file holds documents, or chats whose assistant turns are"
        " all plain answers, or chats of which only the last turn is trained, or only the last turns"
    )


def _reads_back(name: str, row: dict[str, object], trace: Trace) -> bool:
    form = next(form for form in FORMATS if form.name == name)
    try:
        return form.trace(row) == trace
    except BadField:
        return False


def _spoken(trace: Trace) -> Trace:
    return Trace(tuple(turn for turn in trace.turns if turn.speaker != "setup"))


def _text_row(trace: Trace) -> dict[str, object]:
    return {"text": "".join(_plain(turn) for turn in trace.turns)}


def _messages_row(trace: Trace) -> dict[str, object]:
    return {"messages": [_message(turn) for turn in trace.turns]}


def _pair_row(trace: Trace) -> dict[str, object]:
    before = len(trace.prompt)
    prompt, completion = trace.turns[:before], trace.turns[before:]
    return {"prompt": [_message(turn) for turn in prompt], "completion": [_message(turn) for turn in completion]}


def _trace_row(trace: Trace) -> dict[str, object]:
    before, last = trace.turns[:-1], trace.turns[-1:]
    is_question = len(before) == 1 and before[0].speaker == "user" and _plain(before[0]).strip()
    prompt = _plain(before[0]) if is_question else [_message(turn) for turn in before]
    return {"prompt": prompt, "segments": [_segment(segment) for turn in last for segment in turn.segments]}


def _message(turn: Turn) -> dict[str, object]:
    return {"role": turn.speaker, "content": _plain(turn), **turn.other_fields}


def _segment(segment: Segment) -> dict[str, str]:
    has_no_text = segment.role is Role.UNDO or (segment.role is Role.PROMPT and not segment.text)
    return {"role": segment.role.label} if has_no_text else {"role": segment.role.label, "text": segment.text}


def _plain(turn: Turn) -> str:
    return "".join(segment.text for segment in turn.segments)


_FORMS: dict[str, Callable[[Trace], dict[str, object]]] = {
    "text": _text_row,
    "messages": _messages_row,
    "trace": _trace_row,
    "prompt-completion-chat": _pair_row,
}


BEGIN, END = "<!-- {name}:begin -->", "<!-- {name}:end -->"


def write_between_marks(path: Path, text: str, name: str) -> None:
    """Put the text between ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``; what stands around it stays."""
    begin, end = BEGIN.format(name=name), END.format(name=name)
    old = path.read_text(encoding="utf-8") if path.exists() else f"{begin}\n{end}\n"
    before, begun, rest = old.partition(begin)
    _, ended, after = rest.partition(end)
    if begun and not ended:
        raise InputError(f"{path}: {begin} without {end} after it; put that back, or take the first one out")
    with atomic_text(path) as file:
        file.write(f"{before}{begin}\n{text}{end}{after}")
