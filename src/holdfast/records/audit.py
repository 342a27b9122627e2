"""What an audit of one model finds: named figures with intervals, what the judges agree on, and which bars were met."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from holdfast.records.results import OUTCOMES, Outcome
from holdfast.stats import Estimate, Unknown

Better = Literal["less", "more", "neither"]
Worse = Literal["worse beyond chance", "worse, within chance", "not worse"]
LEVEL = 0.05
"""Below this p-value a difference is beyond chance."""
ONE_VERDICT = "undefined: both gave one verdict throughout"
Group = Literal["harmful", "harmless", "contrasts"]
"""What is asked of safety: requests to be refused, requests to be met, and the unsafe ones among look-alikes."""
ESTIMATE = ("low", "high", "method", "hits", "why")
"""Parts of an estimate that files keep under these names; its value and its number of cases have other names in each."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A named share or mean. ``unscored`` of its trials had no answer, or none that could be decided: they are among the
    trials, and each counts against the model.
    """

    name: str
    estimate: Estimate
    better: Better
    meaning: str
    judge: str = ""  # who decided; empty where no judge is needed
    unscored: int = 0
    scores: str = ""  # of every trial in order, one space between: what a later audit of the same rows is paired with
    source: str = ""  # what was asked: one of the audit's sources
    corrected: Estimate | None = None  # by labels of some of the replies; None where there are none to correct by

    @property
    def key(self) -> str:
        """Its name in tables and files; no two figures of an audit have the same."""
        return f"{self.name} ({self.judge})" if self.judge else self.name

    @property
    def value(self) -> float:
        """The value of its estimate."""
        return self.estimate.value

    @property
    def low(self) -> float:
        """The lower end of its 95 % interval."""
        return self.estimate.low

    @property
    def high(self) -> float:
        """The upper end of its 95 % interval."""
        return self.estimate.high

    @property
    def trials(self) -> int:
        """How many rows were asked."""
        return self.estimate.n

    @property
    def by_row(self) -> tuple[float, ...]:
        """The score of every trial in order; empty where none were kept. Raises ``ValueError`` if they are no numbers."""
        return tuple(float(score) for score in self.scores.split())

    @property
    def can_err(self) -> bool:
        """Whether a judge decided who may err; the oracle of the embedded world does not."""
        return self.judge not in ("", "world")

    @property
    def best(self) -> Estimate:
        """The corrected estimate where there is one, else the judge's. Bars are compared with it."""
        return self.corrected or self.estimate

    def to_json(self) -> dict[str, Any]:
        """As it is kept in a file: the parts of the estimate beside the rest."""
        corrected = self.corrected and self.corrected.to_json()
        return {**_without(asdict(self), "estimate"), **self.estimate.to_json(n="trials"), "corrected": corrected}

    @staticmethod
    def from_json(kept: Mapping[str, Any]) -> Figure:
        """The inverse of ``to_json``. A figure of a version before 0.2 gets the name that it has now."""
        parts = _without(kept, *ESTIMATE, "value", "trials")
        parts["name"] = _name_now(kept["name"], kept.get("judge", ""))
        parts["corrected"] = Estimate.from_json(kept["corrected"]) if kept.get("corrected") else None
        return Figure(**parts, estimate=Estimate.from_json(kept, n="trials"))


def figure_name(group: Group, what: str) -> str:
    """The name of a figure of a group: ``complied``, ``harmless_complied``, ``contrasts_complied``."""
    return what if group == "harmful" else f"{group}_{what}"


def suite_of(name: str, suites: Iterable[str]) -> str | None:
    """Which of these suites a figure of this name is about; None if it is about none of them."""
    if name in (*OUTCOMES, "not_refused", "unsafe"):
        name = "harmful"
    elif name == "kept":
        name = "harmless"
    elif name.startswith("summary_"):
        name = "summaries"
    return max((suite for suite in suites if name.startswith(suite)), key=len, default=None)


def unsafe_means(judge: str) -> Literal["not_refused", "unsafe"]:
    """What *unsafe* means for a judge that does not tell missed from complied: ``not_refused`` or ``unsafe``."""
    return "not_refused" if judge.rpartition(":")[2] in ("refusal_phrases", "learned") else "unsafe"


def _name_now(name: str, judge: str) -> str:
    base, colon, kind = name.partition(":")
    fault = "complied" if judge in ("", "world", "outcome") or judge.startswith("asked:") else unsafe_means(judge)
    now = {"asr": fault, "over_refusal": "harmless_refused", "contrasts_answered": f"contrasts_{fault}"}
    return now.get(base, base) + colon + kind


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two judges agree on the same answers. Cohen's kappa is unknown where both said the same of every one."""

    suite: str
    judges: tuple[str, str]
    agreed: float  # share of the answers
    kappa: Estimate | Unknown
    trials: int

    @staticmethod
    def of(
        suite: str,
        judges: tuple[str, str],
        first: Sequence[Hashable],
        second: Sequence[Hashable],
        *,
        requests: Sequence[Hashable] | None = None,
    ) -> Agreement:
        """The agreement of two judges' verdicts. ``requests``: which request each answer is to, where several are to one."""
        from holdfast.stats import cohen_kappa  # numpy, which those who read records do not need

        agreed = sum(a == b for a, b in zip(first, second, strict=True)) / len(first)
        return Agreement(suite, judges, agreed, cohen_kappa(first, second, groups=requests), len(first))

    def to_json(self) -> dict[str, Any]:
        """As it is kept in a file: ``kappa``, ``low`` and ``high`` are numbers, or null where kappa is unknown."""
        return {**asdict(self), **self.kappa.to_json(value="kappa", n="trials")}

    @staticmethod
    def from_json(kept: Mapping[str, Any]) -> Agreement:
        """The inverse of ``to_json``."""
        kappa: Estimate | Unknown = Unknown(ONE_VERDICT, kept["trials"])
        if kept["kappa"] is not None:
            kappa = Estimate.from_json(kept, value="kappa", n="trials")
        return Agreement(**{**_without(kept, *ESTIMATE), "judges": tuple(kept["judges"]), "kappa": kappa})


@dataclass(frozen=True, slots=True)
class Change:
    """By how much a figure is worse than in an earlier audit. Above 0 is worse, also for figures where more is better.

    ``p`` is two-sided, of a paired test. ``p`` and the numbers of trials are None where the two audits could not be paired.
    """

    by: Estimate
    said: Worse
    p: float | None = None
    num_worse: int | None = None  # trials that score worse than before
    num_better: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As it is kept in a file: ``by``, ``low`` and ``high`` are numbers."""
        return {**asdict(self), **self.by.to_json(value="by")}

    @staticmethod
    def from_json(kept: Mapping[str, Any]) -> Change:
        """The inverse of ``to_json``."""
        return Change(**{**_without(kept, *ESTIMATE, "n"), "by": Estimate.from_json(kept, value="by")})


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar and the figure that was compared with it. ``compared`` says which number of the figure was taken.

    ``worst`` is the figure's value in an earlier audit plus the upper end of the change since then.
    """

    option: str
    bound: float
    figure: str
    compared: Literal["value", "low", "high", "worst"]
    number: float
    met: bool
    change: Change | None = None  # where the bound is an earlier audit's

    def to_json(self) -> dict[str, Any]:
        """As it is kept in a file."""
        return {**asdict(self), "change": self.change and self.change.to_json()}

    @staticmethod
    def from_json(kept: Mapping[str, Any]) -> Bar:
        """The inverse of ``to_json``. A figure of a version before 0.2 gets the name that it has now."""
        name, _, judge = kept["figure"].partition(" (")
        figure = _name_now(name, judge[:-1]) + (f" ({judge}" if judge else "")
        change = Change.from_json(kept["change"]) if kept.get("change") else None
        parts = {**kept, "met": kept["met"] if "met" in kept else kept["held"]}  # its name before version 0.2
        parts.pop("held", None)
        return Bar(**{**parts, "figure": figure, "change": change})


@dataclass(frozen=True, slots=True)
class AuditResult:
    """Everything that was measured on one model, and how."""

    model: str
    anchor: str | None
    judges: tuple[str, ...]
    figures: tuple[Figure, ...]
    agreements: tuple[Agreement, ...] = ()
    bars: tuple[Bar, ...] = ()
    kl_by_position: tuple[float, ...] = ()  # mean KL(model || anchor) at answer token 1, 2, ...
    num_missing: int = 0  # answers that never came, or came empty
    sources: tuple[str, ...] = ()  # what was asked
    fingerprints: tuple[str, ...] = ()  # of the rows of each source
    notes: tuple[str, ...] = ()  # what was not measured, and why
    settings: dict[str, Any] | None = None
    seconds: float = 0.0
    outcomes: dict[str, tuple[Outcome | None, ...]] = field(
        default_factory=dict
    )  # of every reply: "harmless (outcome)"
    untouched: str | None = None  # the model that *kept* compares with
    labels: tuple[str, ...] = ()  # how far to trust the shares, in sentences: whether labels correct them, for one

    @property
    def passed(self) -> bool:
        """Whether every bar was met."""
        return all(bar.met for bar in self.bars)

    def shares(self, group: Group) -> dict[str, Figure]:
        """*complied*, *refused*, *missed* and *kept* of a group's requests, by the first judge.

        A judge that tells no outcomes has *not_refused* or *unsafe* of harmful requests, and *refused* of harmless ones.
        """
        judge = next(iter(self.judges), "")
        words = (*OUTCOMES, "not_refused", "unsafe")
        names = {figure_name(group, word): word for word in words}
        names |= {"kept": "kept"} if group == "harmless" else {}
        return {names[figure.name]: figure for figure in self.figures if figure.judge == judge and figure.name in names}

    def to_json(self) -> dict[str, Any]:
        """As written to ``audit.json``: the figures by key, as the report reads them; the first judge's shares by group."""
        groups: tuple[Group, ...] = ("harmful", "harmless", "contrasts")
        return {
            **{group: {word: _share(f) for word, f in self.shares(group).items()} for group in groups},
            **asdict(self),
            "passed": self.passed,
            "figures": {figure.key: figure.to_json() for figure in self.figures},
            "agreements": [agreement.to_json() for agreement in self.agreements],
            "bars": [bar.to_json() for bar in self.bars],
        }

    @staticmethod
    def from_json(content: dict[str, Any]) -> AuditResult:
        """The inverse of ``to_json``; a field that an older version did not write has its default."""
        parts = {field.name: content[field.name] for field in fields(AuditResult) if field.name in content}
        tuples = {name: tuple(value) for name, value in parts.items() if isinstance(value, list)}
        built = {
            "figures": tuple(map(Figure.from_json, content["figures"].values())),
            "agreements": tuple(map(Agreement.from_json, content.get("agreements", ()))),
            "outcomes": {key: tuple(outcomes) for key, outcomes in content.get("outcomes", {}).items()},
            "bars": tuple(map(Bar.from_json, content.get("bars", ()))),
        }
        return AuditResult(**{**parts, **tuples, **built})


def _share(figure: Figure) -> dict[str, Any]:
    return {**figure.estimate.to_json(), "corrected": figure.corrected and figure.corrected.to_json()}


def _without(kept: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in kept.items() if name not in names}
