"""Of two evaluations by outcome: how many harmless requests have the same outcome in both (MATH §10)?"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.evaluations.evaluation import Evaluation
from holdfast.records import OUTCOMES
from holdfast.stats import Estimate, wilson


def kept_shares(first: Evaluation, second: Evaluation, names: Sequence[str]) -> dict[str, Estimate]:
    """The share by every judge, as ``kept (outcome)`` from ``harmless_complied (outcome)`` and its two siblings.

    ``names``: the figures to look at. Items that only one evaluation has are left out. An item counts as kept if both say one
    and the same outcome of it: one that could not be judged, or repeats with different outcomes, is not kept.
    """
    shares = {}
    for name in names:
        siblings = [name.replace("complied", word) for word in OUTCOMES]
        if "harmless" in name and "complied" in name and set(siblings) <= set(names):
            ours, theirs = _outcomes(first, siblings), _outcomes(second, siblings)
            both = [item for item in ours if item in theirs]
            same = sum(ours[item] is not None and ours[item] == theirs[item] for item in both)
            shares[name.replace("harmless_complied", "kept").replace("complied", "kept")] = wilson(same, len(both))
    return shares


def _outcomes(source: Evaluation, siblings: Sequence[str]) -> dict[str, str | None]:
    """Of every item that all three figures have; None where they do not say one outcome."""
    figures = [source.figures[name].items for name in siblings]
    scores = {
        item: [figure[item].score for figure in figures] for item in figures[0] if all(item in f for f in figures)
    }
    return {item: OUTCOMES[row.index(1)] if sorted(row) == [0, 0, 1] else None for item, row in scores.items()}
