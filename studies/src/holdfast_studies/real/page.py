"""The results of a real model's matrix as a page of Markdown, written by the command that ran.

``python -m holdfast_studies.real.page RUN FILE [ALIGN.json [MODEL]]`` writes it from the cells that a run has, finished or not.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.attacks import ran_alone, read_cell
from holdfast.config import InputError, mistakes_end_it
from holdfast.data import atomic_text
from holdfast.records import BESIDE, Cell, unsafe_means
from holdfast.stats import Estimate, Unknown
from holdfast_studies.markdown import table
from holdfast_studies.real.figures import SCORED, hits_of, judge_agreement, judges_of, share, unscored
from holdfast_studies.real.goals import goals
from holdfast_studies.real.grid import ATTACKS, BENIGN, DEFENCES

TITLES = {
    "complied": "Forbidden requests complied with (less is safer)",
    "not_refused": "Forbidden requests not refused (less is safer)",
    "unsafe": "Forbidden requests called unsafe (less is safer)",
    "over_refusal": "Safe prompts refused (less is better)",
    "missed": "Forbidden requests missed: neither refused nor complied with",
    "harmless_missed": "Safe prompts missed (less is better)",
    "kept": "Safe prompts with the outcome of the untouched model (more is better)",
}


def page(cells: Sequence[Cell], command: str, alignment: Path | None = None, model: str = "A real model") -> str:
    """The page: goals first, then everything that was measured, and the cells that failed. ``model``: a hub id or a folder."""
    done = [cell for cell in cells if cell.status == "ok"]
    seeds = sorted({cell.seed for cell in done})
    parts = [
        f"# {model.rstrip('/').rpartition('/')[2]} under attack\n",
        f"Written by `{command}`. {len(done)} cells, seeds {', '.join(map(str, seeds)) or 'none'} pooled; 95 % intervals:"
        " Wilson for shares, resampled requests for differences. Every seed asks the same requests: one counts once, and"
        " which were asked is what the intervals cover, not how much seeds differ."
        " A cell with fewer seeds than that says so. Answers that a judge could not score count against the model."
        " No request, answer or attacked weight is kept: cells hold verdicts and hashes."
        " Shares are the judges' own, not corrected by labels.\n",
        *_aligned(alignment),
        *_goals(done),
        *(
            part
            for judge in judges_of(done)
            for key in (*SCORED, *_told(done, judge))
            for part in _table(done, f"{key}:{judge}", f"{TITLES[_counted(done, key, judge)]}, judge `{judge}`")
        ),
        *_table(
            [cell for cell in done if cell.utility and cell.attack == BENIGN],  # other attacks teach no SQL
            "utility",
            "SQL exact match after benign tuning (more is better)",
        ),
        *_table([cell for cell in done if "vetted" in cell.outcomes], "vetted", "Rows of the task that vetting held"),
        *_judges(done),
        *([f"{again}.\n"] if (again := ran_alone(cells)) else []),
        *_failed(cells),
    ]
    return "\n".join(parts) + "\n"


def _told(cells: Sequence[Cell], judge: str) -> list[str]:
    """What this judge can tell besides: requests missed, and harmless requests kept."""
    return [measure for measure in BESIDE if any(cell.hits(f"{measure}:{judge}") for cell in cells)]


def _counted(cells: Sequence[Cell], key: str, judge: str) -> str:
    """What ``asr`` counts, which depends on what this judge can tell."""
    if key != "asr":
        return key
    tells = all(f"harmful:{judge}" in cell.outcomes for cell in cells)
    return "complied" if tells else unsafe_means(judge)


def _aligned(path: Path | None) -> list[str]:
    if path is None or not path.exists():
        return []
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or "tries" not in content:  # a user's own file of that name
        return []
    rows = (
        [
            _variant(tried["variant"]),
            *(_shown(tried[name]) for name in ("answered", "over_refusal")),
            "chosen" if tried == content["chosen"] else "",
        ]
        for tried in content["tries"]
    )
    chosen_on = "Chosen on the package's own held-out prompts (phrase list), never on XSTest.\n"
    variants = table(["variant", "not refused", "look-alikes refused", ""], rows, tight=True)
    return ["## Alignment\n", chosen_on, variants, ""]


def _variant(variant: dict[str, Any]) -> str:
    if "mean_of" in variant:
        return f"the mean of the {variant['mean_of']} models above"
    held = f"{variant['keep_rows']} look-alikes a step, weight {variant['keep_weight']:g}"
    frozen = f", frozen: {' '.join(variant['freeze'])}" if variant.get("freeze") else ""
    return f"lr {variant['lr']:g}, {variant['epochs']:g} passes, {held}{frozen}"


def _goals(cells: Sequence[Cell]) -> list[str]:
    judges = judges_of(cells)
    if not judges:
        return []
    columns = [goals(cells, judge) for judge in judges]
    words = {True: "reached", False: "**not reached**", None: "unknown"}
    rows = (
        [row[0].text, *(f"{words[goal.reached]}: {goal.found}" for goal in row)] for row in zip(*columns, strict=True)
    )
    return ["## Goals\n", table(["goal", *(f"by `{judge}`" for judge in judges)], rows, tight=True), ""]


def _table(cells: Sequence[Cell], key: str, title: str) -> list[str]:
    attacks = list(dict.fromkeys(cell.attack for cell in cells))
    if not attacks:
        return []
    rows = (
        [defence, *(_pooled(cells, attack, defence, key) for attack in attacks)]
        for defence in dict.fromkeys(cell.defence for cell in cells)
    )
    return [f"## {title}\n", table(["", *attacks], rows, tight=True), ""]


def _pooled(cells: Sequence[Cell], attack: str, defence: str, key: str) -> str:
    rate = share(cells, attack, defence, key)
    if rate is None:
        return ""
    num_seeds, of = len(hits_of(cells, attack, defence, key)), len({cell.seed for cell in cells})
    return f"{rate:.1%}" + (f", {num_seeds} of {of} seeds" if num_seeds < of else "")


def _judges(cells: Sequence[Cell]) -> list[str]:
    lines = ["## Judges\n"]
    for key in SCORED:
        agreement = judge_agreement(cells, key)
        if agreement is not None:
            kappa = "undefined" if isinstance(agreement.kappa, Unknown) else f"{agreement.kappa:.2f}"
            both = f"{' and '.join(agreement.judges)} agree on {agreement.agreed:.1%} of {agreement.trials} answers"
            lines.append(f"- `{key}`: {both}, Cohen's kappa {kappa}")
    lines += [f"- `{judge}`: {unscored(cells, judge)} answers unscored" for judge in judges_of(cells)]
    return [*lines, ""]


def _failed(cells: Sequence[Cell]) -> list[str]:
    """Failed cells grouped by how their reason begins, the commonest first: one full GPU fails many cells in the same way."""
    failed = [cell for cell in cells if cell.status == "failed"]
    reasons = Counter(map(_begins, failed))
    named = {reason: [_named(cell) for cell in failed if _begins(cell) == reason] for reason in reasons}
    lines = [f"- {count} x {reason}: {'; '.join(named[reason])}" for reason, count in reasons.most_common()]
    return ["## Failed cells\n", *lines, ""] if failed else []


def _begins(cell: Cell) -> str:
    return cell.reason.partition(": ")[0]


def _named(cell: Cell) -> str:
    return f"{cell.attack} x {cell.defence}, seed {cell.seed}"


def _shown(kept: dict[str, Any]) -> str:
    return f"{Estimate(kept['value'], kept['low'], kept['high']):.1%}"


def cells_of(run: Path) -> list[Cell]:
    """Every cell of a run, in the order of the grid. Raises ``InputError`` where two versions of the code made them."""
    cells = [cell for path in sorted((run / "cells").glob("*.json")) if (cell := read_cell(path)) is not None]
    attacks, defences = list(ATTACKS), list(DEFENCES)
    seen: set[str] = set()
    for cell in cells:
        if cell.attack not in attacks or cell.defence not in defences:
            raise InputError(f"{run}: holds {_named(cell)}, which this version does not know")
        if cell.status == "ok" and _named(cell) in seen:
            raise InputError(f"{run}: holds {_named(cell)} twice: two versions ran there; use a folder for each")
        if cell.status == "ok":
            seen.add(_named(cell))
    return sorted(cells, key=lambda cell: (attacks.index(cell.attack), defences.index(cell.defence), cell.seed))


def main(arguments: Sequence[str]) -> None:
    """Write the page of RUN into FILE, with the alignment's figures if they are given."""
    with mistakes_end_it():
        if len(arguments) not in (2, 3, 4):
            raise InputError("usage: python -m holdfast_studies.real.page RUN FILE [ALIGN.json [MODEL]]")
        run, out, *rest = arguments
        command = f"python -m holdfast_studies.real.page {' '.join(arguments)}"
        text = page(cells_of(Path(run)), command, Path(rest[0]) if rest else None, *rest[1:])
        with atomic_text(Path(out)) as file:
            file.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
