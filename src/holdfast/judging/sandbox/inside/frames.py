"""Messages on a byte stream: four bytes of length, then the message."""

from __future__ import annotations

import os
import struct

HEADER = struct.Struct("!I")


def write_frame(descriptor: int, data: bytes) -> None:
    """Write the whole message. How much is read is limited by the reader."""
    view = memoryview(HEADER.pack(len(data)) + data)
    while view:
        view = view[os.write(descriptor, view) :]


def read_frame(descriptor: int) -> bytes | None:
    """The next message, or None when the other side has gone."""
    header = _read_exactly(descriptor, HEADER.size)
    return None if header is None else _read_exactly(descriptor, HEADER.unpack(header)[0])


def _read_exactly(descriptor: int, length: int) -> bytes | None:
    data = bytearray()
    while len(data) < length:
        part = os.read(descriptor, min(length - len(data), 1 << 16))
        if not part:
            return None
        data += part
    return bytes(data)
