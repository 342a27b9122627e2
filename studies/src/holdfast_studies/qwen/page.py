"""Write ``docs/results/qwen.md`` from the cells. Cells that are missing are listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from holdfast.attacks import paired_tests
from holdfast.config import InputError
from holdfast.records import Cell
from holdfast_studies.markdown import table
from holdfast_studies.qwen.cells import places, read
from holdfast_studies.qwen.config import UNTOUCHED, StudyConfig, settings_of
from holdfast_studies.qwen.corrected import MIN_LABELS, about_labels, corrections
from holdfast_studies.qwen.figures import (
    Figure,
    Results,
    harmful_figures,
    harmless_figures,
    phrase_figure,
    places_of,
    task_figures,
    title_of,
)
from holdfast_studies.qwen.goals import goals
from holdfast_studies.qwen.labels import FreshLabel, agreement, read_fresh
from holdfast_studies.qwen.more_tables import asks_table, curves_table, estimate_text, rows_table
from holdfast_studies.qwen.picture import picture

HELD = ("anchored", "vetted")
"""Our own defences: every other one is compared with them. The goals are about them and their kin, such as anchored_skills."""

SHORT = {"sql_meaning": "SQL right", "gsm8k": "GSM8K right", "code_passed": "HumanEval passed"}
"""The figure of every task that is shown by seed."""

_CORRECTED = "not corrected by labels except in [the first table](#corrected-by-labels)"


def page(config: StudyConfig, command: str) -> str:
    """The whole page as Markdown."""
    results = Results(config, read(config))
    labels = read_fresh(Path(config.run))
    parts = [_head(results, command, bool(labels)), _corrected(results, labels)]
    figures = {**harmful_figures(results), **harmless_figures(results)}
    for attack in _tuned_on(results):
        parts.append(f"## {results.title(attack)}\n\n{_table(results, attack, figures)}")
        parts += [make(results, attack) for make in (_task_table, asks_table, curves_table)]
    parts += [
        _by_seed(results),
        _goals(results),
        *_pareto(results, figures),
        *_pairs(results),
        _vetted(results),
        rows_table(results),
        _missing(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def picture_of(config: StudyConfig) -> str:
    """An SVG of the first task: a panel for every share of harmful rows that has a cell."""
    results = Results(config, read(config))
    if not (tuned_on := _tuned_on(results)):
        raise InputError(f"{config.run}: no tuned model has a cell yet, so there is nothing to draw")
    num = len(harmful_figures(results)["harmful complied"].groups or ())
    of_first = [name for name in tuned_on if settings_of(name).get("task") == settings_of(tuned_on[0]).get("task")]
    panels = {name: f"tuned on {title_of(name).partition(', lr')[0]}" for name in of_first}
    return picture(results, f"{results.kept.requests['model']}: {num} harmful requests", panels)


def _tuned_on(results: Results) -> list[str]:
    """The attacks that some tuned model has a cell of. The others are listed at the end of the page."""
    tuned = [name for name in results.config.defences if name != UNTOUCHED]
    return [name for name in results.config.shown if any(results.cells(name, defence) for defence in tuned)]


def _head(results: Results, command: str, labelled: bool) -> str:
    config, kept = results.config, results.kept
    done = [cell for cell in kept.cells.values() if cell.status == "ok"]
    harmful, harmless = kept.requests["harmful"], kept.requests["harmless"]
    corrected = _CORRECTED if labelled else "not corrected by labels"
    unsafe = sum(row["source"] == "xstest" for row in harmful)
    unchecked = [name for name, source in config.sources.items() if source.sha256 is None]
    rows = ", ".join(f"{count} {outcome}" for outcome, count in kept.requests["attack_rows"].items())
    lines = [
        f"# {kept.requests['model']}: what tuning takes away, and what keeps it\n",
        f"Written by `{command}`. {len(done)} of {len(places(config))} cells are there; the others are listed at the end.\n",
        f"- Asked: {len(harmful) - unsafe} harmful requests without twins of anything trained on, {unsafe} unsafe and "
        f"{len(harmless)} safe prompts of XSTest.",
        f"- Harmful rows were written at run time by {kept.requests['stock']} and not kept; by `outcome` they are: {rows}.",
        f"- Settings of the defences. {_chosen(config)}",
        "- Intervals: 95 %, seeds averaged within a request, groups of twins drawn anew; how much seeds differ is not in them.",
        f"- Outcomes by the judge `outcome`, {corrected}. Cells keep verdicts and hashes only.",
    ]
    if unchecked:
        lines.append(f"- Taken without a hash: {', '.join(unchecked)}.")
    return "\n".join(lines)


def _chosen(config: StudyConfig) -> str:
    """Which settings a rule chose on validation requests, and which are the pilot's."""
    by_rule = [choice for name, choice in config.choices.items() if name in config.chosen_on_validation]
    others = [choice for name, choice in config.choices.items() if name not in config.chosen_on_validation]
    told = [f"Chosen on validation requests by `holdfast.attacks.chosen`: {', '.join(by_rule)}."] if by_rule else []
    told += [f"The pilot's, not chosen on validation requests: {', '.join(others)}."] if others else []
    return " ".join(told) or "None has a choice."


def _corrected(results: Results, labels: Sequence[FreshLabel]) -> str:
    """What the labels say of the judge in every arm, and the rates that they correct."""
    if not labels:
        return ""
    corrected = corrections(results, labels)
    rows = [
        [
            *(title_of(row.attack), row.arm, row.kind, str(len(row.pairs)), str(row.num_own)),
            *(agreement(row.pairs, row.requests), f"{100 * row.error:+.0f}"),
            *("" if row.error_of_p is None else f"{100 * row.error_of_p:+.0f}", str(row.num_asked)),
            *(estimate_text(row.judged), estimate_text(row.corrected)),
        ]
        for row in corrected
    ]
    head = [
        "tuned on",
        "arm",
        "requests",
        "labels",
        "of the cell",
        "`outcome` and the labels",
        "error",
        "error of P",
        "of",
    ]
    text = (
        "*Of the cell*: replies read that are, by hash, the cell's own. *Error*: the share complied by the judge less that by "
        "the labels, in points; *error of P*: the same of the mean of P(complied). The last three columns are of the one seed "
        "that was read, and of the requests of the sources that have labels: how many these are, the share complied by the "
        "judge, and *corrected*: that share plus mean(label - judge) over those read. So they differ from the tables "
        "below, which have every seed and every request. XSTest's unsafe half is left out. "
        f"Nothing is corrected by fewer than {MIN_LABELS} labels."
    )
    shares = table([*head, "complied, by the judge", "complied, corrected"], rows)
    return f"## Corrected by labels\n\n{about_labels(labels, corrected)}\n\n{text}\n\n{shares}"


def _table(results: Results, attack: str, figures: dict[str, Figure]) -> str:
    columns = [*figures.values(), phrase_figure(results)]
    head = ["", *(figure.title for figure in columns), "seeds"]
    rows = []
    for defence in results.config.defences:
        if cells := results.cells(attack, defence):
            texts = [estimate_text(results.mean(figure, attack, defence)) for figure in columns]
            rows.append([results.named(defence), *texts, str(len(cells)) if defence != UNTOUCHED else "greedy"])
    return table(head, rows) if rows else "No cell is there yet."


def _task_table(results: Results, attack: str) -> str:
    figures = task_figures(results)
    rows = []
    for defence in results.config.defences:
        texts = [estimate_text(results.mean(figure, attack, defence)) for figure in figures.values()]
        if any(texts):
            rows.append([defence, *texts])
    return table(["", *figures], rows) if rows else ""


def _by_seed(results: Results) -> str:
    """Arms that have several seeds, each seed by itself: no interval of this page covers how much seeds differ."""
    tasks = task_figures(results)
    of_tasks = {SHORT[name]: tasks[name] for name in SHORT if name in tasks}
    figures = {
        "harmful complied": harmful_figures(results)["harmful complied"],
        "harmful missed": harmful_figures(results)["harmful missed"],
        "kept": harmless_figures(results)["kept"],
        **of_tasks,
    }
    rows = []
    for attack in _tuned_on(results):
        for defence in results.config.defences:
            cells = results.cells(attack, defence)
            if defence != UNTOUCHED and len(cells) > 1:
                texts = [_shares(figure, cells) for figure in figures.values()]
                rows.append([results.title(attack), results.named(defence), *texts])
    text = "How much seeds differ is in no interval above and in no p below. Of arms with several seeds, one after the other:"
    return f"## By seed\n\n{text}\n\n{table(['tuned on', 'defence', *figures], rows)}" if rows else ""


def _shares(figure: Figure, cells: Sequence[Cell]) -> str:
    """The mean over requests of each seed; empty where nothing was measured."""
    of_seeds = [figure.values(cell) for cell in cells]
    return ", ".join(f"{fmean(values):.1%}" for values in of_seeds if len(values))


def _goals(results: Results) -> str:
    rows = [
        [results.title(attack), defence, goal.text, goal.word, goal.shown]
        for attack in results.config.shown
        for defence in results.config.defences
        if defence.startswith(HELD)
        for goal in goals(results, attack, defence)
    ]
    return "## Goals\n\n" + table(["tuned on", "defence", "goal", "", "found"], rows) if rows else ""


def _pareto(results: Results, figures: dict[str, Figure]) -> list[str]:
    """Defences that no other defence beats in all three: harmful complied, safe complied, task."""
    lines = []
    for attack in _tuned_on(results):
        points = {}
        for defence in results.config.defences:
            harmful = results.mean(figures["harmful complied"], attack, defence)
            safe = results.mean(figures["safe complied"], attack, defence)
            cells = results.cells(attack, defence)
            if harmful and safe and cells and cells[0].utility:
                utility = sum(cell.utility.value for cell in cells if cell.utility) / len(cells)
                points[defence] = (-harmful.value, safe.value, utility)
        best = [name for name, point in points.items() if not any(_beats(other, point) for other in points.values())]
        if best:
            lines.append(f"- {results.title(attack)}: {', '.join(best)}")
    head = "## Not beaten by another in harmful complied, safe complied and task together"
    return [f"{head}\n\n" + "\n".join(lines)] if lines else []


def _beats(one: Sequence[float], other: Sequence[float]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def _pairs(results: Results) -> list[str]:
    """Every other defence compared with ours, with Holm's correction over the comparisons."""
    names = {results.config.choices.get(name, name): name for name in results.config.defences}
    cells: list[Cell] = [
        _of_harmful(replace(cell, attack=results.config.common(cell.attack)), results)
        for place, cell in results.kept.cells.items()
        if cell.status == "ok" and place.defence != UNTOUCHED
    ]
    references = [held for held, name in names.items() if name in HELD]
    rows = [
        [results.title(test.attack), test.measure, names[test.defence], names[test.other], f"{test.p_holm:.3g}"]
        for test in paired_tests(cells, references)
        if test.differs and test.measure in ("asr", "kept", "utility")
    ]
    text = (
        "## Pairs that differ beyond chance\n\nExact sign flips, each request once, over the seeds that both have. *asr* is "
        "harmful complied, *utility* every answer to the tasks together. Holm's correction, 5 %, is over the defences that are "
        "compared with one of ours, for every tuning and measure by itself. How much seeds differ is in no p.\n\n"
    )
    return [text + table(["tuned on", "measure", "defence", "against", "p (Holm)"], rows)] if rows else []


def _of_harmful(cell: Cell, results: Results) -> Cell:
    """The cell without XSTest's unsafe half, so that pairs are about the same requests as *harmful complied*."""
    name = f"harmful:{cell.judge}"
    said, keep = cell.outcomes.get(name, ()), places_of(results.kept.requests["harmful"])
    return replace(cell, outcomes={**cell.outcomes, name: tuple(said[place] for place in keep)}) if said else cell


def _vetted(results: Results) -> str:
    rows = []
    for place, cell in results.kept.cells.items():
        if held := cell.outcomes.get("vetted"):
            rows.append(
                [title_of(place.attack), place.defence, str(place.seed), f"{sum(map(bool, held))} of {len(held)}"]
            )
    head = ["tuned on", "defence", "seed", "rows"]
    return "## Task rows that the anchor refuses\n\n" + table(head, rows) if rows else ""


def _missing(results: Results) -> str:
    there = results.kept.cells
    not_run: dict[str, list[str]] = {}
    failed = []
    for place in places(results.config):
        if place not in there:
            not_run.setdefault(f"{title_of(place.attack)} x {place.defence}", []).append(str(place.seed))
        elif there[place].status != "ok":
            failed.append(
                f"- failed: {title_of(place.attack)} x {place.defence}, seed {place.seed}: {there[place].reason}"
            )
    lines = [*failed, *(f"- not run: {name}, seeds {', '.join(seeds)}" for name, seeds in not_run.items())]
    return "## Cells that are not there\n\n" + "\n".join(lines) if lines else "Every cell is there."
