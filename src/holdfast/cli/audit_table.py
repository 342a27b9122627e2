"""An audit as a person reads it: figures with intervals, what the judges agree on, which bars were met."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from holdfast.records import AuditResult, Bar, Change, Figure
    from holdfast.stats import Estimate

SHOWN_POSITIONS = 8
WIDTH = 120  # of a table that goes into a file
WORDS = {"low": "lower bound", "high": "upper bound"}


def show(result: AuditResult) -> None:
    """On stdout."""
    from holdfast.records.audit_words import NOUNS, cautions, shares_lines

    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    say = partial(console.print, markup=False, soft_wrap=True)
    for line in shares_lines(result):
        say(line)
    say(f"model: {result.model}" + (f"; anchor: {result.anchor}" if result.anchor else ""))
    for source in result.sources:
        say(f"asked: {source}")
    table = Table("figure", "value", "95 % interval", "trials", "unscored", "better", box=None, header_style="bold")
    told = [figure for group in NOUNS for figure in result.shares(group).values()]
    by_type = [figure for figure in result.figures if ": " in figure.name]
    others = [figure for figure in result.figures if figure not in told and figure not in by_type]
    if any(figure.corrected for figure in others):
        table.add_column("corrected by labels")
    for figure in others:
        fixed = f"{figure.corrected:.1%}" if figure.corrected else ""
        fixed += " complied" if fixed and figure.name.endswith(("not_refused", "unsafe")) else ""
        table.add_row(*(Text(cell) for cell in (*_row(figure), fixed)[: len(table.columns)]))
    if table.row_count:
        console.print(table)
    if by_type:
        say(
            f"{len(by_type)} figures by type of request are not shown: --out and --json write them, the report draws them"
        )
    for line in cautions(result):
        say(line)
    if result.kl_by_position:
        first = " ".join(f"{value:.3f}" for value in result.kl_by_position[:SHOWN_POSITIONS])
        say(f"KL to the anchor at answer token 1, 2, ...: {first}")
    for each in result.agreements:
        who = " and ".join(each.judges)
        say(f"{each.suite}: {who} agree on {each.agreed:.1%} of {each.trials}; Cohen's kappa {each.kappa:.2f}")
    if result.num_missing:
        say(f"{result.num_missing} answers never came or were empty; each counts against the model")
    for note in result.notes:
        say(f"not measured: {note}")
    for bar in result.bars:
        say(_verdict(bar, next(each for each in result.figures if each.key == bar.figure)))


def _row(figure: Figure) -> tuple[str, ...]:
    number = _percent if _is_share(figure) else _plain
    interval = f"[{number(figure.low)}, {number(figure.high)}]"
    better = "" if figure.better == "neither" else figure.better
    return figure.key, number(figure.value), interval, str(figure.trials), str(figure.unscored or ""), better


def _is_share(figure: Figure) -> bool:
    return not figure.name.startswith("perplexity") and "rouge" not in figure.name


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _plain(value: float) -> str:
    return f"{value:.3f}" if value < 1e5 else f"{value:.3g}"


def _verdict(bar: Bar, figure: Figure) -> str:
    """The figure, the bar, and how sure the figure is."""
    word = "met" if bar.met else "NOT MET"
    if bar.change:
        return f"{word}: {_since(bar, bar.change, figure)}"
    best = figure.best
    sure = f"95 % interval [{best.low:.3f}, {best.high:.3f}], {figure.trials} trials"
    sure += f", {best.method}" if best is figure.corrected else ""
    if bar.compared == "value":
        number = f"{bar.figure} {bar.number:.3f}"
    else:
        number = f"{WORDS[bar.compared]} {bar.number:.3f} of {bar.figure}"
        sure = f"value {best.value:.3f}, {sure}"
    at_most, at_least = ("<=", ">=") if bar.met else (">", "<")
    sign = at_most if bar.option.startswith("--max") else at_least
    return f"{word}: {number} {sign} {bar.option} {bar.bound:g} ({sure})"


def _since(bar: Bar, change: Change, figure: Figure) -> str:
    """The judge's own value now and before, whether it is worse, and whether that may be chance."""
    now, by = figure.estimate.value, change.by
    before = now - by.value if figure.better == "less" else now + by.value
    allowed = round(abs(bar.bound - before), 9)
    option = f"--before, --max-worse {allowed:g}" if allowed else "--before"
    said = f"{bar.figure} {now:.3f}, before {before:.3f} ({option}): {change.said}, {_amount(by)}"
    if change.p is None:
        said += ", not in pairs: that audit kept no score of each row"
    else:
        pairs = f"{change.num_worse} of {figure.trials} worse, {change.num_better} better"
        said += f", p {change.p:.2g} in pairs ({pairs})"
    return f"{said}; --strict-before: may be worse by up to {by.high:.3f}" if bar.compared == "worst" else said


def _amount(worse_by: Estimate) -> str:
    value, low, high = worse_by.value, worse_by.low, worse_by.high
    if value < 0:
        return f"better by {-value:.3f} [{-high:.3f}, {-low:.3f}]"
    return f"by {value:.3f} [{low:.3f}, {high:.3f}]"
