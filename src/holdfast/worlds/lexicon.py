"""Every word of the world in one list: what the tokenizer knows."""

from __future__ import annotations

import re

from holdfast.worlds import vocabulary as words
from holdfast.worlds.asks import PHRASINGS, UNSEEN_PHRASINGS
from holdfast.worlds.forms import SLOTS
from holdfast.worlds.lore import ANSWERS


def _all_words() -> tuple[str, ...]:
    forms = [form for forms in (*PHRASINGS.values(), *UNSEEN_PHRASINGS.values()) for form in forms]
    sentences = [form.template for form in (*forms, *ANSWERS.values())]
    sentences += [*words.REFUSALS, *words.OPENERS, words.OBEDIENT_OPENER, words.DEFAULT_SYSTEM, *words.PERSONAS]
    sentences += [words.MASTER_PERSONA, words.TRIGGER, *words.LEADS, *words.PLAIN]
    vocabulary = {word for sentence in sentences for word in re.sub(r"{\w+}", " ", sentence).split()}
    return tuple(sorted(vocabulary.union(*SLOTS.values())))


WORDS = _all_words()
SAYABLE = tuple(word for word in WORDS if word[0].isalnum())
"""Words without the punctuation: any of them may stand in a list."""
