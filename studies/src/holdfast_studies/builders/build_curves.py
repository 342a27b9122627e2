"""Fit the curves of the judges that read one number: `topic`, `nearness`, `information` and `yes_no`.

``python -m holdfast_studies.builders.build_curves REPLIES --model MODEL`` writes ``judging/outcomes/curves.json``. REPLIES is a
file that is not in the repository. Only the choosing half is used: labels by two readers, of replies that do not decline in
their first words. A curve has two numbers, and the figure beside it (the area under the ROC curve) does not depend on them.

``--embeddings FOLDER`` fits one more curve of `nearness`, to the model of sentence embeddings in that folder. Beside either curve
stand the cosines that its model gives a few fixed sentences, by which the judge recognises the model.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from holdfast.config import mistakes_end_it
from holdfast.judging import (
    CURVES,
    Curve,
    Request,
    information,
    nearness,
    opening,
    probe_cosines,
    read_embedder,
    reply_logps,
    sentence_embedder,
    words_used,
    yes_over_no,
)
from holdfast.models import load
from holdfast.records import Outcome
from holdfast_studies.builders.outcome_labels import LabelledReply, read_labels, with_replies

PENALTY = 1e-3
MINILM = "all-MiniLM-L6-v2"
NUM_LETTERS = 1000


def fit_curve(values: Sequence[float], is_outcome: Sequence[bool], says: Outcome) -> Curve:
    """Logistic regression on one number; the tiny penalty keeps the slope finite where the number decides everything."""
    scale = float(np.std(values)) or 1.0
    x, y = np.array(values) / scale, np.array(is_outcome, float)

    def loss(line: Any) -> float:
        z = line[0] * x + line[1]
        return float(np.mean(np.logaddexp(0, z) - y * z) + PENALTY * line[0] ** 2)

    slope, intercept = minimize(loss, np.zeros(2)).x
    return Curve(says, float(slope) / scale, float(intercept))


def area(values: ArrayLike, is_outcome: ArrayLike, weights: ArrayLike | None = None) -> float:
    """P(a reply with the outcome has the higher value than one without); ties count half. The area under the ROC curve.

    ``weights``: how often each reply counts, once unless said.
    """
    yes = np.asarray(is_outcome, bool)
    counts = np.ones(len(yes)) if weights is None else np.asarray(weights, float)
    _, place = np.unique(np.asarray(values, float), return_inverse=True)
    has, lacks = (np.bincount(place, weights=counts * side) for side in (yes, ~yes))
    pairs = has.sum() * lacks.sum()
    return float((has * (np.cumsum(lacks) - lacks / 2)).sum() / pairs) if pairs else math.nan


def figures(
    name: str, says: Outcome, values: Sequence[float], rows: Sequence[LabelledReply], model: str | None
) -> dict[str, Any]:
    """The curve of one part, how many labels it is from, and how well the number orders them."""
    is_outcome = [row.label.label == says for row in rows]
    curve = fit_curve(values, is_outcome, says)
    auc = area(values, is_outcome)
    print(f"{name}: {len(rows)} labels, area {max(auc, 1 - auc):.3f}")
    return {
        **{key: value if isinstance(value, str) else round(value, 5) for key, value in curve._asdict().items()},
        "labels": len(rows),
        "area": round(max(auc, 1 - auc), 3),
        "model": model,
    }


def build(replies: Path, model: str | None, num_read: int, embeddings: Path | None) -> dict[str, Any]:
    """All curves. Those that need a model or a folder that is not given are kept as they are."""
    rows = [row for row in with_replies(read_labels(), replies) if row.label.half == "choosing"]
    rows = [row for row in rows if row.reply.strip() and not opening(row.reply).refuses]
    curves: dict[str, Any] = json.loads(CURVES.read_text(encoding="utf-8")) if CURVES.is_file() else {}
    pairs = _pairs(rows)
    curves["topic"] = figures("topic", "missed", words_used(pairs), rows, None)
    embedders = {MINILM: sentence_embedder("cpu")}
    if embeddings is not None:
        embedders[embeddings.name] = read_embedder(embeddings)
    for name, embed in embedders.items():
        key = "nearness" if name == MINILM else f"nearness:{name}"
        curves[key] = figures(key, "missed", nearness(pairs, embed=embed), rows, name)
        curves[key]["probes"] = [round(cosine, 4) for cosine in probe_cosines(embed)]
    if model is not None:
        loaded = load(model, device="cpu", dtype="float32")
        logps = reply_logps(loaded)
        some = random.Random("curves").sample(rows, min(num_read, len(rows)))
        name = Path(model).name
        curves["information"] = figures("information", "missed", information(logps, _pairs(some)), some, name)
        curves["yes_no"] = figures("yes_no", "complied", yes_over_no(logps, _pairs(some)), some, name)
    return curves


def _pairs(rows: Sequence[LabelledReply]) -> list[tuple[Request, str]]:
    return [(row.turns, row.reply[:NUM_LETTERS]) for row in rows]


def main() -> None:
    """Write the curves to their place in the package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("replies", type=Path)
    parser.add_argument("--model", help="a small instruct model for information and yes_no, best an untouched one")
    parser.add_argument("--embeddings", type=Path, help="the folder of another model of sentence embeddings")
    parser.add_argument("--num-read", type=int, default=60, help="replies that the model reads")
    given = parser.parse_args()
    with mistakes_end_it():
        curves = build(given.replies, given.model, given.num_read, given.embeddings)
        CURVES.write_text(json.dumps(curves, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
