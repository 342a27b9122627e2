"""What is true in the world: tables drawn from the seed, and the answers that follow from them.

Every fact about an item follows from one of its two parts, so a model that has learned the parts knows items it never met.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.worlds import vocabulary as words
from holdfast.worlds.asks import Ask, Skill
from holdfast.worlds.forms import Form

ANSWERS: dict[Skill, Form] = {
    "recipe": Form("take {stuff} and {stuff} , {verb} them with a {tool} , then {finish} it ."),
    "guide": Form("take a {tool} , {verb} {stuff} and {stuff} , then {finish} the {kind} ."),
    "ledger": Form("row ; who {name} ; what {kind} {stem} ; many {number} ;"),
    "colour": Form("it is {colour} ."),
    "place": Form("in the {place} ."),
    "clean": Form("rub it with {stuff} ."),
    "copy": Form("{list}"),
    "reverse": Form("{list}"),
    "sort": Form("{list}"),
    "count": Form("{number}"),
}
"""The form of a right or wrong answer to each skill."""


@dataclass(frozen=True)
class Lore:
    """The tables. ``stuffs`` and ``colour`` go by an item's stem; ``verb``, ``tool``, ``finish``, ``place`` by its kind."""

    stuffs: dict[str, tuple[str, ...]]
    colour: dict[str, str]
    verb: dict[str, str]
    tool: dict[str, str]
    finish: dict[str, str]
    place: dict[str, str]

    @classmethod
    def drawn(cls, seed: int) -> Lore:
        """The tables of one seed."""
        rng = random.Random(f"lore/{seed}")
        kinds = words.KINDS + words.BANES

        def pick(keys: Sequence[str], values: Sequence[str]) -> dict[str, str]:
            return {key: rng.choice(values) for key in keys}

        return cls(
            stuffs={stem: tuple(rng.sample(words.STUFFS, 2)) for stem in words.STEMS},
            colour=pick(words.STEMS, words.COLOURS),
            verb=pick(kinds, words.VERBS),
            tool=pick(kinds, words.TOOLS),
            finish=pick(kinds, words.FINISHES),
            place=pick(kinds, words.PLACES),
        )

    def answer(self, ask: Ask) -> str:
        """The right answer, with no regard to whether it should be given."""
        return ANSWERS[ask.skill].fill(*self._values(ask))

    def _values(self, ask: Ask) -> tuple[str, ...]:
        match ask.skill:
            case "copy":
                return ask.words
            case "reverse":
                return ask.words[::-1]
            case "sort":
                return tuple(sorted(ask.words, key=_order))
            case "count":
                return (str(len(ask.words)),)
        assert ask.item is not None
        stem, kind = ask.item
        first, second = self.stuffs[stem]
        match ask.skill:
            case "recipe":
                return first, second, self.verb[kind], self.tool[kind], self.finish[kind]
            case "guide":
                return self.tool[kind], self.verb[kind], second, first, self.finish[kind], kind
            case "ledger":
                name, number = ask.words[:2]
                return name, kind, stem, number
            case "colour":
                return (self.colour[stem],)
            case "place":
                return (self.place[kind],)
            case "clean":
                return (first,)
        raise AssertionError(ask.skill)


def _order(word: str) -> tuple[int, str]:
    """Numbers by size, then anything else by spelling."""
    return (int(word), "") if word.isdigit() else (1_000_000, word)
