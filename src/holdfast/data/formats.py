"""The shapes of rows that users already have, told apart by their columns and turned into traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from holdfast.config import did_you_mean
from holdfast.data.columns import HONOURED, take_history, with_columns
from holdfast.data.fields import MAX_LISTED, BadField, Fields, describe, holds, listed, shown, take_list, take_text
from holdfast.data.messages import take_turns, unknown, unread_keys
from holdfast.data.problems import Problem
from holdfast.data.rows import Row
from holdfast.records.roles import Role
from holdfast.records.traces import Segment, Trace, Turn, answer, context

MESSAGES = ("messages", "conversations", "prompt", "completion")
REQUESTS = ("prompt", "instruction", "question", "query", "input")
ANSWERS = ("completion", "response", "answer", "output")
"""What the two columns of a pair are called in files that people have."""
OTHER_NAMES = {
    "user": "prompt",
    "human": "prompt",
    "problem": "prompt",
    "request": "prompt",
    "assistant": "completion",
    "bot": "completion",
    "target": "completion",
    "solution": "completion",
    "reply": "completion",
    "conversation": "messages",
    "dialogue": "messages",
    "content": "text",
}
"""Columns that are not read, by what the name makes likely: said as a hint, never done."""
SEGMENT_ROLES = {role.label: role for role in Role if role is not Role.PROMPT}


@dataclass(frozen=True, slots=True)
class Format:
    """One shape of rows: the columns it needs, what becomes of them, and how."""

    name: str
    needs: tuple[str, ...]
    meaning: str
    convert: Callable[[Fields], Trace]  # of the format's own columns
    optional: tuple[str, ...] = ()
    chat: bool | None = None  # whether ``prompt`` must be (or must not be) a list of messages

    def fits(self, fields: Fields) -> bool:
        """Whether a row has the columns of this format. A null counts as absent: parquet writes one for every gap."""
        if any(fields.get(key) is None for key in self.needs):
            return False
        return self.chat is None or self.chat is isinstance(fields["prompt"], list)

    def trace(self, fields: Fields) -> Trace:
        """The row as a trace, with the columns that every format honours. Raises ``BadField``."""
        return with_columns(self.convert(fields), fields, (*self.needs, *self.optional))


# --- rows to traces -------------------------------------------------------------------------------------------------


def _trained(turns: tuple[Turn, ...], key: str) -> tuple[Turn, ...]:
    if any(turn.is_target for turn in turns):
        return turns
    answers = [turn for turn in turns if turn.speaker == "assistant"]
    if answers:
        raise BadField(key, "at least one answer to train", "only answers of weight 0 or that call tools")
    raise BadField(key, "at least one assistant turn", ", ".join(dict.fromkeys(turn.speaker for turn in turns)))


def _segment(item: object, where: str) -> Segment:
    if not isinstance(item, dict):
        raise BadField(where, "an object with 'role' and 'text'", describe(item))
    label = take_text(item, "role", f"{where}.")
    if label == Role.PROMPT.label and not item.get("text"):
        return Segment(Role.PROMPT)  # the end of the turn, which is then not trained
    if label == Role.PROMPT.label:
        raise BadField(f"{where}.role", "a role of the answer (context goes into 'prompt')", "'prompt'")
    if label not in SEGMENT_ROLES:
        raise BadField(f"{where}.role", f"one of {', '.join(SEGMENT_ROLES)}", unknown(label, SEGMENT_ROLES))
    role = SEGMENT_ROLES[label]
    if role is not Role.UNDO:
        text = item.get("text")
        if isinstance(text, str) and text:  # blanks alone are fine here: a segment may be the space between words
            return Segment(role, text)
        raise BadField(f"{where}.text", "a non-empty string", describe(text) if "text" in item else "nothing")
    if item.get("text") not in (None, ""):
        raise BadField(f"{where}.text", "no text in an 'undo' segment", describe(item["text"]))
    return Segment(role)


def _segments(fields: Fields) -> tuple[Segment, ...]:
    items = take_list(fields, "segments", "segments")
    segments = tuple(_segment(item, f"segments[{i}]") for i, item in enumerate(items))
    labels = ["the start", *(f"'{segment.role.label}'" for segment in segments), "the end"]
    for i, (before, here) in enumerate(pairwise(labels)):
        if before == "'error'" and here != "'undo'":
            raise BadField(f"segments[{i - 1}]", "an 'undo' directly after this 'error'", here)
        if here == "'undo'" and before != "'error'":
            raise BadField(f"segments[{i}]", "an 'error' directly before this 'undo'", before)
        if here == "'prompt'" and not 0 < i == len(segments) - 1:
            raise BadField(
                f"segments[{i}]", "'prompt' without text to be the last of several segments", "another place"
            )
    return segments


def _conversation(fields: Fields, key: str) -> Trace:
    turns = _trained(take_turns(fields, key, trained=True), key)
    if turns[0].is_target:
        raise BadField(f"{key}[0]", "a user turn before the first answer", "an answer")
    return Trace(turns)


def _trace(fields: Fields) -> Trace:
    if isinstance(fields.get("prompt"), list):
        prompt = take_turns(fields, "prompt", trained=False)
    else:
        prompt = (context("user", take_text(fields, "prompt", filled=True)),)
    return Trace((*prompt, Turn("assistant", _segments(fields))))


def _chat_pair(fields: Fields) -> Trace:
    completion = _trained(take_turns(fields, "completion", trained=True), "completion")
    return Trace((*take_turns(fields, "prompt", trained=False), *completion))


def _pair(fields: Fields, request: str = "prompt", reply: str = "completion") -> Trace:
    prompt = take_text(fields, request, filled=True)
    return Trace((context("user", prompt), answer(take_text(fields, reply, filled=True))))


def _alpaca(fields: Fields, reply: str = "output") -> Trace:
    prompt = take_text(fields, "instruction", filled=True)
    if fields.get("input") not in (None, ""):
        prompt += "\n\n" + take_text(fields, "input")
    return Trace((*take_history(fields), context("user", prompt), answer(take_text(fields, reply, filled=True))))


def _named_pair(fields: Fields, request: str, reply: str) -> Trace:
    """A pair by other names than TRL's. A column that may belong to it as well is refused: nothing is guessed."""
    own = (request, reply, "input") if request == "instruction" else (request, reply)
    for key in (*REQUESTS, *ANSWERS, "context", "system_prompt"):
        if key not in own and holds(fields.get(key)):
            expected = f"nothing beside '{request}' and '{reply}' ({_instead(key, request, reply)})"
            raise BadField(key, expected, describe(fields[key]))
    return _alpaca(fields, reply) if request == "instruction" else _pair(fields, request, reply)


def _instead(key: str, request: str, reply: str) -> str:
    """What to do with a column that is in the way."""
    if key == "system_prompt":
        return "rename it to 'system', which is read"
    if key == "context" and request == "instruction":
        return "rename it to 'input', which is read behind the instruction"
    if key == "context":
        return f"write into '{request}' what the model is to see"
    own = reply if key in ANSWERS else request
    return f"either of '{own}' and '{key}' may be meant: rename the one that is not"


def _text(fields: Fields) -> Trace:
    return Trace((Turn("text", (Segment(Role.RESPONSE, take_text(fields, "text", filled=True)),)),))


# --- telling them apart ---------------------------------------------------------------------------------------------


def _pair_format(request: str, reply: str) -> Format:
    """A request and an answer, a column each, by other names than TRL's or Alpaca's."""
    with_input = request == "instruction"
    user = f"'{request}', a blank line and 'input' (if there is one) are" if with_input else f"'{request}' is"
    return Format(
        f"{request}-{reply}",
        (request, reply),
        f"{user} the user turn, '{reply}' is the trained answer, and a chat template is applied",
        partial(_named_pair, request=request, reply=reply),
        optional=("input", "history") if with_input else (),
    )


PAIRS = tuple(
    _pair_format(request, reply)
    for request in REQUESTS
    for reply in ANSWERS
    if (request, reply) not in (("prompt", "completion"), ("instruction", "output"))
)
FORMATS = (  # the first that fits a row is the row's: `messages` beside `prompt`, or Alpaca beside `text`, is common
    Format("trace", ("prompt", "segments"), "the segments are one assistant turn, trained by their roles", _trace),
    Format(
        "messages",
        ("messages",),
        "every assistant turn is trained, the other turns are context",
        partial(_conversation, key="messages"),
    ),
    Format(
        "sharegpt",
        ("conversations",),
        "every turn of 'gpt' is trained, the other turns are context",
        partial(_conversation, key="conversations"),
    ),
    Format(
        "prompt-completion-chat",
        ("prompt", "completion"),
        "the assistant turns of 'completion' are trained, all of 'prompt' is context",
        _chat_pair,
        chat=True,
    ),
    Format(
        "prompt-completion",
        ("prompt", "completion"),
        "each row is a user and an assistant turn, the latter trained, and a chat template is applied"
        " (TRL would feed the two as raw text)",
        _pair,
        chat=False,
    ),
    Format(
        "alpaca",
        ("instruction", "output"),
        "'instruction', a blank line and 'input' (if there is one) are the user turn, 'output' is the trained answer",
        _alpaca,
        optional=("input", "history"),
    ),
    Format("text", ("text",), "each row is one document, trained whole, without a chat template", _text),
    *PAIRS,
)


class FormatVote:
    """Finds the one format of a source while its rows go by, or why there is none. Rows that fit nothing do not vote."""

    def __init__(self) -> None:
        self.num_rows = 0
        self.format: Format | None = None  # of all rows so far that have one; None when they have several
        self._counts: Counter[str] = Counter()
        self._places: dict[str, list[str]] = {}  # by format, where its first rows stand
        self._columns: dict[str, None] = {}  # while no row fits
        self._list = ""  # a column of the last of these rows that holds a list of objects

    @property
    def is_mixed(self) -> bool:
        """Whether rows of two formats have been seen."""
        return len(self._counts) > 1

    def add(self, row: Row) -> None:
        """Count one row."""
        self.num_rows += 1
        fields = row.fields or {}
        own = next((form for form in FORMATS if form.fits(fields)), None)
        if own is None:
            self._columns.update({} if self._counts else dict.fromkeys(fields))
            self._list = next((key for key, value in fields.items() if _are_objects(value)), "")
            return
        self._counts[own.name] += 1
        places = self._places.setdefault(own.name, [])
        if len(places) < MAX_LISTED:
            places.append(f"{row.file}:{row.line}" if row.file else str(row.line))
        self.format = None if self.is_mixed else own

    def problem(self, source: str) -> Problem:
        """Why the source has no format."""
        assert self.format is None
        if self.is_mixed:
            given = " and ".join(
                f"'{name}' (line {listed(places, self._counts[name])})" for name, places in self._places.items()
            )
            return Problem(source, None, None, f"expected one format per file, got {given}", fatal=True)
        columns = list(self._columns)
        given = listed(map(shown, columns)) or "no columns"
        expected = (
            f"a request ({listed(REQUESTS)}) and an answer ({listed(ANSWERS)}), or one of messages, conversations, text,"
            " or prompt and segments"
        )
        hint = _hint(columns)
        if self.num_rows == 1 and self._list:
            hint = f"; if '{shown(self._list)}' is the list of rows, write a file of that list alone"
        message = f"expected the columns of one format: {expected}; got {given}{hint}"
        return Problem(source, None, None, message, fatal=True)


def _are_objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _hint(columns: Sequence[str]) -> str:
    """What to rename, where that can be said."""
    if {"chosen", "rejected"} <= set(columns):
        return (
            "; pairs of a preferred and a rejected answer are not trained: to train the preferred one rename 'chosen'"
        )
    names = {name: name for form in FORMATS for name in form.needs} | OTHER_NAMES
    renamed = {name: names[name.lower()] for name in columns if name not in names.values() and name.lower() in names}
    if renamed:
        return "; rename " + " and ".join(f"'{shown(name)}' to '{new}'" for name, new in renamed.items())
    known = [key for form in FORMATS for key in form.needs]
    return next(filter(None, (did_you_mean(column[:60], known) for column in columns if column not in known)), "")


def unused_columns(form: Format, fields: Fields) -> Iterator[str]:
    """The columns of a row that hold something and are not read, those of messages and segments included."""
    for key, value in fields.items():
        if key not in form.needs and key not in form.optional:
            if value is not None and key not in HONOURED:
                yield shown(key)
        elif isinstance(value, list) and key in MESSAGES:
            yield from (f"{key}[].{shown(name)}" for name in unread_keys(key, value))
        elif isinstance(value, list) and key == "segments":
            names = [
                name for item in value if isinstance(item, dict) for name, part in item.items() if part is not None
            ]
            yield from (f"{key}[].{shown(name)}" for name in names if name not in ("role", "text"))
