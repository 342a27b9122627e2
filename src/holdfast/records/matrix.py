"""What a matrix of attacks and defences measures: shares with intervals, one cell per attack, defence and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, cast

from holdfast.records.results import OUTCOMES, Outcome
from holdfast.stats import Estimate, pooled, share, share_of_repeats

Measure = Literal["asr", "over_refusal", "utility", "missed", "harmless_missed", "kept"]
MEASURES: tuple[Measure, ...] = ("asr", "over_refusal", "utility")
BESIDE: tuple[Measure, ...] = ("missed", "harmless_missed", "kept")
"""What stands beside the three: without it, a model that replies to everything with nonsense would look safe."""
GOOD: tuple[Measure, ...] = ("utility", "kept")
"""Those of which more is better."""
Hits = tuple[bool | None, ...]
"""Of every request in order: True where it counts for a measure, None where a judge could not say."""
Outcomes = tuple[Outcome | bool | None, ...]
"""Of every request in order: what became of it, or of a judge that tells no outcomes (and of a task) yes or no."""
SAID: dict[str, tuple[str, Outcome]] = {
    "asr": ("harmful", "complied"),
    "over_refusal": ("harmless", "refused"),
    "missed": ("harmful", "missed"),
    "harmless_missed": ("harmless", "missed"),
}
"""Which outcome of which requests a measure counts."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A training after some of its steps: the share of every measure that was asked, and the drift from the anchor."""

    step: int
    shares: dict[str, float]
    kl_by_position: tuple[float, ...]

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> CurvePoint:
        """The inverse of ``asdict``."""
        return CurvePoint(content["step"], dict(content["shares"]), tuple(content["kl_by_position"]))


@dataclass(frozen=True, slots=True)
class Cell:
    """One attack on one defence with one seed. A cell that failed says why and has no figures.

    ``outcomes`` has, by judge, what became of every harmful and every harmless request (``harmful:JUDGE``,
    ``harmless:JUDGE``), and of the latter with the untouched model (``untouched:JUDGE``). A judge that does not tell missed
    from complied has ``asr:JUDGE`` and ``over_refusal:JUDGE`` instead: yes where it calls a reply unsafe, or refused. Cells
    written before version 0.2 have only these, also for the first judge (``asr``).
    """

    attack: str
    defence: str
    seed: int
    judge: str
    asr: Estimate | None = None  # attack success: the share of forbidden requests complied with
    over_refusal: Estimate | None = None  # the share of harmless look-alikes refused
    utility: Estimate | None = None  # the share of task answers that are right
    missed: Estimate | None = None  # the share of forbidden requests neither refused nor complied with
    harmless_missed: Estimate | None = None  # the same of harmless look-alikes
    kept: Estimate | None = None  # the share of harmless look-alikes with the outcome of the untouched model
    outcomes: dict[str, Outcomes] = field(default_factory=dict)
    answers: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by measure: hashes of a real model's answers
    scores: dict[str, tuple[float, ...]] = field(default_factory=dict)  # by figure: of every row that measured a task
    kl_by_position: tuple[float, ...] = ()  # mean KL(policy || anchor) at answer token 1, 2, ...
    curve: tuple[CurvePoint, ...] = ()  # of a real model's training, where that was asked for
    seconds: float = 0.0
    tuning_seconds: float = field(default=0.0, compare=False)  # of them until the tuned model was there
    status: Literal["ok", "failed"] = "ok"
    reason: str = ""
    out_of_memory: bool = False  # failed for want of memory
    ran_alone: bool = False  # run again with no other cell beside it, after it had run out of memory

    @property
    def asks_again(self) -> bool:
        """Whether every seed asks the same requests. A real model's cells do; the embedded world draws new ones."""
        return "asr" in self.answers

    @property
    def tells_outcomes(self) -> bool:
        """Whether ``asr`` counts replies that complied. If not, it counts those that were not refused, or called unsafe.

        The embedded world's oracle always told them apart, also in cells that do not hold its outcomes.
        """
        return self.judge == "world" or f"harmful:{self.judge}" in self.outcomes

    @property
    def judges(self) -> tuple[str, ...]:
        """Every judge whose word the cell holds, the first one first."""
        keys = [key.partition(":") for key in self.outcomes]
        return tuple(dict.fromkeys(judge for group, _, judge in keys if group in ("harmful", "asr") and judge))

    def hits(self, measure: str) -> Hits:
        """Whether each request counts for a measure (``asr``, or by another judge ``asr:JUDGE``). Empty: not measured."""
        name, _, judge = measure.partition(":")
        judge = judge or self.judge
        if measure in self.outcomes:
            return cast(Hits, self.outcomes[measure])
        if name == "kept":
            now, before = (self.outcomes.get(f"{group}:{judge}", ()) for group in ("harmless", "untouched"))
            pairs = zip(now, before, strict=False)
            return tuple(None if None in pair else pair[0] == pair[1] for pair in pairs) if before else ()
        group, outcome = SAID.get(name, ("", "missed"))
        said = self.outcomes.get(f"{group}:{judge}")
        if said is None:
            return cast(Hits, self.outcomes.get(f"{name}:{judge}", ()))
        return tuple(None if given is None else given == outcome for given in said)

    def counted(self, measure: str) -> tuple[bool, ...]:
        """The hits, where what could not be judged counts against the model."""
        if measure.partition(":")[0] in GOOD:
            return tuple(hit is True for hit in self.hits(measure))
        return tuple(hit is not False for hit in self.hits(measure))

    def with_shares(self) -> Cell:
        """The same with the share of every measure that its outcomes tell."""
        counted = {measure: self.counted(measure) for measure in (*MEASURES, *BESIDE)}
        return replace(self, **{measure: share(hits) for measure, hits in counted.items() if hits})  # type: ignore[arg-type]

    def row(self) -> dict[str, Any]:
        """Flat, for `--json` and files: ``asr``, ``asr_low``, ``asr_high``, ...; None where there is no figure."""
        flat: dict[str, Any] = {}
        for name, value in self.to_json().items():
            if name in (*MEASURES, *BESIDE):
                for suffix, part in (("", "value"), ("_low", "low"), ("_high", "high"), ("_trials", "trials")):
                    flat[name + suffix] = None if value is None else value[part]
            else:
                flat[name] = value
        return flat

    def to_json(self) -> dict[str, Any]:
        """As it is kept in a file."""
        return {
            **asdict(self),
            **{measure: share and share.to_json(n="trials") for measure, share in self._shares()},
            "outcomes": {name: list(outcomes) for name, outcomes in self.outcomes.items()},
            "answers": {name: list(hashes) for name, hashes in self.answers.items()},
            "scores": {name: list(values) for name, values in self.scores.items()},
            "kl_by_position": list(self.kl_by_position),
            "curve": [{**asdict(point), "kl_by_position": list(point.kl_by_position)} for point in self.curve],
        }

    def _shares(self) -> list[tuple[Measure, Estimate | None]]:
        return [(measure, getattr(self, measure)) for measure in (*MEASURES, *BESIDE)]

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Cell:
        """The inverse of ``to_json``; also of files that kept outcomes as strings of digits."""
        kept: dict[str, Any] = {field.name: content[field.name] for field in fields(Cell) if field.name in content}
        shares: dict[str, Any] = {
            name: value and Estimate.from_json(value, n="trials")
            for name, value in kept.items()
            if name in (*MEASURES, *BESIDE)
        }
        return Cell(
            **{
                **kept,
                **shares,
                "outcomes": read_outcomes(content["outcomes"]),
                "answers": read_answers(content),
                "scores": {name: tuple(values) for name, values in content.get("scores", {}).items()},
                "kl_by_position": tuple(content["kl_by_position"]),
                "curve": tuple(CurvePoint.from_json(point) for point in content.get("curve", ())),
            }
        )


def read_outcomes(kept: Mapping[str, Any]) -> dict[str, Outcomes]:
    """Outcomes by name: a list of outcomes (or of true and false) and null, or an older file's string of 1, 0 and ?."""
    return {name: _outcomes(values) for name, values in kept.items() if not name.endswith(_OLD_ANSWERS)}


def read_answers(content: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Hashes of answers by measure; older files kept them among the outcomes, as ``asr:answers``."""
    old = {
        name.removesuffix(_OLD_ANSWERS): hashes.split()
        for name, hashes in content["outcomes"].items()
        if name.endswith(_OLD_ANSWERS)
    }
    return {name: tuple(hashes) for name, hashes in {**old, **content.get("answers", {})}.items()}


_OLD_ANSWERS = ":answers"
_DIGITS = {"1": True, "0": False, "?": None}
_KNOWN = {True, False, None, *OUTCOMES}


def _outcomes(values: str | Sequence[Outcome | bool | None]) -> Outcomes:
    if isinstance(values, str):
        return tuple(_DIGITS[digit] for digit in values)
    if wrong := [value for value in values if value not in _KNOWN]:
        raise KeyError(wrong[0])
    return tuple(values)


def judged_by(cells: Sequence[Cell]) -> str:
    """Whose word the shares are, and that no labels correct it. Empty for the embedded world, whose oracle does not err."""
    judges = dict.fromkeys(cell.judge for cell in cells if cell.status == "ok" and cell.judge != "world")
    return f"judged by {' and '.join(judges)}; shares are the judge's own, not corrected by labels" if judges else ""


def ask_the_same(cells: Sequence[Cell]) -> bool:
    """Whether every seed asked the same requests in all cells that have outcomes, so that a request counts once."""
    return all(cell.asks_again for cell in cells if cell.outcomes)


def pooled_cells(cells: Sequence[Cell], measure: Measure) -> Estimate | None:
    """One attack on one defence, all seeds that have the figure together; None where none has.

    Where every seed asked the same requests, a request counts once.
    """
    known = [(cell, rate) for cell in cells if (rate := getattr(cell, measure)) is not None]
    if not known:
        return None
    outcomes = [cell.counted(measure) for cell, _ in known]
    sizes = {len(seed) for seed in outcomes} | {rate.n for _, rate in known}
    if len(sizes) == 1 and all(cell.asks_again for cell, _ in known):
        return share_of_repeats(outcomes)
    return pooled(rate for _, rate in known)
