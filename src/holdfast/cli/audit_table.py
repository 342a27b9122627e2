"""An audit as a person reads it: figures with intervals, what the judges agree on, which bars were met."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.records import AuditResult, Figure

SHOWN_POSITIONS = 8
WIDTH = 120  # of a table that goes into a file


def show(result: AuditResult) -> None:
    """Print the audit on stdout."""
    from holdfast.records.audit_words import NOUNS, bar_lines, cautions, shares_lines

    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    say = partial(console.print, markup=False, soft_wrap=True)
    for line in shares_lines(result):
        say(line)
    say(f"model: {result.model}" + (f"; anchor: {result.anchor}" if result.anchor else ""))
    for source in result.sources:
        say(f"asked: {source}")
    by_type = [figure for figure in result.figures if ": " in figure.name]
    in_words = [figure for group in NOUNS for figure in result.shares(group).values()]
    others = [figure for figure in result.figures if figure not in in_words and figure not in by_type]
    if others:
        console.print(_table(others))
    if by_type:
        say(
            f"{len(by_type)} figures by type of request are not shown: --out and --json write them, the report draws them"
        )
    for line in cautions(result):
        say(line)
    if result.kl_by_position:
        first = " ".join(f"{value:.3f}" for value in result.kl_by_position[:SHOWN_POSITIONS])
        say(f"KL to the anchor at answer token 1, 2, ...: {first}")
    for pair in result.agreements:
        who = " and ".join(pair.judges)
        say(f"{pair.suite}: {who} agree on {pair.agreed:.1%} of {pair.trials}; Cohen's kappa {pair.kappa:.2f}")
    if result.num_missing:
        say(f"{result.num_missing} answers never came or were empty; each counts against the model")
    for note in result.notes:
        say(f"not measured: {note}")
    for line in bar_lines(result):
        say(line)


def _table(figures: Sequence[Figure]) -> Table:
    table = Table("figure", "value", "95 % interval", "trials", "unscored", "better", box=None, header_style="bold")
    if any(figure.corrected for figure in figures):
        table.add_column("corrected by labels")
    for figure in figures:
        fixed = f"{figure.corrected:.1%}" if figure.corrected else ""
        fixed += " complied" if fixed and figure.name.endswith(("not_refused", "unsafe")) else ""
        table.add_row(*(Text(cell) for cell in (*_row(figure), fixed)[: len(table.columns)]))
    return table


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
