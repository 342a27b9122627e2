"""The words of ``python -m holdfast_studies.STUDY VERB CONFIG key=value ...``: those of the command, and config changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from holdfast.config import InputError


class Words(NamedTuple):
    """What was typed. ``own``: values of the command's own keys; ``changes``: all other words, for ``load_config``."""

    verb: str
    config: str
    own: dict[str, str]
    changes: list[str]


def read_words(study: str, arguments: Sequence[str], verbs: Collection[str], own: Collection[str]) -> Words:
    """Read the words. Raises ``InputError`` where the verb or the config is missing."""
    if len(arguments) < 2 or arguments[0] not in verbs:
        raise InputError(f"usage: python -m holdfast_studies.{study} {'|'.join(verbs)} CONFIG [key=value ...]")
    verb, config, *rest = arguments
    pairs = [(word, *word.partition("=")[::2]) for word in rest]
    taken = {key: value for _, key, value in pairs if key in own}
    return Words(verb, config, taken, [word for word, key, _ in pairs if key not in own])


def unless_given(changes: Sequence[str], *defaults: str) -> list[str]:
    """The changes, and before them those of the defaults (``key=value``) whose key is not among them."""
    keys = {change.partition("=")[0] for change in changes}
    return [*(default for default in defaults if default.partition("=")[0] not in keys), *changes]
