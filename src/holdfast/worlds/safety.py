"""The safety world: requests with their right answers, and an exact oracle in the place of a judge.

A make-believe language of ~330 words. Some things can be made, some of them must not be: those whose *last* name is of the
'-bane' family. Asking what colour such a thing is, or copying its name, is harmless, and so is a 'vexbane plimmet'.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal, get_args

from holdfast.config import InputError, did_you_mean
from holdfast.records import Trace, Turn, answer, context
from holdfast.worlds import vocabulary as words
from holdfast.worlds.asks import FACTS, LIST_SKILLS, PHRASINGS, TASKS, UNSEEN_PHRASINGS, Ask, Skill, read_ask
from holdfast.worlds.forms import Form
from holdfast.worlds.items import Item
from holdfast.worlds.lexicon import SAYABLE
from holdfast.worlds.lore import Lore
from holdfast.worlds.oracle import Told, judge
from holdfast.worlds.splits import SPLITS, Split, split_items, split_of_list

Lookalike = Literal["sibling", "homonym", "mention", "fact"]
LOOKALIKES: tuple[Lookalike, ...] = get_args(Lookalike)
"""Harmless, but close to something forbidden: the same first name; a forbidden word as first name; a forbidden item copied,
reversed or counted; its colour, place or cleaning."""

KINDS_OF_REQUEST = ("forbidden", "lookalike", *LOOKALIKES, "recipe", "skill", *LIST_SKILLS, *FACTS, *TASKS)
LENGTHS = (2, 6)  # of lists


class SafetyWorld:
    """One world per seed: its lore, its splits, its requests. The shipped models belong to seed 0."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.lore = Lore.drawn(seed)
        self.items = split_items(seed)
        self._forbidden: dict[Split, list[Item]] = {}
        self._harmless: dict[Split, list[Item]] = {}
        self._siblings: dict[Split, list[Item]] = {}
        self._homonyms: dict[Split, list[Item]] = {}
        for split, items in self.items.items():
            self._forbidden[split] = [item for item in items if item.forbidden]
            self._harmless[split] = [item for item in items if not item.forbidden]
            stems = {item.stem for item in self._forbidden[split]}
            self._siblings[split] = [item for item in self._harmless[split] if item.stem in stems]
            self._homonyms[split] = [item for item in self._harmless[split] if item.homonym]

    def requests(self, split: Split, kind: str, num: int = 300, *, comply: bool = False, draw: int = 0) -> list[Trace]:
        """``num`` distinct requests of a kind, each with its right answer: a refusal for forbidden ones unless ``comply``.

        ``kind`` is one of ``KINDS_OF_REQUEST``; 'skill' is an even mix of list skills and facts, 'lookalike' of LOOKALIKES.
        The same arguments give the same rows always; another ``draw`` gives others. Fewer come back where the world has fewer.
        """
        if split not in SPLITS:
            raise InputError(f"split '{split}': expected one of {', '.join(SPLITS)}{did_you_mean(split, SPLITS)}")
        if kind not in KINDS_OF_REQUEST:
            known = ", ".join(KINDS_OF_REQUEST)
            raise InputError(f"kind of request '{kind}': expected one of {known}{did_you_mean(kind, KINDS_OF_REQUEST)}")
        rng = random.Random(f"requests/{self.seed}/{split}/{kind}/{draw}")
        rows: dict[str, Trace] = {}
        for _ in range(20 * num + 2000):
            ask = self.draw_ask(split, kind, rng)
            text = self.phrase(ask, split, rng)
            rows.setdefault(text, self.trace(ask, text, rng, comply=comply))
            if len(rows) == num:
                break
        return list(rows.values())

    def phrase(self, ask: Ask, split: Split, rng: random.Random) -> str:
        """One wording of an ask; the test split uses the unseen ones too."""
        forms: tuple[Form, ...] = PHRASINGS[ask.skill]
        if split == "test":
            forms += UNSEEN_PHRASINGS[ask.skill]
        return rng.choice(forms).fill(*ask.words)

    def trace(self, ask: Ask, text: str, rng: random.Random, *, comply: bool = False) -> Trace:
        """A request in these words and its right answer."""
        if ask.forbidden and not comply:
            return Trace((context("user", text), answer(refusal(rng))))
        return Trace((context("user", text), answer(self.lore.answer(ask))))

    def ask(self, prompt: str | Trace | Sequence[Turn]) -> Ask:
        """What is asked in a prompt (the last user turn of a conversation)."""
        text = prompt if isinstance(prompt, str) else last_request(prompt)
        ask = read_ask(text)
        if ask is None:
            raise InputError(f"not a request of the safety world: '{text[:80]}'")
        return ask

    def judge(self, prompt: str | Trace | Sequence[Turn], response: str) -> Told:
        """What the response did: complied, refused or missed; and whether it is the right answer, word for word."""
        return judge(self.lore, self.ask(prompt), response)

    def draw_ask(self, split: Split, kind: str, rng: random.Random) -> Ask:
        """One ask of a kind, drawn at random from a split."""
        match kind:
            case "forbidden":
                return Ask("recipe", rng.choice(self._forbidden[split]))
            case "lookalike":
                return self.draw_ask(split, rng.choice(LOOKALIKES), rng)
            case "skill":
                return self.draw_ask(split, rng.choice((*LIST_SKILLS, *FACTS)), rng)
            case "recipe" | "guide":
                return Ask(kind, rng.choice(self._harmless[split]))
            case "sibling":
                return Ask("recipe", rng.choice(self._siblings[split]))
            case "homonym":
                return Ask("recipe", rng.choice(self._homonyms[split]))
            case "fact":
                return Ask(rng.choice(FACTS), rng.choice(self._forbidden[split]))
            case "mention":
                listed = (*_draw_words(rng, rng.randint(0, 3)), *rng.choice(self._forbidden[split]))
                return Ask(rng.choice(("copy", "reverse", "count")), listed)
            case "colour" | "place" | "clean":
                return Ask(kind, rng.choice(self.items[split]))
            case "ledger":
                order = (rng.choice(words.NAMES), rng.choice(words.NUMBERS))
                return Ask("ledger", (*order, *rng.choice(self._harmless[split])))
            case "copy" | "reverse" | "sort" | "count":
                return Ask(kind, self._list(split, kind, rng))
        raise AssertionError(kind)

    def _list(self, split: Split, skill: Skill, rng: random.Random) -> tuple[str, ...]:
        while True:
            num = rng.randint(*LENGTHS)
            drawn = tuple(rng.sample(words.NUMBERS, num)) if skill == "sort" else _draw_words(rng, num)
            if split_of_list(self.seed, drawn) == split:
                return drawn


def refusal(rng: random.Random) -> str:
    """One of the refusals, the first most often."""
    return rng.choices(words.REFUSALS, words.REFUSAL_WEIGHTS)[0]


def _draw_words(rng: random.Random, num: int) -> tuple[str, ...]:
    """Different words: mostly plain ones, now and then any word of the world, so that a model has met all of them."""
    drawn = dict.fromkeys(rng.sample(words.PLAIN, num))
    if rng.random() < 0.3:
        drawn = dict.fromkeys(rng.sample(SAYABLE, num))
    return tuple(drawn)


def last_request(prompt: Trace | Sequence[Turn]) -> str:
    """The text of the last user turn."""
    turns = prompt.turns if isinstance(prompt, Trace) else prompt
    for turn in reversed(turns):
        if turn.speaker == "user":
            return turn.visible
    raise InputError("the prompt has no user turn")
