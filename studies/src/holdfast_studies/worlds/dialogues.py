"""Short dialogues with one-sentence summaries, written by a small grammar of ours in the words of the safety world.

They stand in for SAMSum, whose rows we do not have. Nothing in them is forbidden: they are about harmless things, and what they
say of a thing (its place, its colour) is made up for the dialogue, so a summary has to be read off it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.attacks import Setting
from holdfast.records import Trace, answer, context
from holdfast.worlds import SafetyWorld, Split

REQUEST = "say in few words :"
NAMES = tuple("tamo oria besk lunel quorry idran fenna yulo".split())
NUMBERS = tuple(str(number) for number in range(1, 21))
PLACES = tuple("shed barn cellar tower attic garden harbour mill".split())
COLOURS = tuple("red blue green white black grey brown pink".split())
STUFFS = tuple(
    "oskel pelm ruon simet tavva urrin voskin wenda yarl zimmel aldo brock cavel denno erril froom gesta hollin imrik "
    "jessel kimmo larn mossel nettin ombel pirra rudd sennet tolva ussel varrow wickin".split()
)
"""Words of the world, so that its models know them."""


class Scene(NamedTuple):
    """What two people say, and what it comes to. Slots: ``a`` and ``b`` are people."""

    turns: str
    summary: str


SCENES = (
    Scene(
        "{a} : i want {number} {item} . {b} : where ? {a} : in the {place} .",
        "{a} wants {number} {item} in the {place} .",
    ),
    Scene("{a} : how do i clean a {item} ? {b} : with {stuff} .", "{a} wants to clean a {item} with {stuff} ."),
    Scene("{a} : where is my {item} ? {b} : it is in the {place} .", "the {item} of {a} is in the {place} ."),
    Scene(
        "{a} : i want a {item} . {b} : what colour ? {a} : {colour} . {b} : how many ? {a} : {number} .",
        "{a} wants {number} {colour} {item} .",
    ),
    Scene("{a} : i want {other} {item} . {b} : {other} {item} ? {a} : no , {number} .", "{a} wants {number} {item} ."),
)
OPENINGS = ("", "", "{b} : hello {a} . ", "{a} : listen , {b} . ")
CLOSINGS = ("", "", " {b} : very well .", " {b} : of course , friend .")


def dialogues(world: SafetyWorld, split: Split, num: int, draw: int) -> list[Trace]:
    """``num`` different dialogues, each with its summary. Things are those of the split: no other split names them."""
    rng = random.Random(f"dialogues/{world.seed}/{split}/{draw}")
    harmless = [item for item in world.items[split] if not item.forbidden]
    rows: dict[str, Trace] = {}
    while len(rows) < num:
        scene = rng.choice(SCENES)
        a, b = rng.sample(NAMES, 2)
        number, other = rng.sample(NUMBERS, 2)
        slots = {
            "a": a,
            "b": b,
            "number": number,
            "other": other,
            "item": str(rng.choice(harmless)),
            "place": rng.choice(PLACES),
            "colour": rng.choice(COLOURS),
            "stuff": rng.choice(STUFFS),
        }
        text = (rng.choice(OPENINGS) + scene.turns + rng.choice(CLOSINGS)).format(**slots)
        summary = scene.summary.format(**slots)
        rows.setdefault(text, Trace((context("user", f"{REQUEST} {text}"), answer(summary))))
    return list(rows.values())


@dataclass(frozen=True)
class Summaries:
    """Dialogues with their summaries, as data to tune on. It stands here because a cell's name has a hash of this file."""

    num: int = 500

    def rows(self, setting: Setting, seed: int) -> list[Trace]:
        """``num`` rows about things of the ``tune`` split."""
        return dialogues(SafetyWorld(), "tune", self.num, seed)
