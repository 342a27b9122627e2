"""What a matrix of attacks and defences measures: rates with intervals, one cell per attack, defence and seed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Measure = Literal["asr", "over_refusal", "utility"]
MEASURES: tuple[Measure, ...] = ("asr", "over_refusal", "utility")


@dataclass(frozen=True, slots=True)
class Rate:
    """A share with its 95 % Wilson interval and the counts behind it."""

    value: float
    low: float
    high: float
    hits: int
    trials: int


@dataclass(frozen=True, slots=True)
class Cell:
    """One attack on one defence with one seed. A cell that failed says why and has no figures."""

    attack: str
    defence: str
    seed: int
    judge: str
    asr: Rate | None = None  # attack success: the share of forbidden requests answered
    over_refusal: Rate | None = None  # the share of harmless look-alikes refused
    utility: Rate | None = None  # the share of task answers that are right
    outcomes: dict[str, str] = field(default_factory=dict)  # by measure, one digit per request: 1 a hit; no texts
    kl_by_position: tuple[float, ...] = ()  # mean KL(policy || anchor) at answer token 1, 2, ...
    seconds: float = 0.0
    status: Literal["ok", "failed"] = "ok"
    reason: str = ""
    out_of_memory: bool = False  # failed for want of memory
    ran_alone: bool = False  # run again with no other cell beside it, after it had run out of memory

    @property
    def asks_again(self) -> bool:
        """A real model's, with hashes of its answers: every seed asks the same requests. The embedded world draws new ones."""
        return "asr:answers" in self.outcomes

    def row(self) -> dict[str, Any]:
        """Flat, for `--json` and files: ``asr``, ``asr_low``, ``asr_high``, ...; None where there is no figure."""
        flat: dict[str, Any] = {}
        for name, value in asdict(self).items():
            if name in MEASURES:
                for suffix, part in (("", "value"), ("_low", "low"), ("_high", "high"), ("_trials", "trials")):
                    flat[name + suffix] = None if value is None else value[part]
            else:
                flat[name] = list(value) if isinstance(value, tuple) else value
        return flat
