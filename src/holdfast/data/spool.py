"""Many records in little memory: those that are more than a few megabytes lie in a file, and each is made anew when asked for.

The file is in the system's temporary folder (``TMPDIR``) and has no name: no other process can meet it, and it is gone when
this process ends, however that ends.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from abc import abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from typing import IO, TypeVar, overload

from holdfast.config import InputError

HELD_BYTES = 2**22
T_co = TypeVar("T_co", covariant=True)


class Spool:
    """Records of bytes by number, at 8 bytes of memory each. Threads and forked processes may read at the same time."""

    def __init__(self) -> None:
        self._ends = array("q", [0])  # of every record, counted from the first one's beginning
        self._held = bytearray()  # the last records, which are not in the file yet
        self._in_file = 0
        self._file: IO[bytes] | None = None

    def __len__(self) -> int:
        return len(self._ends) - 1

    def append(self, record: bytes) -> None:
        """Put a record behind the others. Raises ``InputError`` where the disk is full."""
        self._held += record
        self._ends.append(self._ends[-1] + len(record))
        if len(self._held) >= HELD_BYTES:
            self._write()

    def read(self, number: int) -> bytes:
        """The record of this number, from 0."""
        start, stop = self._ends[number], self._ends[number + 1]
        if start >= self._in_file:
            return bytes(self._held[start - self._in_file : stop - self._in_file])
        assert self._file is not None
        return os.pread(self._file.fileno(), stop - start, start)  # moves no place that others share

    def _write(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the records are wanted)
                weakref.finalize(self, self._file.close)
            self._file.write(self._held)
            self._file.flush()
        except OSError as error:
            folder = tempfile.gettempdir()
            raise InputError(
                f"{folder}: rows cannot be kept there: {error.strerror}; free some space, or set TMPDIR to another folder"
            ) from None
        self._in_file += len(self._held)
        self._held.clear()


class OnDemand(Sequence[T_co]):
    """A sequence whose items are made when they are asked for, and not kept. It equals any sequence of equal items."""

    @abstractmethod
    def make(self, number: int) -> T_co:
        """The item of this number, from 0."""

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T_co, ...]: ...
    def __getitem__(self, index: int | slice) -> T_co | tuple[T_co, ...]:
        if isinstance(index, slice):
            return tuple(self.make(number) for number in range(len(self))[index])
        return self.make(range(len(self))[index])

    def __iter__(self) -> Iterator[T_co]:
        return (self.make(number) for number in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(ours == theirs for ours, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))
