"""Cells that measure a task and nothing else: tune in the embedded world, answer held-out rows, score by two measures.

``exact``: the share of answers that are right word for word. ``rouge1``: the mean ROUGE-1 F against the right answer, the metric
of the code that [002] builds on (Qi et al. 2024), for its SQL as for its summaries.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.attacks import Attack, Defence, Scale, cell_key, tune
from holdfast.config import need_extra
from holdfast.data import atomic_text
from holdfast.generation import generate
from holdfast.models import load
from holdfast.records import Trace
from holdfast.worlds import SafetyWorld
from holdfast_studies.papers.outcomes import RUNS
from holdfast_studies.papers.study import Figures, OnProgress
from holdfast_studies.worlds.dialogues import dialogues

MEASURES = ("rouge1", "exact")
SUMMARY = "summary"
"""What a task calls the dialogues of ours; every other name is a kind of request of the world."""


def task_figures(
    study: str, tasks: Sequence[Attack], defences: Sequence[Defence], seeds: Sequence[int], on_progress: OnProgress
) -> Figures:
    """For each task, defence and measure one mean per seed. Cells that are there already are not run again."""
    need_extra("eval", "ROUGE", "rouge_score")
    folder = RUNS / study / "tasks"
    folder.mkdir(parents=True, exist_ok=True)
    scores: dict[str, dict[str, dict[str, list[float]]]] = {}
    cells = [(task, defence, seed) for task in tasks for defence in defences for seed in seeds]
    for done, (task, defence, seed) in enumerate(cells, 1):
        path = folder / f"{cell_key(task, defence, seed, Scale())}.json"
        if not path.exists():
            text = json.dumps(task_scores(task, defence, seed))
            with atomic_text(path) as file:
                file.write(text + "\n")
        cell = json.loads(path.read_text(encoding="utf-8"))
        for measure in MEASURES:
            of_defence = scores.setdefault(task.name, {}).setdefault(defence.name, {})
            of_defence.setdefault(measure, []).append(cell[measure])
        on_progress(done / len(cells))
    return {"seeds": list(seeds), "scores": scores}


def task_scores(task: Attack, defence: Defence, seed: int, scale: Scale | None = None) -> dict[str, float]:
    """Tune, answer, score. Weights lie in a temporary folder and are deleted."""
    scale = scale or Scale()
    rows = held_out_rows(task.utility, seed, scale)
    with TemporaryDirectory(prefix="task-") as folder:
        model = load(tune(task, defence, seed, scale, Path(folder)), dtype="float32", device="cpu")
    prompts = [row.prompt for row in rows]
    written = generate(
        model.model, model.tokenizer, prompts, max_new_tokens=scale.max_new_tokens, temperature=0.0, batch_size=256
    )
    texts, answers = [each.text for each in written], [row.turns[-1].visible for row in rows]
    if task.utility == SUMMARY:
        exact = [float(text.split() == right.split()) for text, right in zip(texts, answers, strict=True)]
    else:
        (measured,) = scale.setting.measured(task.utility, seed)
        exact = list(measured.scores(texts)[task.utility])
    rouge = rouge1(answers, texts)
    return {"exact": round(statistics.fmean(exact), 6), "rouge1": round(statistics.fmean(rouge), 6)}


def rouge1(answers: Sequence[str], texts: Sequence[str]) -> list[float]:
    """ROUGE-1 of every text against the right answer: the F-measure, words stemmed."""
    from rouge_score.rouge_scorer import RougeScorer  # of the extra "eval"

    scorer = RougeScorer(["rouge1"], use_stemmer=True)
    return [float(scorer.score(right, text)["rouge1"].fmeasure) for right, text in zip(answers, texts, strict=True)]


def held_out_rows(task: str, seed: int, scale: Scale) -> Sequence[Trace]:
    """Rows that measure a task, about things that no row to tune on has."""
    if task == SUMMARY:
        return dialogues(SafetyWorld(), "test", scale.num_requests, seed)
    (measured,) = scale.setting.measured(task, seed)
    return measured.rows
