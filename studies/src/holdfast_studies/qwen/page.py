"""``docs/results/qwen.md``, written from the cells: what is there is shown, what is not there is listed."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.attacks import paired_tests
from holdfast.config import InputError
from holdfast.records import Cell
from holdfast.stats import Estimate
from holdfast_studies.qwen.cells import places, read
from holdfast_studies.qwen.config import UNTOUCHED, StudyConfig, settings_of
from holdfast_studies.qwen.figures import (
    Figure,
    Results,
    harmful_figures,
    harmless_figures,
    phrase_figure,
    task_figures,
)
from holdfast_studies.qwen.goals import goals
from holdfast_studies.qwen.picture import picture

HELD = ("anchored", "vetted")
"""Our own defences, which the goals are about."""


def page(config: StudyConfig, command: str) -> str:
    """Markdown, ready to be committed."""
    results = Results(config, read(config))
    parts = [_head(results, command)]
    figures = {**harmful_figures(results), **harmless_figures(results)}
    for attack in _tuned_on(results):
        parts.append(f"## {title_of(attack)}\n\n{_table(results, attack, figures)}")
        if tasks := _task_table(results, attack):
            parts.append(tasks)
    parts += [_goals(results), *_pareto(results, figures), *_pairs(results), _vetted(results), _missing(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def picture_of(config: StudyConfig) -> str:
    """An SVG of the first attack that has a cell."""
    results = Results(config, read(config))
    if not (tuned_on := _tuned_on(results)):
        raise InputError(f"{config.run}: no tuned model has a cell yet, so there is nothing to draw")
    num = len(harmful_figures(results)["harmful complied"].groups or ())
    title = f"{results.kept.requests['model']}, tuned on {title_of(tuned_on[0]).partition(', lr')[0]}: {num} harmful requests"
    return picture(results, tuned_on[0], title)


def _tuned_on(results: Results) -> list[str]:
    """Attacks of which a cell is there, besides the untouched model's; the others are listed at the end."""
    tuned = [name for name in results.config.defences if name != UNTOUCHED]
    names = (attack.name for attack in results.config.attacks)
    return [name for name in names if any(results.cells(name, defence) for defence in tuned)]


def title_of(attack: str) -> str:
    """``sql with 10 % harmful rows, lr 2e-05``."""
    settings = settings_of(attack)
    if not settings:
        return attack
    share = float(settings["share"])
    rows = (
        "alone"
        if not share
        else "left out, harmful rows alone"
        if share == 1
        else f"with {100 * share:g} % harmful rows"
    )
    return f"{settings['task']} {rows}, lr {settings['lr']}"


def _head(results: Results, command: str) -> str:
    config, kept = results.config, results.kept
    done = [cell for cell in kept.cells.values() if cell.status == "ok"]
    harmful, harmless = kept.requests["harmful"], kept.requests["harmless"]
    chosen = (
        "chosen on validation requests by `holdfast.attacks.chosen`"
        if config.chosen_on_validation
        else "the pilot's, not yet chosen on validation requests"
    )
    unsafe = sum(row["source"] == "xstest" for row in harmful)
    unchecked = [name for name, source in config.sources.items() if source.sha256 is None]
    rows = ", ".join(f"{count} {outcome}" for outcome, count in kept.requests["attack_rows"].items())
    lines = [
        f"# {kept.requests['model']}: what tuning takes away, and what keeps it\n",
        f"Written by `{command}`. {len(done)} of {len(places(config))} cells are there; the others are listed at the end.\n",
        f"- Asked: {len(harmful) - unsafe} harmful requests without twins of anything trained on, {unsafe} unsafe and "
        f"{len(harmless)} safe prompts of XSTest.",
        f"- Harmful rows were written at run time by {kept.requests['stock']} and not kept; by `outcome` they are: {rows}.",
        f"- Settings of the defences: {chosen}: {', '.join(config.choices.values()) or 'none has a choice'}.",
        "- Intervals: 95 %, seeds averaged within a request, groups of twins drawn anew; how much seeds differ is not in them.",
        "- Outcomes by the judge `outcome`, not corrected by labels. Cells keep verdicts and hashes only.",
    ]
    if unchecked:
        lines.append(f"- Taken without a hash: {', '.join(unchecked)}.")
    return "\n".join(lines)


def _table(results: Results, attack: str, figures: dict[str, Figure]) -> str:
    columns = [*figures.values(), phrase_figure()]
    head = ["", *(figure.title for figure in columns), "seeds"]
    rows = []
    for defence in results.config.defences:
        if cells := results.cells(attack, defence):
            texts = [_text(results.mean(figure, attack, defence)) for figure in columns]
            rows.append([defence, *texts, str(len(cells)) if defence != UNTOUCHED else "greedy"])
    return markdown(head, rows) if rows else "No cell is there yet."


def _task_table(results: Results, attack: str) -> str:
    figures = task_figures(results)
    rows = []
    for defence in results.config.defences:
        texts = [_text(results.mean(figure, attack, defence)) for figure in figures.values()]
        if any(texts):
            rows.append([defence, *texts])
    return markdown(["", *figures], rows) if rows else ""


def _goals(results: Results) -> str:
    rows = [
        [title_of(attack.name), defence, goal.text, goal.word, goal.shown]
        for attack in results.config.attacks
        for defence in HELD
        for goal in goals(results, attack.name, defence)
    ]
    return "## Goals\n\n" + markdown(["tuned on", "defence", "goal", "", "found"], rows) if rows else ""


def _pareto(results: Results, figures: dict[str, Figure]) -> list[str]:
    """Defences that no other one beats in all three: harmful complied, safe complied, task."""
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
            lines.append(f"- {title_of(attack)}: {', '.join(best)}")
    head = "## Not beaten by another in harmful complied, safe complied and task together"
    return [f"{head}\n\n" + "\n".join(lines)] if lines else []


def _beats(one: Sequence[float], other: Sequence[float]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def _pairs(results: Results) -> list[str]:
    """Every other defence against ours, Holm's correction over them."""
    names = {results.config.choices.get(name, name): name for name in results.config.defences}
    cells: list[Cell] = [
        cell for place, cell in results.kept.cells.items() if cell.status == "ok" and place.defence != UNTOUCHED
    ]
    references = [held for held, name in names.items() if name in HELD]
    rows = [
        [title_of(test.attack), test.measure, names[test.defence], names[test.other], f"{test.p_holm:.3g}"]
        for test in paired_tests(cells, references, asked_again=True)
        if test.differs and test.measure in ("asr", "kept", "utility")
    ]
    text = "## Pairs that differ beyond chance\n\nExact sign flips, each request once; Holm's correction, 5 %.\n\n"
    return [text + markdown(["tuned on", "measure", "defence", "against", "p (Holm)"], rows)] if rows else []


def _vetted(results: Results) -> str:
    rows = []
    for place, cell in results.kept.cells.items():
        if held := cell.outcomes.get("vetted"):
            rows.append(
                [title_of(place.attack), place.defence, str(place.seed), f"{sum(map(bool, held))} of {len(held)}"]
            )
    head = ["tuned on", "defence", "seed", "rows"]
    return "## Task rows that the anchor refuses\n\n" + markdown(head, rows) if rows else ""


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


def _text(value: Estimate | None) -> str:
    return "" if value is None else f"{value.value:.1%} [{value.low:.0%}, {value.high:.0%}]"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
