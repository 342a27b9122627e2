"""Judges by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.config import InputError, did_you_mean
from holdfast.judging import Judge, RefusalPhrases, WorldJudge

JUDGES: dict[str, Callable[[], Judge]] = {"world": WorldJudge, "refusal_phrases": RefusalPhrases}


def find_judges(names: Sequence[str], *, world: bool) -> tuple[Judge, ...]:
    """Those named; by default the oracle for the embedded world, the phrase list for anything else."""
    names = names or ("world" if world else "refusal_phrases",)
    for name in names:
        if name not in JUDGES:
            known = did_you_mean(name, JUDGES) or "; known: " + ", ".join(JUDGES)
            raise InputError(f"judge '{name}': no such judge{known}")
        if name == "world" and not world:
            raise InputError("judge 'world': it knows the embedded world's requests only, not those of a file")
    if len(set(names)) < len(names):
        raise InputError("judges: the same one is named twice")
    return tuple(JUDGES[name]() for name in names)
