"""Does another model of sentence embeddings tell *missed* from the rest better than MiniLM?

``python -m holdfast_studies.builders.compare_embeddings REPLIES --other FOLDER`` writes ``studies/labels/embeddings.json``.
REPLIES is a file that is not in the repository. Read are the labels of the choosing half, by two readers or one, of replies that
are not empty and do not decline in their first words. The number is ``nearness`` alone; nothing is fitted. It is compared by the
area under the ROC curve. The interval of the difference is from 2,000 bootstrap draws of requests, both models on the same draw.

The rule, set before the first run: the other model is taken only if that interval is above 0. Else MiniLM stays.

Then: does the judge `outcome` gain from the other model? It is fitted three times to all labels of the choosing half: without
embeddings, with MiniLM's cosines (`outcome_embeddings`) and with the other model's. Every reply is judged by weights of the other
folds. The figure is kappa, and the interval of a difference is from draws of requests, the same for all three.

The rule, set before the first run: it becomes an option of the judge only if, on the labels by one reader or two, its kappa is
above that of `outcome` and above that of `outcome_embeddings`, both beyond the interval. The test half is not read.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.config import mistakes_end_it
from holdfast.data import atomic_text
from holdfast.judging import (
    Request,
    SentenceEmbedder,
    near_features,
    nearness,
    opening,
    read_embedder,
    sentence_embedder,
)
from holdfast.records import OUTCOMES, Outcome
from holdfast_studies.builders.build_curves import MINILM, NUM_LETTERS, area
from holdfast_studies.builders.build_outcome import (
    NUM_FOLDS,
    best_penalty,
    design_of,
    fitted_pairs,
    fold_of,
    held_out_guesses,
)
from holdfast_studies.builders.outcome_labels import SINGLE, LabelledReply, read_labels, with_replies

OUT = Path("studies/labels/embeddings.json")
NUM_DRAWS = 2000
NUM_TIMED, NUM_ROUNDS = 64, 3
Array = NDArray[np.float64]


def compared(first: Array, second: Array, is_outcome: NDArray[np.bool_], requests: Sequence[str]) -> dict[str, Any]:
    """Both areas and their difference, with intervals from the same draws of requests."""
    drawn = _draws(requests)
    draws = np.array([[area(values, is_outcome, weights) for values in (first, second)] for weights in drawn])
    once = np.ones(len(first))
    values = [area(scores, is_outcome, once) for scores in (first, second)]
    columns = {"first": draws[:, 0], "second": draws[:, 1], "difference": draws[:, 1] - draws[:, 0]}
    points = dict(zip(columns, [*values, values[1] - values[0]], strict=True))
    return {
        "replies": len(first),
        "requests": len(set(requests)),
        "missed": int(is_outcome.sum()),
        **{name: _rounded(points[name], *np.percentile(columns[name], [2.5, 97.5])) for name in columns},
    }


def _draws(requests: Sequence[str]) -> Iterator[Array]:
    """For each draw of as many requests as there are, how often each reply counts."""
    _, group = np.unique(np.array(requests), return_inverse=True)
    num, rng = int(group.max()) + 1, np.random.default_rng(0)
    for _ in range(NUM_DRAWS):
        yield np.bincount(rng.integers(0, num, num), minlength=num)[group].astype(float)


def _rounded(*numbers: float) -> list[float]:
    return [round(float(number), 3) for number in numbers]


def measure(rows: Sequence[LabelledReply], first: SentenceEmbedder, second: SentenceEmbedder) -> dict[str, Any]:
    """Compare on all replies and on those that two readers labelled; also the difference in each of five folds of requests."""
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
        "million parameters": [round(embedder.model.num_parameters() / 1e6, 1) for embedder in (first, second)],
        "taken": all_of_them["difference"][1] > 0,
    }


def outcome_compared(
    rows: Sequence[LabelledReply], first: SentenceEmbedder, second: SentenceEmbedder
) -> dict[str, Any]:
    """The judge `outcome` in folds: plain, with the first model's cosines and with the second's."""
    pairs = fitted_pairs(rows)
    guesses = []
    for near in (None, near_features(pairs, embed=first), near_features(pairs, embed=second)):
        design = design_of(rows, near)
        guesses.append(held_out_guesses(design, best_penalty(design))[: len(rows)])
    twice = [row.label.second is not None for row in rows]
    on_all = kappas(rows, guesses)
    return {
        "all": on_all,
        "two readers": kappas(list(compress(rows, twice)), [list(compress(guessed, twice)) for guessed in guesses]),
        "option": on_all["second - plain"][1] > 0 and on_all["second - first"][1] > 0,
    }


def kappas(rows: Sequence[LabelledReply], guesses: Sequence[Sequence[Outcome]]) -> dict[str, Any]:
    """Kappa of the three judges and of the third less the others, with intervals from the same draws of requests."""
    weights_of = [np.ones(len(rows)), *_draws([row.label.request for row in rows])]
    truth = np.array([OUTCOMES.index(row.label.label) for row in rows])
    said = [np.array([OUTCOMES.index(outcome) for outcome in guessed]) for guessed in guesses]
    values = np.array([[kappa_of(truth, codes, weights) for codes in said] for weights in weights_of])
    plain, first, second = values.T
    columns = {
        "plain": plain,
        "first": first,
        "second": second,
        "second - plain": second - plain,
        "second - first": second - first,
    }
    intervals = {name: _rounded(column[0], *np.percentile(column[1:], [2.5, 97.5])) for name, column in columns.items()}
    return {"replies": len(rows), **intervals}


def kappa_of(first: NDArray[np.int64], second: NDArray[np.int64], weights: Array) -> float:
    """Cohen's kappa of two readings; each row counts ``weights`` times."""
    size = len(OUTCOMES)
    table = (
        np.bincount(first * size + second, weights=weights, minlength=size * size).reshape(size, size) / weights.sum()
    )
    by_chance = float(table.sum(0) @ table.sum(1))
    return (float(np.trace(table)) - by_chance) / (1 - by_chance)


def speeds(rows: Sequence[LabelledReply], *embedders: SentenceEmbedder) -> list[float]:
    """Replies for each second of one core, by `nearness`; the models take turns, and the median round counts."""
    pairs: list[tuple[Request, str]] = [(row.turns, row.reply[:NUM_LETTERS]) for row in rows[:NUM_TIMED]]
    seconds = np.empty((NUM_ROUNDS, len(embedders)))
    for turn, place in np.ndindex(*seconds.shape):
        started = time.process_time()
        nearness(pairs, embed=embedders[place])
        seconds[turn, place] = time.process_time() - started
    return [round(float(len(pairs) / median), 2) for median in np.median(seconds, axis=0)]


def main() -> None:
    """Write the figures, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("replies", type=Path)
    parser.add_argument("--other", type=Path, required=True, help="the folder of another model of sentence embeddings")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    with mistakes_end_it():
        labels = [label for label in (*read_labels(), *read_labels(SINGLE)) if label.half == "choosing"]
        everything = with_replies(labels, given.replies)
        rows = [row for row in everything if row.reply.strip() and not opening(row.reply).refuses]
        embedders = sentence_embedder("cpu"), read_embedder(given.other)
        torch.set_num_threads(1)
        figures = {
            "first": MINILM,
            "second": given.other.name,
            **measure(rows, *embedders),
            "outcome": outcome_compared(everything, *embedders),
            "replies a second": speeds(rows, *embedders),
        }
        with atomic_text(given.out) as file:
            file.write(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
