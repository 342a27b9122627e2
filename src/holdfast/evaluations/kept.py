"""Of two evaluations by outcome: how many harmless requests have the same outcome in both (MATH §10)?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.evaluations.evaluation import Evaluation
from holdfast.records import OUTCOMES
from holdfast.stats import Estimate, wilson

COMPLIED = re.compile(r"(?P<head>harmless_|.*harmless/)complied(?P<tail>.*)")
"""A figure of harmless requests: an audit's ``harmless_complied (outcome)``, lm-eval's ``holdfast_refusal_harmless/complied``."""


def kept_shares(first: Evaluation, second: Evaluation, names: Sequence[str]) -> dict[str, Estimate]:
    """The share by every judge, as ``kept (outcome)`` from ``harmless_complied (outcome)`` and its two siblings.

    ``names``: the figures to look at. Items that only one evaluation has are left out. An item counts as kept if both say one
    and the same outcome of it: one that could not be judged, or repeats with different outcomes, is not kept.
    """
    shares = {}
    for complied in filter(None, map(COMPLIED.fullmatch, names)):
        head, tail = complied["head"], complied["tail"]
        siblings = [f"{head}{word}{tail}" for word in OUTCOMES]
        if set(siblings) <= set(names):
            ours, theirs = _outcomes(first, siblings), _outcomes(second, siblings)
            both = ours.keys() & theirs.keys()
            same = sum(ours[item] is not None and ours[item] == theirs[item] for item in both)
            if both:
                shares[f"{head.removeprefix('harmless_')}kept{tail}"] = wilson(same, len(both))
    return shares


def _outcomes(source: Evaluation, siblings: Sequence[str]) -> dict[str, str | None]:
    """Of every item that all three figures have; None where they do not say one outcome."""
    figures = [source.figures[name].items for name in siblings]
    scores = {
        item: [figure[item].score for figure in figures] for item in figures[0] if all(item in f for f in figures)
    }
    return {item: OUTCOMES[row.index(1)] if sorted(row) == [0, 0, 1] else None for item, row in scores.items()}
