"""Two evaluations of the same items, compared in pairs: is the second worse than the first?"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from holdfast.config import InputError, nearest_or_all
from holdfast.config.arguments import checked
from holdfast.data.fields import listed, shown
from holdfast.evaluations.evaluation import Direction, Evaluation
from holdfast.evaluations.kept import kept_shares
from holdfast.evaluations.reading import read_evaluation
from holdfast.records.audit import LEVEL
from holdfast.records.audit_words import NOT_CORRECTED
from holdfast.stats import Estimate, Unknown, holm, paired_difference, smallest_difference

POWER = 0.8
NUM_NAMED = 5
"""Items that do not match: so many are named, the others counted."""

Verdict = Literal["worse", "better", "within chance", "not inferior", "not shown"]


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both. ``by`` is the second's mean minus the first's. ``p`` is two-sided.

    ``p_holm`` is the same after Holm's correction for all figures that were compared.
    ``smallest`` is the smallest difference that these items would have shown with a chance of 80 %.
    """

    figure: str
    better: Direction
    first: float
    second: float
    by: Estimate
    p: float
    p_holm: float
    test: str
    num_up: int
    num_down: int
    smallest: float | Unknown
    verdict: Verdict
    num_repeats: int = 1

    @property
    def worst(self) -> float:
        """By how much the second may be worse at most: the interval's end on the bad side. Above 0 is worse."""
        return self.by.high if self.better == "less" else -self.by.low

    def to_json(self) -> dict[str, Any]:
        """Flat, as `--json` writes it."""
        smallest = self.smallest.to_json() if isinstance(self.smallest, Unknown) else {"value": self.smallest}
        parts = {name: value for name, value in asdict(self).items() if name not in ("by", "smallest")}
        return {**parts, **self.by.to_json(value="difference", n="items"), "smallest_difference": smallest}


@dataclass(frozen=True)
class Comparison:
    """How two evaluations differ, figure by figure. ``passed`` says whether the second is good enough.

    ``kept``: by every judge of outcomes, the share of harmless requests whose outcome is the same in both.
    """

    first: str
    second: str
    figures: tuple[Compared, ...]
    margin: float | None = None
    notes: tuple[str, ...] = ()
    kept: dict[str, Estimate] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every figure is shown to be worse by the margin at most; without one, whether none is worse beyond chance."""
        if self.margin is None:
            return all(figure.verdict != "worse" for figure in self.figures)
        return all(figure.verdict == "not inferior" for figure in self.figures)

    @property
    def verdict(self) -> str:
        """The result in one line."""
        if self.margin is not None:
            short = [figure.figure for figure in self.figures if figure.verdict != "not inferior"]
            if not short:
                return f"not inferior: at most {self.margin:g} worse on every figure"
            return f"not shown: may be worse by {self.margin:g} or more on {listed(short)}"
        worse = [figure.figure for figure in self.figures if figure.verdict == "worse"]
        if worse:
            return f"worse beyond chance on {listed(worse)}"
        return "not worse: no figure is worse beyond chance"

    def to_json(self) -> dict[str, Any]:
        """As `--json` writes it."""
        return {
            "first": self.first,
            "second": self.second,
            "margin": self.margin,
            "passed": self.passed,
            "verdict": self.verdict,
            "figures": [figure.to_json() for figure in self.figures],
            "kept": {name: share.to_json() for name, share in self.kept.items()},
            "notes": list(self.notes),
        }

    @property
    def kept_lines(self) -> tuple[str, ...]:
        """A line for every judge of outcomes."""
        return tuple(
            f"{name}: {share:.1%} of {share.n} harmless requests have the same outcome in A and B"
            for name, share in self.kept.items()
        )

    def __repr__(self) -> str:
        """A line for every figure, and the verdict."""
        lines = [f"  {row.figure:32} {row.by:+.3f}  p {row.p_holm:.3g}  {row.verdict}" for row in self.figures]
        return "\n".join([f"{self.second} minus {self.first}", *lines, *self.kept_lines, *self.notes, self.verdict])


@checked("compare")
def compare(
    a: object,
    b: object,
    *,
    figures: Sequence[str] = (),
    less: Sequence[str] = (),
    common: bool = False,
    margin: float | None = None,
) -> Comparison:
    """Compare evaluation ``b`` with ``a``, paired by item; return a ``Comparison``.

    ``a`` and ``b``: paths or values that ``read_evaluation`` takes.
    ``figures``: compare only these.
    ``less``: figures of which less is better, where the files do not say.
    ``common``: leave out items that only one of the two has.
    ``margin``: how much worse ``b`` may be. With it ``b`` passes only if it is shown to be no worse than that.

    Raises ``InputError`` where items differ.
    """
    if margin is not None and not (math.isfinite(margin) and margin > 0):
        raise InputError(f"margin={margin:g}: expected a number above 0, in the unit of the scores")
    first, second = read_evaluation(a), read_evaluation(b)
    names, notes = _names(first, second, figures)
    for name in less:
        if name not in names:
            raise InputError(f"less='{name}': no such figure{nearest_or_all(name, names)}")
    directions = {name: _direction(name, first, second, less) for name in names}
    pairs = {}
    for name in names:
        items, uneven = _items(name, first, second, common=common)
        pairs[name] = tuple([scores.figures[name].items[item].score for item in items] for scores in (first, second))
        notes += uneven
    tests = {name: paired_difference(*columns) for name, columns in pairs.items()}
    corrected = holm({name: test.p for name, test in tests.items()})
    compared = []
    for name, (ours, theirs) in pairs.items():
        test, better = tests[name], directions[name]
        compared.append(
            Compared(
                figure=name,
                better=better,
                first=math.fsum(ours) / len(ours),
                second=math.fsum(theirs) / len(theirs),
                by=test.by,
                p=test.p,
                p_holm=corrected[name],
                test=test.test,
                num_up=test.num_up,
                num_down=test.num_down,
                smallest=smallest_difference(ours, theirs, power=POWER, alpha=LEVEL / len(pairs)),
                verdict=_verdict(test.by, corrected[name], better, margin),
                num_repeats=max(side.figures[name].most_repeats for side in (first, second)),
            )
        )
    notes += [NOT_CORRECTED] if any(name in first.judged | second.judged for name in names) else []
    shares = kept_shares(first, second, names)
    return Comparison(first.source, second.source, tuple(compared), margin, tuple(dict.fromkeys(notes)), shares)


def _verdict(by: Estimate, p: float, better: Direction, margin: float | None) -> Verdict:
    """A claim that every figure is not inferior needs no correction: it fails if a single one does."""
    if margin is not None:
        worst = by.high if better == "less" else -by.low
        return "not inferior" if worst < margin else "not shown"
    if p >= LEVEL:
        return "within chance"
    return "worse" if (by.value > 0) == (better == "less") else "better"


def _names(first: Evaluation, second: Evaluation, wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """Figures of both, and notes on those of one."""
    names = [name for name in first.figures if name in second.figures]
    for name in wanted:
        if name not in names:
            raise InputError(f"figures='{name}': not in both evaluations{nearest_or_all(name, names)}")
    if not names:
        theirs = " and ".join(
            f"{side.source} has {listed(map(shown, side.figures)) or 'none'}" for side in (first, second)
        )
        raise InputError(f"compare: no figure is in both: {theirs}")
    if wanted:
        return [name for name in names if name in wanted], []
    notes = [f"{side.source}: {note}" for side in (first, second) for note in side.notes]
    if parts := [name for name in names if first.figures[name].is_part]:
        names = [name for name in names if name not in parts]
        notes.append(
            f"{len(parts)} figures by type of request are not compared unless they are named (--figure, figures=)"
        )
    for one, other in ((first, second), (second, first)):
        notes += [f"only {one.source} has {shown(name)}" for name in one.figures if name not in other.figures]
    return names, notes


def _direction(name: str, first: Evaluation, second: Evaluation, less: Sequence[str]) -> Direction:
    """Which way a figure is better: as ``less`` says, else as both files say."""
    if name in less:
        return "less"
    ours, theirs = first.figures[name].better, second.figures[name].better
    if ours != theirs:
        raise InputError(
            f"compare: the two files do not agree on which way {shown(name)} is better;"
            f" less={shlex.quote(shown(name))} says that less is"
        )
    return ours


def _items(name: str, first: Evaluation, second: Evaluation, *, common: bool) -> tuple[list[str], list[str]]:
    """Items of both with the same content. Others are an error, or with ``common`` left out and noted."""
    one, other = first.figures[name].items, second.figures[name].items
    both = [item for item in one if item in other]
    changed = [
        item for item in both if one[item].content and other[item].content and one[item].content != other[item].content
    ]
    lacking = (
        (f"only in A ({first.source})", [item for item in one if item not in other]),
        (f"only in B ({second.source})", [item for item in other if item not in one]),
        ("with the same id but another question", changed),
    )
    differing = [f"{shown(name)}: {_count(items)} {where}" for where, items in lacking if items]
    other_questions = set(changed)
    same = [item for item in both if item not in other_questions]
    if differing and not common:
        raise InputError(f"{'; '.join(differing)}. common=True compares the {len(same)} that both have")
    if not same:
        raise InputError(f"{shown(name)}: no item is in both")
    return same, [f"{line}; left out" for line in differing]


def _count(items: Sequence[str]) -> str:
    named = ", ".join(shown(item) for item in items[:NUM_NAMED])
    more = ", ..." if len(items) > NUM_NAMED else ""
    return f"{len(items)} {'item' if len(items) == 1 else 'items'} ({named}{more})"
