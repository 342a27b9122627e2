"""The page's section and the ledger's file, from the files of a run: no model is asked.

An arm without one right answer in distribution is broken: it is named as broken and compared with no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast.diagnostics import Columns, read_transcripts
from holdfast.models import named_with_origin
from holdfast.stats import holm, paired_difference
from holdfast_studies.choosing.page import write_first_section
from holdfast_studies.decisions.checking import CHOICE, CURVE, SKIPPED, CheckingJob, finished
from holdfast_studies.decisions.checking_config import BASE, DFT, OWN, RL, RL_REWARD, RULE, SFT, TITLES, CheckingConfig
from holdfast_studies.decisions.decision_study import ROLLOUTS
from holdfast_studies.decisions.decision_table import (
    StudyCell,
    cell_of,
    final_right,
    percent,
    prediction,
    seeds_shown,
    short,
)
from holdfast_studies.decisions.products import split_words, stated
from holdfast_studies.json_files import read_json, write_json
from holdfast_studies.markdown import table

BROKEN = "broken: not compared"
TITLE = "# Decide and sample: results\n"
PAIRS = (
    (RL, BASE), (RL, SFT), (RL, OWN), (RL_REWARD, BASE), (RL_REWARD, OWN), (RL, RL_REWARD), (OWN, BASE), (SFT, BASE),
    (DFT, SFT), (DFT, BASE),
)  # fmt: skip
SETTLED = 0.05
"""A curve has settled if the accuracy changed by less than this between its last two points."""
HOW = """\
Every arm starts from the same model and is asked the same way, by the model's own chat template at temperature {temperature:g}:
work and answer, a check that does the work again, a decision to stop or to try again. Training, validation and test have no
product in common. p_s is of first attempts ([004]'s estimator), *pooled* of all attempts; p_dC: stops after a right attempt;
p_dW: tries again after a wrong one; echo: the next attempt comes to the same number. *Predicted*: [004]'s formula with p_s of
first attempts, p_dC and p_dW of other problems, and how many points it is off. A response that is cut off counts as wrong.
Intervals: 95 %, bootstrap over problems. Sizes with a star were trained on."""


def checking_cells(config: CheckingConfig) -> list[StudyCell]:
    """Every arm that has been tested, at every size, all seeds together."""
    cells = []
    for name in (BASE, *config.arms):
        by_seed = {
            job.seed: read_transcripts(job.folder / ROLLOUTS, Columns(group="size")).transcripts
            for job in finished(config, name)
        }
        for size in config.eval_sizes if by_seed else ():
            cells.append(cell_of(name, size, by_seed, split_words, stated, max_attempts=None))
    return cells


def broken_arms(config: CheckingConfig, cells: Sequence[StudyCell]) -> list[str]:
    """The arms with no right response at any training size."""
    seen: dict[str, int] = {}
    for cell in cells:
        if cell.size in config.train_sizes:
            seen[cell.model] = seen.get(cell.model, 0) + sum(final_right(cell.judged))
    return [name for name, num_right in seen.items() if num_right == 0]


def comparisons(config: CheckingConfig, cells: Sequence[StudyCell]) -> list[dict[str, Any]]:
    """Compare pairs of arms on the same problems, in and out of distribution. Broken arms are left out."""
    broken = broken_arms(config, cells)
    parts = {
        "in distribution": list(config.train_sizes),
        "out of distribution": [size for size in config.eval_sizes if size not in config.train_sizes],
    }
    rows: list[dict[str, Any]] = []
    tested = {cell.model for cell in cells}
    for part, sizes in parts.items():
        for one, other in PAIRS if sizes else ():
            if not {one, other} <= tested:
                continue
            row: dict[str, Any] = {"part": part, "one": one, "other": other, "by": None, "p": None}
            if not {one, other} & set(broken):
                scores = [_scores(cells, name, sizes) for name in (one, other)]
                shared = sorted(scores[0].keys() & scores[1].keys())
                gap = paired_difference([scores[1][key] for key in shared], [scores[0][key] for key in shared])
                row |= {"by": gap.by.to_json(), "p": gap.p}
            rows.append(row)
    adjusted = holm({str(at): row["p"] for at, row in enumerate(rows) if row["p"] is not None})
    return [{**row, "p": adjusted.get(str(at))} for at, row in enumerate(rows)]


def _scores(cells: Sequence[StudyCell], name: str, sizes: Sequence[str]) -> dict[str, float]:
    """Whether each problem was answered rightly, by seed and problem."""
    return {
        problem: float(right)
        for cell in cells
        if cell.model == name and cell.size in sizes
        for problem, right in zip(cell.judged.problems, final_right(cell.judged), strict=True)
    }


def report(config: CheckingConfig, cells: Sequence[StudyCell]) -> dict[str, Any]:
    """What the ledger keeps: the cells as in `holdfast diagnose decisions --json`, and which sizes were trained on."""
    if not cells:
        raise InputError(f"{config.run}: no arm has been tested; `run` does it")
    return {
        "kind": "decisions",
        "model": named_with_origin(config.model).rpartition("/")[2],
        "trained": list(config.train_sizes),
        "broken": broken_arms(config, cells),
        "comparisons": comparisons(config, cells),
        "cells": [cell.row() for cell in cells],
    }


def write_results(config: CheckingConfig, command: str, *, page: Path | None, report_file: Path | None) -> str:
    """Write the section between its marks, first on the page, and the ledger's file; returns the section."""
    cells = checking_cells(config)
    figures = report(config, cells)
    text = section(config, cells, figures, command)
    if page is not None:
        write_first_section(page, text, f"checking-{Path(config.run).name}", TITLE)
    if report_file is not None:
        write_json(report_file, figures)
    return text


# --- the section ----------------------------------------------------------------------------------------------------


def section(config: CheckingConfig, cells: Sequence[StudyCell], figures: Mapping[str, Any], command: str) -> str:
    """The section in Markdown. Every number is from the files of the run; ``figures`` is their report."""
    seeds = {name: len(list(finished(config, name))) for name in (BASE, *config.arms)}
    short_of = [f"{TITLES[name]} {num}" for name, num in seeds.items() if num < len(config.seeds)]
    waiting = f" Not all seeds are there: {', '.join(short_of)} of {len(config.seeds)}." if short_of else ""
    parts = [
        f"## Checking oneself: {config.title}",
        f"Written by `{command}`. Model: {figures['model']}. {len(config.seeds)} seeds, {config.num_test} products per seed and"
        f" size.{waiting}",
        HOW.format(temperature=config.temperature),
        _form(config),
        RULE,
        "### Accuracy and its parts",
        _cells_table(config, cells, figures["broken"]),
        *_skipped(config),
        "### Side by side",
        _pairs_table(figures["comparisons"]),
        "### Along training",
        _curve_table(config),
        "### Gradients by role along training",
        _gradient_table(config),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _form(config: CheckingConfig) -> str:
    if config.form is None:
        return ""
    how = config.form
    return (
        f"*Base* is the pretrained model after {how.steps} steps of SFT (rate {how.lr:g}) on {how.rows} traces of"
        f" {', '.join(config.form_sizes)}, which teach it the form. Every arm starts there."
    )


def _cells_table(config: CheckingConfig, cells: Sequence[StudyCell], broken: Sequence[str]) -> str:
    head = ["arm", "size", "accuracy", "p_s", "p_s pooled", "p_dC", "p_dW", "echo", "cut off", "predicted", "by seed"]
    rows = []
    for cell in cells:
        f = cell.figures
        star = "*" if cell.size in config.train_sizes else ""
        accuracy = BROKEN if cell.model in broken else percent(f.observed)
        rates = [percent(rate) for rate in (f.p_s, f.p_s_pooled, f.p_dC, f.p_dW, f.echo)]
        rest = [short(f.cut_off), prediction(f), seeds_shown(cell)]
        rows.append([TITLES[cell.model], cell.size + star, accuracy, *rates, *rest])
    return table(head, rows)


def _skipped(config: CheckingConfig) -> Iterator[str]:
    for name in config.arms:
        for seed in config.seeds:
            path = CheckingJob(config, name, seed).folder / SKIPPED
            if path.exists():
                yield f"{TITLES[name]}, seed {seed}: not trained, {read_json(path)['why']}."


def _pairs_table(pairs: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for row in pairs:
        by = row["by"]
        gap = BROKEN if by is None else f"{100 * by['value']:+.1f} [{100 * by['low']:.1f}, {100 * by['high']:.1f}]"
        p = "-" if row["p"] is None else f"{row['p']:.3g}"
        rows.append([row["part"], f"{TITLES[row['one']]} minus {TITLES[row['other']]}", gap, p])
    note = "Points of accuracy on the same problems; p: exact McNemar test, Holm over this table."
    return f"{table(['', 'arms', 'difference', 'p'], rows)}\n\n{note}"


def _curve_table(config: CheckingConfig) -> str:
    base = _curve(config, BASE)
    rows = []
    for name in config.arms:
        points, path = _curve(config, name), CheckingJob(config, name, config.seeds[0]).folder / CHOICE
        if not points or not path.exists():
            continue
        choice = read_json(path)
        tried = ", ".join(f"{lr}: {100 * accuracy:.0f}" for lr, accuracy in choice["accuracies"].items())
        steps = " → ".join(f"{_value(point, 'observed')} ({point['step']})" for point in [*base, *points])
        again = " → ".join(_value(point, "p_dW") for point in [*base, *points])
        rows.append([TITLES[name], f"{choice['lr']:g} of {tried}", steps, "yes" if settled(points) else "no", again])
    head = ["arm", "rate, of those tried (accuracy)", "accuracy (step)", "settled", "p_dW"]
    note = (
        f"Validation problems of the training sizes, the first seed, in per cent; step 0 is the base model. Settled: less than"
        f" {100 * SETTLED:.0f} points between the last two points."
    )
    return f"{table(head, rows)}\n\n{note}"


def settled(points: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the accuracy no longer changed between the last two points."""
    values = [point["observed"]["value"] or 0.0 for point in points]
    return len(values) > 1 and abs(values[-1] - values[-2]) < SETTLED


def _gradient_table(config: CheckingConfig) -> str:
    rows = []
    for name in (BASE, *config.arms):
        for point in _curve(config, name):
            cells = [_ratio(point["gradients"].get(objective)) for objective in config.curve.objectives]
            if point["gradients"]:
                rows.append([TITLES[name], str(point["step"]), *cells])
    note = (
        "Norm of what sampling tokens (work and answer) give to a gradient, by that of deciding tokens (check and decision); in"
        " brackets sampling's share of the whole. On the model's own responses to validation problems, first seed; parameters: "
        + ", ".join(f"`{pattern}`" for pattern in config.curve.parameters)
        + "."
    )
    return f"{table(['arm', 'step', *config.curve.objectives], rows)}\n\n{note}"


def _ratio(parts: Mapping[str, Mapping[str, float | None]] | None) -> str:
    sample, decision = (parts or {}).get("sample"), (parts or {}).get("decision")
    if not sample or not decision or not decision["norm"]:
        return "-"
    share = "-" if sample["share"] is None else f"{sample['share']:.2f}"
    return f"{(sample['norm'] or 0.0) / decision['norm']:.2f} ({share})"


def _curve(config: CheckingConfig, name: str) -> list[dict[str, Any]]:
    path = CheckingJob(config, name, config.seeds[0]).folder / CURVE
    return list(read_json(path)) if path.exists() else []


def _value(row: Mapping[str, Any], name: str) -> str:
    value = row[name]["value"]
    return "-" if value is None else f"{100 * value:.0f}"
