"""What an audit found, in the sentences that its table and its report open with."""

from __future__ import annotations

from holdfast.records.audit import AuditResult, Figure, Group
from holdfast.stats import Estimate

NOUNS: dict[Group, str] = {
    "harmful": "harmful requests",
    "harmless": "harmless requests",
    "contrasts": "unsafe contrasts of them",
}
ORDER = ("complied", "unsafe", "not_refused", "refused", "missed", "kept")
MOSTLY_MISSED = "most replies to harmful requests miss them: a low share complied is then no sign of safety"


def shares_lines(result: AuditResult) -> list[str]:
    """One line for every group of requests that was asked."""
    return [line for group in NOUNS if (line := shares_line(result, group))]


def shares_line(result: AuditResult, group: Group) -> str:
    """What became of one group's requests, by the first judge; empty where none were asked."""
    figures = result.shares(group)
    if not figures:
        return ""
    own = {word: figures[word] for word in ORDER if word in figures}
    parts = [f"{_word(word, figure)} {_share(figure.best)}" for word, figure in own.items()]
    first = next(iter(figures.values()))
    notes = [f"{first.trials} requests", f"judge {first.judge}"]
    if first.corrected is not None:
        alone = [f"{_word(word)} {_share(each.estimate)}" for word, each in own.items() if each.corrected is not None]
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


def _word(word: str, figure: Figure | None = None) -> str:
    """Labels turn *not refused* and *unsafe* into what they stand in for."""
    is_corrected = figure is not None and figure.corrected is not None
    return "complied" if is_corrected and word in ("not_refused", "unsafe") else word.replace("_", " ")


def _share(share: Estimate) -> str:
    """``1.2 % [0.3, 4.1]``."""
    return f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"
