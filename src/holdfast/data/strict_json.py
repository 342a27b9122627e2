"""JSON as the standard has it, with the place of what is not.

Python's decoder lets duplicate keys, NaN and lone surrogates pass. Here they are faults of the value, noted while
parsing goes on, so that a reader can report one row of a list and still read the next.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import NamedTuple

from holdfast.data.fields import shown

_SPACE = re.compile(r"[ \t\r\n]*")
HALF = "expected Unicode text, got a lone surrogate (half of a \\u pair)"


class Fault(NamedTuple):
    """What makes a value more than JSON allows, and the field it was found in."""

    field: str
    message: str


class NotJSON(Exception):  # noqa: N818  (it never leaves this package: it becomes a Problem)
    """Text that is no JSON, and the line and column (from 1) at which it ceases to be."""

    def __init__(self, reason: str, text: str, position: int) -> None:
        column = position - text.rfind("\n", 0, position)
        super().__init__(f"{reason.removesuffix(' at')} (column {column})")
        self.line = text.count("\n", 0, position) + 1


class Parsed(NamedTuple):
    """A value, where it ended, and what is wrong with it if anything is."""

    value: object
    end: int
    fault: Fault | None


def skip_space(text: str, start: int) -> int:
    """The index of the first character at or after ``start`` that is not JSON whitespace."""
    match = _SPACE.match(text, start)
    assert match is not None  # the pattern matches the empty string
    return match.end()


class StrictDecoder:
    """Decodes one value at a time. Not JSON at all: ``NotJSON``. JSON with a fault: the value and the fault."""

    def __init__(self) -> None:
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object, parse_constant=self._number, parse_float=self._number
        )
        self._duplicate: str | None = None
        self._infinite = False

    def parse(self, text: str, start: int = 0) -> Parsed:
        """The value that begins at ``start``, where no whitespace may be."""
        self._duplicate, self._infinite = None, False
        try:
            value, end = self._decoder.raw_decode(text, start)
            # Text that came from UTF-8 holds a lone surrogate only where an escape wrote one.
            suspect = self._infinite or text.find("\\u", start, end) >= 0
            return Parsed(value, end, self._fault(value, suspect))
        except json.JSONDecodeError as error:
            raise NotJSON(error.msg, text, error.pos) from None
        except RecursionError:
            raise NotJSON("nested too deeply", text, start) from None
        except ValueError as error:  # a whole number of more digits than Python is willing to read
            raise NotJSON(str(error), text, start) from None

    def _fault(self, value: object, suspect: bool) -> Fault | None:
        if self._duplicate is not None:
            return Fault(shown(self._duplicate), "expected one value, got a duplicate key")
        if suspect and isinstance(value, dict | list):
            for key, part in value.items() if isinstance(value, dict) else enumerate(value):
                try:
                    json.dumps({key: part}, ensure_ascii=False, allow_nan=False).encode()
                except UnicodeEncodeError:
                    return Fault(shown(str(key)), HALF)
                except ValueError:
                    return Fault(shown(str(key)), "expected a JSON number, got NaN or an infinite one (write null)")
        return None

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        made = dict(pairs)
        if len(made) < len(pairs):
            self._duplicate = Counter(key for key, _ in pairs).most_common(1)[0][0]
        return made

    def _number(self, literal: str) -> float:
        value = float(literal)
        self._infinite |= not math.isfinite(value)
        return value
