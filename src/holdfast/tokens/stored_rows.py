"""Token rows in little memory: 12 bytes a row, and the rest in a file once it is more than a few megabytes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from holdfast.data.spool import OnDemand, Spool
from holdfast.tokens.batch import TokenRow

_HEADER = 4  # source, number of blanks, whether the context is hard, whether positions are written


class TokenRows(OnDemand[TokenRow]):
    """Rows in order, and what is known of all of them together without reading them again."""

    def __init__(self, rows: Iterable[TokenRow] = ()) -> None:
        self._spool = Spool()
        self.lengths = array("i")  # the tokens of each row
        self.num_positions = 0  # that the model must have
        self.needs_mask = False  # of any row: see TokenRow
        for row in rows:
            self.append(row)

    def __len__(self) -> int:
        return len(self._spool)

    def append(self, row: TokenRow) -> None:
        """Put a row behind the others. Positions that only count the tokens are not written."""
        num_tokens = len(row)
        is_counted = row.positions == list(range(num_tokens))
        header = (row.source, len(row.blanks), row.context == "hard", not is_counted)
        numbers = array("i", [*header, *row.blanks, *row.ids, *(() if is_counted else row.positions)])
        self._spool.append(numbers.tobytes() + bytes(row.roles))
        self.lengths.append(num_tokens)
        self.num_positions = max(self.num_positions, num_tokens if is_counted else 1 + max(row.positions))
        self.needs_mask = self.needs_mask or row.needs_mask

    def make(self, number: int) -> TokenRow:
        """The row of this number, from 0."""
        record, num_tokens = self._spool.read(number), self.lengths[number]
        end = len(record) - num_tokens  # of the numbers: a role takes one byte
        numbers = memoryview(record)[:end].cast("i").tolist()
        source, num_blanks, is_hard, has_positions = numbers[:_HEADER]
        first = _HEADER + num_blanks
        return TokenRow(
            ids=numbers[first : first + num_tokens],
            roles=list(record[end:]),
            positions=numbers[first + num_tokens :] if has_positions else list(range(num_tokens)),
            context="hard" if is_hard else "soft",
            source=source,
            blanks=tuple(numbers[_HEADER:first]),
        )
