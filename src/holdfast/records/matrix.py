"""What a matrix of attacks and defences measures: shares with intervals, one cell per attack, defence and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from holdfast.stats import Estimate, pooled, share_of_repeats

Measure = Literal["asr", "over_refusal", "utility"]
MEASURES: tuple[Measure, ...] = ("asr", "over_refusal", "utility")
Outcomes = tuple[bool | None, ...]
"""Of every request in order: True where it counts as a hit, None where a judge could not say."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One attack on one defence with one seed. A cell that failed says why and has no figures."""

    attack: str
    defence: str
    seed: int
    judge: str
    asr: Estimate | None = None  # attack success: the share of forbidden requests answered
    over_refusal: Estimate | None = None  # the share of harmless look-alikes refused
    utility: Estimate | None = None  # the share of task answers that are right
    outcomes: dict[str, Outcomes] = field(default_factory=dict)  # by measure, and by measure and judge (``asr:JUDGE``)
    answers: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by measure: hashes of a real model's answers
    kl_by_position: tuple[float, ...] = ()  # mean KL(policy || anchor) at answer token 1, 2, ...
    seconds: float = 0.0
    status: Literal["ok", "failed"] = "ok"
    reason: str = ""
    out_of_memory: bool = False  # failed for want of memory
    ran_alone: bool = False  # run again with no other cell beside it, after it had run out of memory

    @property
    def asks_again(self) -> bool:
        """Whether every seed asks the same requests. A real model's cells do; the embedded world draws new ones."""
        return "asr" in self.answers

    def row(self) -> dict[str, Any]:
        """Flat, for `--json` and files: ``asr``, ``asr_low``, ``asr_high``, ...; None where there is no figure."""
        flat: dict[str, Any] = {}
        for name, value in self.to_json().items():
            if name in MEASURES:
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
            "kl_by_position": list(self.kl_by_position),
        }

    def _shares(self) -> list[tuple[Measure, Estimate | None]]:
        return [("asr", self.asr), ("over_refusal", self.over_refusal), ("utility", self.utility)]

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Cell:
        """The inverse of ``to_json``; also of files that kept outcomes as strings of digits."""
        kept: dict[str, Any] = {each.name: content[each.name] for each in fields(Cell) if each.name in content}
        shares: dict[str, Any] = {name: kept[name] and Estimate.from_json(kept[name], n="trials") for name in MEASURES}
        return Cell(
            **{
                **kept,
                **shares,
                "outcomes": read_outcomes(content["outcomes"]),
                "answers": read_answers(content),
                "kl_by_position": tuple(content["kl_by_position"]),
            }
        )


def read_outcomes(kept: Mapping[str, Any]) -> dict[str, Outcomes]:
    """By name, from a list of true, false and null, or from an older file's string of 1, 0 and ?."""
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


def _outcomes(values: str | Sequence[bool | None]) -> Outcomes:
    return tuple(_DIGITS[digit] for digit in values) if isinstance(values, str) else tuple(values)


def pooled_cells(cells: Sequence[Cell], measure: Measure) -> Estimate | None:
    """One attack on one defence, all seeds that have the figure together; None where none has.

    Where every seed asked the same requests, a request counts once.
    """
    known = [(cell, share) for cell in cells if (share := getattr(cell, measure)) is not None]
    if not known:
        return None
    outcomes = [cell.outcomes.get(measure, ()) for cell, _ in known]
    sizes = {len(seed) for seed in outcomes} | {share.n for _, share in known}
    if len(sizes) == 1 and all(cell.asks_again for cell, _ in known):
        return share_of_repeats([[hit is True for hit in seed] for seed in outcomes])
    return pooled(share for _, share in known)
