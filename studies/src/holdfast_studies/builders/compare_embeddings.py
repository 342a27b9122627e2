"""Does another model of sentence embeddings tell *missed* from the rest better than MiniLM?

``python -m holdfast_studies.builders.compare_embeddings REPLIES --other FOLDER`` writes ``studies/labels/embeddings.json``.
REPLIES is a file that is not in the repository. Read are the labels of the choosing half, by two readers or one, of replies that
are not empty and do not decline in their first words. The number is ``nearness`` alone; nothing is fitted. It is compared by the
area under the ROC curve. The interval of the difference is from 2,000 bootstrap draws of requests, both models on the same draw.

The rule, set before the first run: the other model is taken only if that interval is above 0. Else MiniLM stays.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.config import mistakes_end_it
from holdfast.data import atomic_text
from holdfast.judging import Request, SentenceEmbedder, nearness, opening, sentence_embedder
from holdfast_studies.builders.build_curves import NUM_LETTERS, area
from holdfast_studies.builders.build_outcome import NUM_FOLDS, fold_of
from holdfast_studies.builders.outcome_labels import SINGLE, LabelledReply, read_labels, with_replies

OUT = Path("studies/labels/embeddings.json")
NUM_DRAWS = 2000
Array = NDArray[np.float64]


def compared(first: Array, second: Array, is_outcome: NDArray[np.bool_], requests: Sequence[str]) -> dict[str, Any]:
    """Both areas and their difference, with intervals from the same draws of requests."""
    _, group = np.unique(np.array(requests), return_inverse=True)
    num, rng = int(group.max()) + 1, np.random.default_rng(0)
    drawn = (np.bincount(rng.integers(0, num, num), minlength=num)[group].astype(float) for _ in range(NUM_DRAWS))
    draws = np.array([[area(values, is_outcome, weights) for values in (first, second)] for weights in drawn])
    once = np.ones(len(first))
    values = [area(each, is_outcome, once) for each in (first, second)]
    columns = {"first": draws[:, 0], "second": draws[:, 1], "difference": draws[:, 1] - draws[:, 0]}
    points = dict(zip(columns, [*values, values[1] - values[0]], strict=True))
    return {
        "replies": len(first),
        "requests": num,
        "missed": int(is_outcome.sum()),
        **{name: _rounded(points[name], *np.percentile(columns[name], [2.5, 97.5])) for name in columns},
    }


def _rounded(*numbers: float) -> list[float]:
    return [round(float(number), 3) for number in numbers]


def measure(rows: Sequence[LabelledReply], first: SentenceEmbedder, second: SentenceEmbedder) -> dict[str, Any]:
    """On all replies, on those that two readers labelled, and the difference in each of five folds of requests."""
    pairs: list[tuple[Request, str]] = [(row.turns, row.reply[:NUM_LETTERS]) for row in rows]
    scores = [-np.array(nearness(pairs, embed=embed)) for embed in (first, second)]  # nearer is less often missed
    is_missed = np.array([row.label.label == "missed" for row in rows])
    requests = [row.label.request for row in rows]
    twice = np.array([row.label.second is not None for row in rows])
    folds = np.array([fold_of(request) for request in requests])

    def on(keep: NDArray[np.bool_]) -> dict[str, Any]:
        chosen = [request for request, kept in zip(requests, keep, strict=True) if kept]
        return compared(scores[0][keep], scores[1][keep], is_missed[keep], chosen)

    all_of_them = on(np.ones(len(rows), bool))
    return {
        "all": all_of_them,
        "two readers": on(twice),
        "difference by fold": [on(folds == fold)["difference"][0] for fold in range(NUM_FOLDS)],
        "million parameters": [round(each.model.num_parameters() / 1e6, 1) for each in (first, second)],
        "taken": all_of_them["difference"][1] > 0,
    }


def main() -> None:
    """Write the figures, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("replies", type=Path)
    parser.add_argument("--other", type=Path, required=True, help="the folder of another model of sentence embeddings")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    with mistakes_end_it():
        labels = [label for label in (*read_labels(), *read_labels(SINGLE)) if label.half == "choosing"]
        rows = with_replies(labels, given.replies)
        rows = [row for row in rows if row.reply.strip() and not opening(row.reply).refuses]
        embedders = sentence_embedder("cpu"), SentenceEmbedder(given.other)
        figures = {"first": "all-MiniLM-L6-v2", "second": given.other.name, **measure(rows, *embedders)}
        with atomic_text(given.out) as file:
            file.write(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
