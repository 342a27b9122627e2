"""Which statistics to take, and what they can be taken from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.config import InputError, nearest_or_all
from holdfast.heads.anchor import Reference
from holdfast.heads.stats import FROM_ANCHOR, FROM_ANCHOR_LOGITS

NAMES = ("logp", "top", "entropy", *FROM_ANCHOR)


@dataclass(frozen=True, slots=True)
class Want:
    """The statistics besides logp and top; ``live``: they need the anchor's logits, which are at hand."""

    stats: frozenset[str]
    live: bool
    soften: float | None

    @staticmethod
    def make(reference: Reference | None, names: Iterable[str] | None, soften: float | None) -> Want:
        """Which statistics to take: those of ``names`` (None: all) that the reference can give. delta brings top_ref along."""
        if soften is not None and not soften > 0:
            raise InputError(f"soften: expected a temperature above 0, got {soften}")
        wanted = NAMES if names is None else tuple(names)
        for name in wanted:
            if name not in NAMES:
                raise InputError(f"want: no statistic '{name}'{nearest_or_all(name, NAMES)}")
        possible = {"entropy", *FROM_ANCHOR}
        if reference is None:
            possible -= set(FROM_ANCHOR)
        elif not reference.live:
            possible -= set(FROM_ANCHOR_LOGITS)
            if reference.top is None:
                possible -= {"delta", "top_ref"}
        stats = frozenset(possible & set(wanted))
        live = reference is not None and reference.live and not stats.isdisjoint(FROM_ANCHOR)
        if "delta" not in stats:
            return Want(stats, live, None)
        if soften is not None and not live:
            raise InputError("a softened argmax needs the anchor's hidden states or logits: a cache cannot give it")
        return Want(stats | {"top_ref"}, live, soften)
