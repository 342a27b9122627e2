"""The role of a token: what it is trained, weighed and counted by."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    """Why a token is there. Integers, so that a tensor compares with a member directly: ``roles == Role.ERROR``.

    Everything but ``PROMPT`` carries a training target and is counted in a stream's denominator (MATH §2).
    """

    PROMPT = 0  # context: system and user turns, template glue, padding
    RESPONSE = 1  # an ordinary answer
    PREFIX = 2  # [000] the right beginning of a backtrack trace
    ERROR = 3  # [000] a wrong span that will be taken back
    UNDO = 4  # [000] one <UNDO> per error token
    CORRECTION = 5  # [000] what replaces the error
    SAMPLE = 6  # [004] an attempt at the answer
    DECISION = 7  # [004] stop, or try again

    @property
    def label(self) -> str:
        """The name written in data files."""
        return self.name.lower()
