"""A finished study as figures and as a page: accuracy and its parts by model and size, over all seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.diagnostics import (
    COLUMN,
    Calibration,
    Columns,
    Decomposition,
    Floats,
    Judged,
    Splitter,
    Transcript,
    decompose,
    judge,
    ratio,
    read_transcripts,
)
from holdfast.judging import Extractor
from holdfast.stats import Estimate, Resamples, Unknown, percentile_interval, wilson
from holdfast_studies.decisions.config import DecisionStudyConfig
from holdfast_studies.decisions.decision_study import BASE, ROLLOUTS, Job
from holdfast_studies.decisions.products import product_splitter, products
from holdfast_studies.json_files import read_json, read_lines
from holdfast_studies.markdown import table


@dataclass(frozen=True)
class StudyCell:
    """One model at one size, all seeds together. Problems differ between seeds, so resampling is by problem."""

    model: str
    size: str
    seeds: int
    figures: Calibration
    judged: Judged
    by_seed: tuple[float, ...]  # observed accuracy of each seed

    def row(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "model": self.model,
            "size": self.size,
            "seeds": self.seeds,
            "accuracy_by_seed": list(self.by_seed),
            **self.figures.row(),
        }


@dataclass(frozen=True)
class Comparison:
    """Two models at the hardest size: how much more accurate one is, and how much surer of its mistakes."""

    size: str
    better: str
    worse: str
    times: Estimate | Unknown  # ratio of accuracies
    p_dw_gap: Estimate | Unknown
    parts: Decomposition


def study_cells(config: DecisionStudyConfig) -> list[StudyCell]:
    """Every model that has been measured, at every size."""
    cells = []
    for name in (BASE, *config.variants):
        jobs = [job for job in (Job(config, seed, name) for seed in config.seeds) if job.done]
        by_seed = {job.seed: read_transcripts(job.folder / ROLLOUTS, Columns(group="size")) for job in jobs}
        for size in config.eval_sizes if by_seed else ():
            cells.append(_cell(config, name, size, {seed: rollouts.transcripts for seed, rollouts in by_seed.items()}))
    return cells


def _cell(config: DecisionStudyConfig, name: str, size: str, transcripts: dict[int, Sequence[Transcript]]) -> StudyCell:
    split = product_splitter(config.world.base)
    return cell_of(name, size, transcripts, split, products, max_attempts=config.world.max_attempts)


def cell_of(
    name: str,
    size: str,
    by_seed: Mapping[int, Sequence[Transcript]],
    split: Splitter,
    extract: Extractor,
    *,
    max_attempts: int | None,
) -> StudyCell:
    """The cell of one size, from the transcripts of all seeds."""
    parts = {seed: [transcript for transcript in rows if transcript.group == size] for seed, rows in by_seed.items()}
    together = [
        Transcript(f"{seed}/{transcript.problem}", transcript.response, transcript.reference, transcript.ended, size)
        for seed, rows in parts.items()
        for transcript in rows
    ]
    marks = judge(together, split, extract)
    accuracies = tuple(float(np.mean(final_right(judge(rows, split, extract)))) for rows in parts.values())
    return StudyCell(name, size, len(parts), marks.calibrate(max_attempts=max_attempts), marks, accuracies)


def final_right(judged: Judged) -> list[bool]:
    """For each response, whether it stopped on a right attempt."""
    return [bool(right) and right[-1] and stop for right, stop in zip(judged.right, judged.stopped, strict=True)]


def compare(config: DecisionStudyConfig, cells: Sequence[StudyCell], size: str, draws: int = 2000) -> Comparison | None:
    """The config's two models at one size, with bootstrap intervals over problems."""
    by_model = {cell.model: cell for cell in cells if cell.size == size}
    if config.better not in by_model or config.worse not in by_model:
        return None
    a, b = (by_model[name].judged.counts for name in (config.worse, config.better))
    return Comparison(
        size=size,
        better=config.better,
        worse=config.worse,
        times=times_as_accurate(a, b, draws),
        p_dw_gap=_gap(a, b, draws),
        parts=decompose(a, b),
    )


def times_as_accurate(a: Floats, b: Floats, draws: int) -> Estimate | Unknown:
    """B's accuracy divided by A's.

    A draw in which A has none counts as infinite. Where B has none all draws are equal; the upper end is then that of
    Donner and Zou (2012), from the two Wilson intervals.
    """
    (value_a, value_b), (drawn_a, drawn_b) = _drawn(a, b, "final_right", "responses", draws)
    n = min(len(a), len(b))
    if value_a == 0:
        return Unknown("unbounded: the other one had none")
    if value_b == 0:
        least, most = wilson(a[:, COLUMN["final_right"]].sum(), len(a)), wilson(0, len(b))
        high = most.high / float(np.sqrt(least.low * (2 * value_a - least.low)))
        return Estimate(0.0, 0.0, high, n, "wilson of both")
    with np.errstate(divide="ignore", invalid="ignore"):
        interval = percentile_interval(drawn_b / drawn_a, method="inverted_cdf")
    assert interval is not None  # the whole has a value, so some draw has
    return Estimate(float(value_b / value_a), *interval, n, "bootstrap")


def _gap(a: Floats, b: Floats, draws: int) -> Estimate | Unknown:
    """How much more often B tries again after a mistake than A."""
    (value_a, value_b), (drawn_a, drawn_b) = _drawn(a, b, "resampled_wrong", "decided_wrong", draws)
    interval = percentile_interval(drawn_b - drawn_a)
    if interval is None or not np.isfinite(value_b - value_a):
        return Unknown("unidentified")
    return Estimate(float(value_b - value_a), *interval, min(len(a), len(b)), "bootstrap")


def _drawn(a: Floats, b: Floats, hits: str, trials: str, draws: int) -> list[list[Floats]]:
    """The shares of both models, and those of all resamples of their problems."""
    drawn = [Resamples.of(counts, draws=draws, seed=seed) for seed, counts in enumerate((a, b))]
    return [[ratio(getattr(resamples, part), hits, trials) for resamples in drawn] for part in ("whole", "sums")]


def clocks(config: DecisionStudyConfig) -> dict[str, dict[str, float]]:
    """Mean seconds of training and sampling, by model."""
    times: dict[str, dict[str, float]] = {}
    for name in (BASE, *config.variants):
        files = [Job(config, seed, name).folder / "clock.json" for seed in config.seeds]
        read = [read_json(file) for file in files if file.exists()]
        if read:
            times[name] = {key: float(np.mean([clock[key] for clock in read])) for key in read[0]}
    return times


def rl_steps(folder: Path) -> list[dict[str, Any]]:
    """The log of a GRPO run: p_s, p_dC, p_dW and the clock along training."""
    path = folder / "run" / "steps.jsonl"
    return read_lines(path) if path.exists() else []


# --- as a page ------------------------------------------------------------------------------------------------------


def page(config: DecisionStudyConfig, cells: Sequence[StudyCell], command: str) -> str:
    """The page in Markdown. Every number is from the files of the run."""
    return "\n".join(_page(config, cells, command)) + "\n"


def _page(config: DecisionStudyConfig, cells: Sequence[StudyCell], command: str) -> Iterator[str]:
    world = config.world
    yield f"Written by `{command}`; {max(cell.seeds for cell in cells)} seeds, {config.num_eval} problems per seed and size,"
    yield f"temperature 1, base {world.base}, {world.slip:.0%} slips, at most {world.max_attempts} attempts. Intervals: 95 %,"
    yield "bootstrap over problems (they do not cover how much seeds differ: the last column shows the seeds one by one)."
    yield ""
    head = ["model", "size", "accuracy", "p_s", "p_dC", "p_dW", "F -> T", "echo", "cut off", "held-out prediction"]
    rows = []
    for cell in cells:
        f = cell.figures
        rates = [percent(rate) for rate in (f.observed, f.p_s, f.p_dC, f.p_dW, f.wrong_to_right)]
        rows.append([cell.model, cell.size, *rates, short(f.echo), short(f.cut_off), prediction(f), seeds_shown(cell)])
    yield table([*head, "by seed"], rows, tight=True)
    yield ""
    yield from _prediction(cells)
    hardest = compare(config, cells, config.eval_sizes[-1])
    if hardest is not None:
        yield from _comparison(hardest)
    yield ""
    yield from _time(config)


def _prediction(cells: Sequence[StudyCell]) -> Iterator[str]:
    """How far the formula is off on held-out problems, also without the cells where nothing is ever right: there it cannot be."""
    known = [cell for cell in cells if cell.figures.held_out_error is not None]
    errors = {(cell.model, cell.size): abs(cell.figures.held_out_error or 0.0) for cell in known}
    ever_right = [errors[cell.model, cell.size] for cell in known if any(cell.by_seed)]
    if errors:
        mean, worst = 100 * float(np.mean(list(errors.values()))), 100 * max(errors.values())
        yield f"Held-out prediction errs by {mean:.1f} points on average, {worst:.1f} at most."
    if 0 < len(ever_right) < len(errors):
        yield f"Without the cells in which nothing was ever right: {100 * float(np.mean(ever_right)):.1f} points on average."


def _comparison(comparison: Comparison) -> Iterator[str]:
    parts = comparison.parts
    yield ""
    yield f"At {comparison.size}, {comparison.better} against {comparison.worse}:"
    yield ""
    yield f"- accuracy, ratio: {comparison.times}"
    yield f"- p_dW, difference: {comparison.p_dw_gap}"
    yield f"- accuracy, difference: {parts.observed} observed, {parts.total} by the formula"
    if isinstance(parts.sampling, Unknown):
        yield f"- what of that attempts and decisions explain is unknown ({parts.sampling})"
    else:
        yield f"- of that, better attempts explain {parts.sampling}, better decisions {parts.decision} (Shapley means)"


def _time(config: DecisionStudyConfig) -> Iterator[str]:
    for name, clock in clocks(config).items():
        yield f"- {name}: {clock['train_seconds']:.0f} s of training, {clock['sample_seconds']:.0f} s of sampling for the table"
    for name, variant in config.variants.items():
        steps = rl_steps(Job(config, config.seeds[0], name).folder) if variant.grpo else []
        if steps:
            rollout = sum(row["rollout_seconds"] for row in steps) / len(steps)
            whole = sum(row.get("step_time", 0.0) for row in steps) / len(steps)
            yield f"- of a step of {name}, {whole:.2f} s, rollouts take {rollout:.2f} s; the rest is the reference and the update"


def percent(figure: Estimate | Unknown) -> str:
    """``41 [38, 44]``."""
    if isinstance(figure, Unknown):
        return "unidentified"
    return f"{100 * figure.value:.0f} [{100 * figure.low:.0f}, {100 * figure.high:.0f}]"


def short(figure: Estimate | Unknown) -> str:
    """The value alone."""
    return "-" if isinstance(figure, Unknown) else f"{100 * figure.value:.0f}"


def seeds_shown(cell: StudyCell) -> str:
    """The accuracy of every seed in per cent."""
    return " ".join(f"{100 * value:.0f}" for value in cell.by_seed)


def prediction(figures: Calibration) -> str:
    """The held-out prediction and its error in points: ``40 (-1.2)``."""
    error = figures.held_out_error
    if error is None or isinstance(figures.held_out, Unknown):
        return str(figures.held_out)
    return f"{100 * figures.held_out.value:.0f} ({100 * error:+.1f})"
