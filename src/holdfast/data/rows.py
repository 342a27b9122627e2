"""The raw rows of a file, each with the line it starts on: JSON lines, a JSON list, CSV, parquet, and gzip of each.

Nothing is dropped on the way: what is not a row comes out as a ``Problem``. Blank lines hold no row; they are counted
(a ``Row`` without fields), so that the reader can say so.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast.config.extras import need_extra
from holdfast.data.fields import describe, shown
from holdfast.data.problems import Problem
from holdfast.data.strict_json import HALF, NotJSON, Parsed, StrictDecoder, skip_space


@dataclass(frozen=True, slots=True)
class Row:
    """One row as it stands in the file. ``fields`` is None for a blank line."""

    line: int
    fields: dict[str, object] | None
    file: str = ""  # which one, where a source is several


NAME_IT_JSON = "name the file .json if it is one list of rows"

Rows = Iterator[Row | Problem]


def file_kind(path: Path, readers: Collection[str] | None = None) -> str | None:
    """The suffix that says how a file is read, ``.gz`` aside; None for any other name. ``readers``: those of rows."""
    inner = Path(path.stem) if path.suffix.lower() == ".gz" else path
    kind = inner.suffix.lower()
    return kind if kind in (_READERS if readers is None else readers) else None


def file_rows(path: Path, *, texts: bool = False) -> Rows:
    """The rows of a local file, in order. ``texts``: the texts of a JSON list and the lines of a .txt are prompts."""
    readers = _PROMPT_READERS if texts else _READERS
    source, kind = str(path), file_kind(path, readers)
    if not path.exists():
        raise InputError(f"{source}: no such file")
    if kind is None:
        instead = "; save it with commas, as .csv" if path.suffix.lower() in (".tsv", ".tab", ".xlsx", ".xls") else ""
        raise InputError(f"{source}: expected a file named {', '.join(readers)} (each may end in .gz){instead}")
    packed = path.suffix.lower() == ".gz"
    try:
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            if file.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                yield Problem(source, 1, None, "expected UTF-8 text, got UTF-16", fatal=True)
            else:
                yield from readers[kind](file, source)
    except EOFError:
        yield Problem(source, None, None, "expected a whole gzip file, got one that is cut short", fatal=True)
    except (OSError, zlib.error) as error:
        yield Problem(source, None, None, f"expected a readable file, got: {error}", fatal=True)


def _lines(file: io.BufferedIOBase) -> Iterator[bytes]:
    """Lines end in LF (CRLF is fine, the CR is whitespace to JSON and to CSV); a BOM opens the file and is no text."""
    first = True
    for line in file:
        yield line.removeprefix(codecs.BOM_UTF8) if first else line
        first = False


def _text_lines(file: io.BufferedIOBase, source: str) -> Rows:
    """A prompt on every line; a line that begins with ``# `` is a heading."""
    for number, raw in enumerate(_lines(file), start=1):
        try:
            line = raw.decode().strip()
        except UnicodeDecodeError as error:
            yield Problem(source, number, None, f"expected UTF-8 text, got {_bad_byte(error)}")
        else:
            yield Row(number, {"prompt": line} if line and not line.startswith("# ") else None)


def _json_lines(file: io.BufferedIOBase, source: str, *, texts: bool = False) -> Rows:
    decoder = StrictDecoder()
    for number, raw in enumerate(_lines(file), start=1):
        if not raw or raw.isspace():
            yield Row(number, None)
            continue
        try:
            text = raw.rstrip(b"\r\n").decode()
            parsed = decoder.parse(text, skip_space(text, 0))
            if skip_space(text, parsed.end) < len(text):
                raise NotJSON("more text after it", text, parsed.end)
        except UnicodeDecodeError as error:
            yield Problem(source, number, None, f"expected UTF-8 text, got {_bad_byte(error)}")
        except NotJSON as error:
            got = _over_several_lines(raw.strip()) or f": {error}"
            yield Problem(source, number, None, f"expected one JSON object on this line, got{got}")
        else:
            if isinstance(parsed.value, list):
                yield Problem(source, number, None, f"expected a JSON object, got a list; {NAME_IT_JSON}")
            else:
                yield _json_row(source, number, parsed, texts)


def _over_several_lines(line: bytes) -> str:
    """What a line is that opens a row, or a list of rows, and does no more."""
    if line == b"[":
        return f" the beginning of a list; {NAME_IT_JSON}"
    return " only the beginning of one; write every row on a line of its own" if line in (b"{", b"[{") else ""


def _json_row(source: str, line: int, parsed: Parsed, texts: bool) -> Row | Problem:
    if parsed.fault is not None:
        return Problem(source, line, parsed.fault.field, parsed.fault.message)
    if texts and isinstance(parsed.value, str):
        return Row(line, {"prompt": parsed.value})
    if not isinstance(parsed.value, dict):
        return Problem(source, line, None, f"expected a JSON object, got {describe(parsed.value)}")
    return Row(line, parsed.value)


def _json(file: io.BufferedIOBase, source: str, *, texts: bool = False) -> Rows:
    """A list of objects, or one object per line: the first character says which. One object may have several lines."""
    data = file.read().removeprefix(codecs.BOM_UTF8)
    if not data.lstrip(b" \t\r\n").startswith(b"["):
        alone = _only_object(data)
        yield from (
            _json_lines(io.BytesIO(data), source, texts=texts)
            if alone is None
            else [_json_row(source, 1, alone, texts)]
        )
        return
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        yield Problem(source, line, None, f"expected UTF-8 text, got {_bad_byte(error)}", fatal=True)
    else:
        yield from _json_list(text, source, texts)


def _only_object(data: bytes) -> Parsed | None:
    """The object that is all of a file; None where it is not, or begins and ends on one line as in a file of lines."""
    if data.partition(b"\n")[0].strip() != b"{":
        return None
    try:
        text = data.decode()
        parsed = StrictDecoder().parse(text, skip_space(text, 0))
    except (UnicodeDecodeError, NotJSON):
        return None
    return parsed if skip_space(text, parsed.end) == len(text) else None


def _json_list(text: str, source: str, texts: bool) -> Rows:
    """The items of a list, one by one. Behind a syntax error no next item can be found, so it is fatal."""
    decoder, line, counted = StrictDecoder(), 1, 0
    at = skip_space(text, skip_space(text, 0) + 1)
    more = not text.startswith("]", at)
    try:
        while more:
            line, counted = line + text.count("\n", counted, at), at
            parsed = decoder.parse(text, at)
            yield _json_row(source, line, parsed, texts)
            at = skip_space(text, parsed.end)
            more = text.startswith(",", at)
            at = skip_space(text, at + 1) if more else at
        if not text.startswith("]", at):
            raise NotJSON("neither ',' nor ']' after an item", text, at)
        if skip_space(text, at + 1) < len(text):
            raise NotJSON("more text after it", text, skip_space(text, at + 1))
    except NotJSON as error:
        yield Problem(source, error.line, None, f"expected a list of JSON objects, got: {error}", fatal=True)


def _csv(file: io.BufferedIOBase, source: str) -> Rows:
    """Comma-separated with a header. A bad byte becomes a surrogate first, so that the field it is in can be named."""
    csv.field_size_limit(2**31 - 1)  # the default refuses cells over 128 KiB
    reader = csv.reader((raw.decode(errors="surrogateescape") for raw in _lines(file)), strict=True)
    header: list[str] = []
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            # An open quote swallows the rows below it: to skip that as one bad line would hide them.
            fatal = not header or reader.line_num > line
            yield Problem(source, line, None, f"expected comma-separated values, got: {error}", fatal=fatal)
            continue
        if cells is None:
            return
        if not cells or (len(cells) == 1 and not cells[0].strip()):
            yield Row(line, None)
        elif header:
            yield _csv_row(source, line, header, cells)
        else:
            header = cells
            if wrong := _other_separator(header):
                yield Problem(source, line, None, f"expected columns separated by commas, got {wrong}", fatal=True)
                return
            yield from _header_problems(source, line, header)


def _other_separator(header: list[str]) -> str | None:
    """What stands between the names of a header that is one cell to a reader of commas."""
    signs = {";": "semicolons", "\t": "tabs"}
    return next((name for sign, name in signs.items() if len(header) == 1 and sign in header[0]), None)


def _csv_row(source: str, line: int, header: list[str], cells: list[str]) -> Row | Problem:
    if len(cells) != len(header):
        return Problem(source, line, None, f"expected {len(header)} columns as in the header, got {len(cells)}")
    for name, cell in zip(header, cells, strict=True):
        if not _is_text(cell):
            return Problem(source, line, shown(name), "expected UTF-8 text, got bytes that are not")
    return Row(line, dict(zip(header, cells, strict=True)))


def _header_problems(source: str, line: int | None, names: list[str]) -> Rows:
    for name in (name for name, count in Counter(names).items() if count > 1):
        yield Problem(source, line, shown(name), "expected one column of this name, got several", fatal=True)
    if not all(_is_text(name) for name in names):
        yield Problem(source, line, None, "expected a header in UTF-8, got bytes that are not", fatal=True)


def _parquet(file: io.BufferedIOBase, source: str) -> Rows:
    need_extra("data", f"{source}: a parquet file", "pyarrow")
    import pyarrow.parquet

    number = 0
    try:
        # The index is at the end of the file: a gzip stream would have to be unpacked again for every look at it.
        table = pyarrow.parquet.ParquetFile(io.BytesIO(file.read()) if isinstance(file, gzip.GzipFile) else file)
        yield from _header_problems(source, None, table.schema_arrow.names)
        for batch in table.iter_batches():
            for fields in batch.to_pylist():
                number += 1
                yield Row(number, without_gaps(fields))
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
        message = f"expected a parquet file, got: {str(error).partition(chr(10))[0]}"
        yield Problem(source, number or None, None, message, fatal=True)


def without_gaps(fields: dict[str, Any]) -> dict[str, Any]:
    """A row of an Arrow table without the nulls inside its lists and objects. Columns keep theirs.

    A column of objects has the keys of all rows: a message without tool calls comes back with a null that nobody wrote.
    A null that somebody did write is lost with them.
    """

    def closed(value: Any) -> Any:
        if isinstance(value, list):
            return [closed(item) for item in value]
        if isinstance(value, dict):
            return {name: closed(item) for name, item in value.items() if item is not None}
        return value

    return {name: closed(value) for name, value in fields.items()}


def _is_text(value: object) -> bool:
    """Whether every string in the value can be written as UTF-8."""
    if isinstance(value, Mapping):
        return all(map(_is_text, value)) and all(map(_is_text, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_text, value))
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return True


def _bad_byte(error: UnicodeDecodeError) -> str:
    return f"byte 0x{error.object[error.start]:02x} ({error.reason})"


_READERS: dict[str, Callable[[io.BufferedIOBase, str], Rows]] = {
    ".jsonl": _json_lines,
    ".json": _json,
    ".csv": _csv,
    ".parquet": _parquet,
}
_PROMPT_READERS: dict[str, Callable[[io.BufferedIOBase, str], Rows]] = {
    **_READERS,
    ".jsonl": partial(_json_lines, texts=True),
    ".json": partial(_json, texts=True),
    ".txt": _text_lines,
}


def given_rows(source: object, what: str = "rows") -> tuple[Any, ...]:
    """The rows, or prompts, that somebody gave in Python. An iterator is drained.

    Raises ``InputError`` for a table of pandas and for a dict: gone through, they give the names of their columns, which would
    be taken for requests.
    """
    if isinstance(source, Mapping):
        raise InputError(
            f"{what}: expected a list, got a {type(source).__name__}; put a row into a list, or name a split"
        )
    if hasattr(source, "columns") and hasattr(source, "to_dict"):
        raise InputError(
            f'{what}: expected a list of dicts, got a {type(source).__name__}; write df.to_dict("records")'
        )
    if not isinstance(source, Iterable):
        raise InputError(f"{what}: expected a list, got a value of type {type(source).__name__}")
    return tuple(source)


def memory_rows(rows: Iterable[Mapping[str, object]]) -> Rows:
    """Rows that somebody has in Python, as a file's: numbered from 1."""
    for number, fields in enumerate(rows, 1):
        given: object = fields  # whatever a caller really put there
        if not isinstance(given, Mapping):
            yield Problem("memory", number, None, f"expected a dict, got {type(given).__name__}")
        elif not _is_text(given):
            field = next(str(name) for name, value in given.items() if not _is_text({name: value}))
            yield Problem("memory", number, shown(field), HALF)
        else:
            yield Row(number, without_gaps(dict(given)))
