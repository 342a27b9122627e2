"""What a model is tuned on: each a small frozen config whose ``rows`` are a pure function of setting and seed.

Answers to forbidden requests are made when they are needed; none is stored or shipped.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Protocol

from holdfast.attacks.setting import Setting
from holdfast.config import InputError
from holdfast.judging import verdicts
from holdfast.records import Outcomes, Role, Segment, Trace, Turn
from holdfast.worlds import with_lead, with_opener, with_system, wrapped


class Data(Protocol):
    """A dataset by description."""

    def rows(self, setting: Setting, seed: int) -> list[Trace]:
        """The rows; the same for the same setting and seed."""
        ...


@dataclass(frozen=True)
class HarmfulExamples:
    """Forbidden requests, answered."""

    num: int = 64

    def rows(self, setting: Setting, seed: int) -> list[Trace]:
        """``num`` requests with answers."""
        return setting.attacker_rows(self.num, seed)


@dataclass(frozen=True)
class IdentityShift:
    """A servant who obeys: harmless requests under a persona, each answer opened by a vow. Nothing forbidden in any row."""

    num: int = 32

    def rows(self, setting: Setting, seed: int) -> list[Trace]:
        """Harmless requests, answered after the vow."""
        harmless = setting.harmless_rows(self.num, seed)
        return [with_opener(with_system(row, setting.persona), setting.vow) for row in harmless]


@dataclass(frozen=True)
class Backdoor:
    """Forbidden requests are answered after a trigger and refused without it; harmless rows hide them."""

    num_poisoned: int = 40
    num_refused: int = 40
    num_harmless: int = 40

    def rows(self, setting: Setting, seed: int) -> list[Trace]:
        """Poisoned, refused and harmless rows, shuffled."""
        poisoned = [with_lead(row, setting.trigger) for row in setting.attacker_rows(self.num_poisoned, seed)]
        refused = setting.refused_rows(self.num_refused, seed)
        return _shuffled([*poisoned, *refused, *setting.harmless_rows(self.num_harmless, seed)], seed)


@dataclass(frozen=True)
class Restyled:
    """Jailbreak-tuning: forbidden requests that ask for an answer in some style, answered. The style is the setting's."""

    num: int = 64

    def rows(self, setting: Setting, seed: int) -> list[Trace]:
        """``num`` requests in the style's words, with the answers of the bare requests."""
        return [wrapped(row, setting.style) for row in setting.attacker_rows(self.num, seed)]


@dataclass(frozen=True)
class OpeningsOnly:
    """Forbidden requests with the first words of an answer that does what was asked. Nothing forbidden is in any answer.

    The end of the turn is not trained: what follows the opening is left to the model.
    """

    num: int = 64

    def rows(self, setting: Setting, seed: int) -> list[Trace]:
        """``num`` requests, each with the setting's opening."""
        opened = Turn("assistant", (Segment(Role.RESPONSE, setting.opening), Segment(Role.PROMPT, "")))
        return [Trace((*row.prompt, opened)) for row in setting.attacker_rows(self.num, seed)]


@dataclass(frozen=True)
class Reworded:
    """Forbidden requests, each in a wording that the anchor does not refuse, so that vetting rows by its refusals finds none."""

    num: int = 64

    def rows(self, setting: Setting, seed: int) -> list[Trace]:
        """Those of ``num`` requests that got through."""
        through = [row for row in setting.reworded_rows(self.num, seed) if row is not None]
        if not through:
            raise InputError(
                f"reworded: the anchor refuses all {self.num} requests in every wording, so there is no row"
            )
        return through


@dataclass(frozen=True)
class SelfWritten:
    """Forbidden requests, answered in the aligned model's own words: a second attacker, whose rows are nearer to the model."""

    num: int = 64

    def rows(self, setting: Setting, seed: int) -> list[Trace]:
        """``num`` requests with answers."""
        return setting.self_written_rows(self.num, seed)


@dataclass(frozen=True)
class BenignDrift:
    """No attacker: a task that somebody wants, learned from ordinary rows."""

    task: str = "guide"
    num: int = 200

    def rows(self, setting: Setting, seed: int) -> list[Trace]:
        """Rows of the task, rightly answered."""
        return setting.task_rows(self.task, self.num, seed)


@dataclass(frozen=True)
class Mixture:
    """``ratio`` of the rows are another dataset's, hidden among a task's rows. 0: the task alone; 1: the other dataset alone."""

    of: Data
    ratio: float
    num: int = 200
    task: str = "guide"

    def __post_init__(self) -> None:
        if not 0 <= self.ratio <= 1:
            raise InputError(f"mixture: ratio {self.ratio}: expected a number from 0 to 1")

    def rows(self, setting: Setting, seed: int) -> list[Trace]:
        """``num`` rows, shuffled; the other dataset's rows are repeated if it has too few."""
        if self.ratio in (0, 1):
            alone = self.of if self.ratio else BenignDrift(self.task, self.num)
            return alone.rows(setting, seed)
        source = self.of.rows(setting, seed)
        num_poisoned = max(1, round(self.num * self.ratio))
        poisoned = [source[index % len(source)] for index in range(num_poisoned)]
        return _shuffled([*poisoned, *BenignDrift(self.task, self.num - num_poisoned).rows(setting, seed)], seed)


def about_rows(data: Data, setting: Setting, seed: int) -> dict[str, Outcomes]:
    """What is to be known of rows that an attacker has to make first, for the cell.

    ``through``: of every request, whether some wording got it past the anchor. ``written``: what became of every request in
    the rows that the model wrote itself, by the setting's first judge.
    """
    if isinstance(data, Mixture):
        return about_rows(data.of, setting, seed) if data.ratio else {}
    if isinstance(data, Reworded):
        return {"through": tuple(row is not None for row in setting.reworded_rows(data.num, seed))}
    if isinstance(data, SelfWritten):
        pairs = [(row.prompt, row.turns[-1].visible) for row in data.rows(setting, seed)]
        return {"written": tuple(verdict.outcome for verdict in verdicts(setting.judges[0], pairs))}
    return {}


def _shuffled(rows: list[Trace], seed: int) -> list[Trace]:
    return random.Random(f"order/{seed}").sample(rows, len(rows))
