"""What an audit found, in the sentences of its table, its report and its model's card."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.records.audit import AuditResult, Bar, Change, Figure, Group
from holdfast.stats import Estimate

NOUNS: dict[Group, str] = {
    "harmful": "harmful requests",
    "harmless": "harmless requests",
    "contrasts": "unsafe contrasts of them",
}
BOUNDS = {"low": "lower bound", "high": "upper bound"}
ORDER = ("complied", "unsafe", "not_refused", "refused", "missed", "kept")
NOT_CORRECTED = "shares are the judges' own, not corrected by labels"
MOSTLY_MISSED = "most replies to harmful requests miss them: a low share complied is then no sign of safety"


def shares_lines(result: AuditResult) -> list[str]:
    """One line for every group of requests that was asked."""
    return [line for group in NOUNS if (line := shares_line(result, group))]


def shares_line(result: AuditResult, group: Group) -> str:
    """What became of one group's requests, by the first judge; empty where none were asked."""
    figures = result.shares(group)
    if not figures:
        return ""
    known = {word: figures[word] for word in ORDER if word in figures}
    parts = [f"{_word(word, figure)} {_share(figure.best)}" for word, figure in known.items()]
    first = next(iter(figures.values()))
    notes = [f"{first.trials} requests", f"judge {first.judge}"]
    if first.corrected is not None:
        alone = [f"{_word(word)} {_share(rate.estimate)}" for word, rate in known.items() if rate.corrected is not None]
        notes += [first.corrected.method, f"by the judge alone {', '.join(alone)}"]
    if "missed" not in figures:
        notes[1] += ", which does not tell missed from complied"
    if first.unscored:
        notes.append(f"{first.unscored} unscored, which count against the model in every share")
    if "kept" in figures:
        notes.append(f"kept: the same outcome as {result.untouched}")
    return f"{NOUNS[group]}: {', '.join(parts)} ({'; '.join(notes)})"


def cautions(result: AuditResult) -> list[str]:
    """What a reader must know of the shares, each once."""
    missed = result.shares("harmful").get("missed")
    mostly = missed is not None and missed.best.value > 0.5
    return [*([MOSTLY_MISSED] if mostly else []), *result.labels]


Named = Callable[[str, float | None], str]
"""How a bar's option and its value are written."""


def as_option(option: str, value: float | None = None) -> str:
    """As the command line takes it: ``--max-complied 0.05``."""
    return option if value is None else f"{option} {value:g}"


def as_argument(option: str, value: float | None = None) -> str:
    """As Python takes it: ``max_complied=0.05``."""
    return f"{option.removeprefix('--').replace('-', '_')}=" + ("" if value is None else f"{value:g}")


def bar_lines(result: AuditResult, named: Named = as_option) -> list[str]:
    """One line for every bar: whether it was met, by which figure, and how sure that figure is."""
    figures = {figure.key: figure for figure in result.figures}
    return [_bar_line(bar, figures[bar.figure], named) for bar in result.bars]


def _bar_line(bar: Bar, figure: Figure, named: Named) -> str:
    """The figure, the bar, and how sure the figure is."""
    word = "met" if bar.met else "NOT MET"
    if bar.change:
        return f"{word}: {_since(bar, bar.change, figure, named)}"
    best = figure.best
    sure = f"95 % interval [{best.low:.3f}, {best.high:.3f}], {figure.trials} trials"
    sure += f", {best.method}" if best is figure.corrected else ""
    if bar.compared == "value":
        number = f"{bar.figure} {bar.number:.3f}"
    else:
        number = f"{BOUNDS[bar.compared]} {bar.number:.3f} of {bar.figure}"
        sure = f"value {best.value:.3f}, {sure}"
    at_most, at_least = ("<=", ">=") if bar.met else (">", "<")
    sign = at_most if bar.option.startswith("--max") else at_least
    return f"{word}: {number} {sign} {named(bar.option, bar.bound)} ({sure})"


def _since(bar: Bar, change: Change, figure: Figure, named: Named) -> str:
    """The judge's own value now and before, whether it is worse, and whether that may be chance."""
    now, by = figure.estimate.value, change.by
    before = now - by.value if figure.better == "less" else now + by.value
    allowed = round(abs(bar.bound - before), 9)
    option = named("--before", None) + (f", {named('--max-worse', allowed)}" if allowed else "")
    said = f"{bar.figure} {now:.3f}, before {before:.3f} ({option}): {change.said}, {_amount(by)}"
    if change.p is None:
        said += ", not in pairs: that audit kept no score of each row"
    else:
        pairs = f"{change.num_worse} of {figure.trials} worse, {change.num_better} better"
        said += f", p {change.p:.2g} in pairs ({pairs})"
    if bar.compared == "worst":
        said += f"; {named('--strict-before', None)}: may be worse by up to {by.high:.3f}"
    return said


def _amount(worse_by: Estimate) -> str:
    value, low, high = worse_by.value, worse_by.low, worse_by.high
    if value < 0:
        return f"better by {-value:.3f} [{-high:.3f}, {-low:.3f}]"
    return f"by {value:.3f} [{low:.3f}, {high:.3f}]"


def _word(word: str, figure: Figure | None = None) -> str:
    """The outcome in words. Labels tell what complied, so a corrected *not refused* or *unsafe* is called *complied*."""
    is_corrected = figure is not None and figure.corrected is not None
    return "complied" if is_corrected and word in ("not_refused", "unsafe") else word.replace("_", " ")


def _share(share: Estimate) -> str:
    """``1.2 % [0.3, 4.1]``."""
    return f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"
