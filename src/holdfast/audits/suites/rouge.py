"""ROUGE as everybody counts it: Google's implementation, stemmed, F-measure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from holdfast.audits.suites.suite import is_missing, written
from holdfast.config.extras import need_extra
from holdfast.records import Completion, Figure
from holdfast.stats import bootstrap_mean


def rouge_figures(
    prefix: str, kinds: Sequence[str], references: Sequence[str], completions: Sequence[Completion]
) -> list[Figure]:
    """The mean F-measure of every kind (rouge1, rouge2, rougeL). A missing answer scores 0."""
    scores = [
        _scorer(tuple(kinds)).score(*pair) for pair in zip(references, (c.text for c in completions), strict=True)
    ]
    unscored = sum(map(is_missing, completions))
    figures = []
    for kind in kinds:
        values = [float(score[kind].fmeasure) for score in scores]
        meaning = f"ROUGE-{kind.removeprefix('rouge')} F against the reference"
        name = f"{prefix}_{kind}"
        figures.append(Figure(name, bootstrap_mean(values), "more", meaning, "", unscored, written(values)))
    return figures


@cache
def _scorer(kinds: tuple[str, ...]) -> Any:
    need_extra("eval", "ROUGE", "rouge_score")
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(kinds), use_stemmer=True)
