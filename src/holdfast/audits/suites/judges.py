"""The judges of an audit: those that were named, or who judges by default."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.config import InputError
from holdfast.judging import JUDGE_TIMEOUT, Judge, find_judge

DEFAULT = ("outcome", "refusal_phrases")
"""The first one's word is the audit's. The second is what most published figures count, for comparison."""


def find_judges(names: Sequence[str], *, world: bool, timeout: float = JUDGE_TIMEOUT) -> tuple[Judge, ...]:
    """Those named; by default the oracle for the embedded world, and for anything else ``DEFAULT``."""
    names = names or (("world",) if world else DEFAULT)
    given: Sequence[object] = names  # whatever a caller really put there
    for name in given:
        if not isinstance(name, str):
            kind = type(name).__name__
            raise InputError(
                f"judges: expected names, got a {kind}; register yours in holdfast.judging.JUDGES by a name"
            )
    judges = tuple(find_judge(name, timeout=timeout) for name in names)
    if "world" in names and not world:
        raise InputError("judge 'world': it knows the embedded world's requests only, not those of a file")
    if len({judge.name for judge in judges}) < len(names):
        raise InputError("judges: the same one is named twice")
    return judges
