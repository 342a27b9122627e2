"""The shapes of rows that users already have, told apart by their columns and turned into traces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from holdfast.config import did_you_mean
from holdfast.data.fields import BadField, Fields, describe, listed, shown, take_list, take_text
from holdfast.data.problems import Problem
from holdfast.data.rows import Row
from holdfast.records.roles import Role
from holdfast.records.traces import Segment, Speaker, Trace, Turn, answer, context

SPEAKERS: dict[str, Speaker] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
SHAREGPT: dict[str, Speaker] = {**SPEAKERS, "human": "user", "gpt": "assistant"}
CALLS = ("tool_calls", "function_call")
READ = {"segments": ("role", "text"), "conversations": ("from", "value", "role", "content")}
"""Keys of the items of a list that are read; of messages, ``role`` and ``content``."""
SEGMENT_ROLES = {role.label: role for role in Role if role is not Role.PROMPT}


@dataclass(frozen=True, slots=True)
class Format:
    """One shape of rows: the columns it needs, what becomes of them, and how."""

    name: str
    needs: tuple[str, ...]
    meaning: str
    convert: Callable[[Fields], Trace]
    optional: tuple[str, ...] = ()
    chat: bool | None = None  # whether ``prompt`` must be (or must not be) a list of messages

    def fits(self, fields: Fields) -> bool:
        """Whether a row has the columns of this format. A null counts as absent: parquet writes one for every gap."""
        if any(fields.get(key) is None for key in self.needs):
            return False
        return self.chat is None or self.chat is isinstance(fields["prompt"], list)


# --- rows to traces -------------------------------------------------------------------------------------------------


def _turn(message: object, where: str, *, trained: bool) -> Turn:
    if not isinstance(message, dict):
        raise BadField(where, "an object with 'role' and 'content'", describe(message))
    for call in CALLS:
        if message.get(call):
            raise BadField(f"{where}.{call}", "no tool calls (only text can be trained)", describe(message[call]))
    is_sharegpt = where.startswith("conversations") and "from" in message
    who, what, speakers = ("from", "value", SHAREGPT) if is_sharegpt else ("role", "content", SPEAKERS)
    role = take_text(message, who, f"{where}.")
    if role not in speakers:
        expected = "system, human, gpt or tool" if is_sharegpt else "system, user, assistant or tool"
        raise BadField(f"{where}.{who}", expected, _unknown(role, speakers))
    if trained and speakers[role] == "assistant":
        return answer(take_text(message, what, f"{where}.", filled=True))
    return context(speakers[role], take_text(message, what, f"{where}."))


def _turns(fields: Fields, key: str, *, trained: bool) -> tuple[Turn, ...]:
    messages = take_list(fields, key, "messages")
    turns = tuple(_turn(message, f"{key}[{i}]", trained=trained) for i, message in enumerate(messages))
    if trained and not any(turn.is_target for turn in turns):
        raise BadField(key, "at least one assistant turn", ", ".join(dict.fromkeys(turn.speaker for turn in turns)))
    return turns


def _segment(item: object, where: str) -> Segment:
    if not isinstance(item, dict):
        raise BadField(where, "an object with 'role' and 'text'", describe(item))
    label = take_text(item, "role", f"{where}.")
    if label == Role.PROMPT.label:
        raise BadField(f"{where}.role", "a role of the answer (context goes into 'prompt')", "'prompt'")
    if label not in SEGMENT_ROLES:
        raise BadField(f"{where}.role", f"one of {', '.join(SEGMENT_ROLES)}", _unknown(label, SEGMENT_ROLES))
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
    return segments


def _unknown(word: str, known: Iterable[str]) -> str:
    return f"'{shown(word)}'" + did_you_mean(word[:60].strip().lower(), known)


def _conversation(fields: Fields, key: str) -> Trace:
    turns = _turns(fields, key, trained=True)
    if turns[0].is_target:
        raise BadField(f"{key}[0]", "a user turn before the first answer", "an answer")
    return Trace(turns)


def _trace(fields: Fields) -> Trace:
    if isinstance(fields.get("prompt"), list):
        prompt = _turns(fields, "prompt", trained=False)
    else:
        prompt = (context("user", take_text(fields, "prompt", filled=True)),)
    return Trace((*prompt, Turn("assistant", _segments(fields))))


def _chat_pair(fields: Fields) -> Trace:
    return Trace((*_turns(fields, "prompt", trained=False), *_turns(fields, "completion", trained=True)))


def _pair(fields: Fields) -> Trace:
    prompt = take_text(fields, "prompt", filled=True)
    return Trace((context("user", prompt), answer(take_text(fields, "completion", filled=True))))


def _alpaca(fields: Fields) -> Trace:
    prompt = take_text(fields, "instruction", filled=True)
    if fields.get("input") not in (None, ""):
        prompt += "\n\n" + take_text(fields, "input")
    return Trace((context("user", prompt), answer(take_text(fields, "output", filled=True))))


def _text(fields: Fields) -> Trace:
    return Trace((Turn("text", (Segment(Role.RESPONSE, take_text(fields, "text", filled=True)),)),))


# --- telling them apart ---------------------------------------------------------------------------------------------

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
        optional=("input",),
    ),
    Format("text", ("text",), "each row is one document, trained whole, without a chat template", _text),
)


def detect(rows: Sequence[Row], source: str) -> Format | Problem:
    """The one format of a file, from all its rows; or why there is none. Rows that fit nothing do not vote."""
    lines: dict[str, list[int]] = {}
    for row in rows:
        own = next((form for form in FORMATS if form.fits(row.fields or {})), None)
        if own is not None:
            lines.setdefault(own.name, []).append(row.line)
    if len(lines) == 1:
        return next(form for form in FORMATS if form.name in lines)
    if lines:
        found = " and ".join(f"'{name}' (line {listed(map(str, where))})" for name, where in lines.items())
        return Problem(source, None, None, f"expected one format per file, got {found}", fatal=True)
    columns = list(dict.fromkeys(key for row in rows for key in row.fields or {}))
    known = [key for form in FORMATS for key in form.needs]
    hint = next(filter(None, (did_you_mean(column[:60], known) for column in columns if column not in known)), "")
    expected = "; ".join(dict.fromkeys(" and ".join(form.needs) for form in FORMATS))
    found = listed(map(shown, columns)) or "no columns"
    return Problem(
        source, None, None, f"expected the columns of one format ({expected}), got {found}{hint}", fatal=True
    )


def unused_columns(form: Format, rows: Iterable[Row]) -> str:
    """The columns that hold something and are not read, those of messages and segments included."""
    unused: dict[str, None] = {}
    for row in rows:
        for key, value in (row.fields or {}).items():
            if key not in form.needs and key not in form.optional:
                unused.update({shown(key): None} if value is not None else {})
            elif isinstance(value, list):
                read = READ.get(key, ("role", "content"))
                items = [item for item in value if isinstance(item, dict)]
                extra = [name for item in items for name, part in item.items() if part is not None and name not in read]
                unused.update({f"{key}[].{shown(name)}": None for name in extra})
    return listed(unused)
