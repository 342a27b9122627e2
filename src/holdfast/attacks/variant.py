"""An attack with settings of one's own, under a name that says them: ``mixture@lr=0.001,task=guide,share=0.3,dress=persona``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.attacks.attack import Attack, Stage
from holdfast.attacks.rows import BenignDrift, Data, HarmfulExamples, Mixture
from holdfast.config import InputError
from holdfast.generation.dress import Dress, Sampling

OWN = "own"
DRESSES: dict[str, Callable[[Attack], Attack]] = {
    OWN: lambda attack: attack,
    "plain": lambda attack: replace(attack, dress=Dress(), asked_as=""),
    "persona": lambda attack: replace(attack, dress=Dress(), asked_as="persona"),
    "sampled": lambda attack: replace(
        attack, dress=Dress(tries=tuple(Sampling(1.0, 0.95, seed) for seed in range(4))), asked_as=""
    ),
    "prefilled": lambda attack: replace(attack, dress=Dress(prefill=3), asked_as=""),
}
"""How a model may be asked. ``prefilled`` on files: the stock model begins the answer."""
NUMBERS: dict[str, tuple[str, Callable[[float], bool]]] = {
    "lr": ("a number above 0", lambda value: 0 < value < math.inf),
    "epochs": ("a number above 0", lambda value: 0 < value < math.inf),
    "rank": ("a whole number, 0 for all weights", lambda value: value >= 0 and value.is_integer()),
    "share": ("a number from 0 to 1", lambda value: 0 <= value <= 1),
}
"""What is expected of each number, in words and as a test."""
WORDS = ("task", "dress")


def can_share(data: Data) -> bool:
    """Whether harmful rows can be hidden among a task's in another share than the attack's own."""
    return isinstance(data, HarmfulExamples | Mixture)


def varied(attack: Attack, settings: Mapping[str, float | str]) -> Attack:
    """The attack with these settings, on the embedded world and on files alike.

    ``lr`` and ``epochs`` of its last tuning; ``rank`` of low-rank adapters (0: all weights are tuned); ``share`` of its rows
    that are harmful, the rest being a task's; ``task``: which one, and it is what is measured; ``dress``: how the model is asked.
    """
    changed = replace(attack, **_stage(attack, settings))
    if attack.on_files is not None:
        changed = replace(changed, on_files=replace(attack.on_files, **_stage(attack.on_files, settings)))
    if "task" in settings:
        changed = replace(changed, utility=str(settings["task"]))
    if "dress" in settings:
        changed = DRESSES[str(settings["dress"])](changed)
    return replace(
        changed, name=f"{attack.name}@{','.join(f'{key}={_text(value)}' for key, value in settings.items())}"
    )


def variants(attack: Attack, *, lrs: Sequence[float] = (), epochs: Sequence[float] = ()) -> list[Attack]:
    """The attack at every learning rate and number of epochs, for an attacker who adapts. His worst case is what counts."""
    return [
        varied(attack, {"lr": lr, "epochs": length})
        for lr in (lrs or (attack.lr,))
        for length in (epochs or (attack.epochs,))
    ]


def read_settings(text: str, name: str) -> dict[str, float | str]:
    """The settings that ``lr=0.001,dress=persona`` names. Raises ``InputError`` for anything else."""
    settings: dict[str, float | str] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key in settings:
            raise InputError(f"attack '{name}': {key} is there twice")
        try:
            settings[key] = value if key in WORDS and value else float(value)
        except ValueError:
            settings[""] = value
    known = {*NUMBERS, *WORDS}
    if not settings.keys() <= known or settings.get("dress", OWN) not in DRESSES:
        base = name.partition("@")[0]
        dresses = ", ".join(DRESSES)
        raise InputError(
            f"attack '{name}': expected {base}@lr=NUMBER,epochs=NUMBER,rank=NUMBER,share=NUMBER,task=NAME,dress=WORD, or some of"
            f" them (dress: {dresses})"
        )
    for key, given in settings.items():
        if isinstance(given, float):
            expected, is_usable = NUMBERS[key]
            if not is_usable(given):
                raise InputError(f"attack '{name}': {key}: expected {expected}")
    return settings


def _stage(stage: Stage, settings: Mapping[str, float | str]) -> dict[str, Any]:
    changes: dict[str, Any] = {key: settings[key] for key in ("lr", "epochs") if key in settings}
    if "rank" in settings:
        changes["rank"] = int(settings["rank"])
    data = stage.data
    if "share" in settings:
        data = _shared(data, float(settings["share"]))
    if "task" in settings:
        data = _of_task(data, str(settings["task"]))
    return {**changes, **({} if data is stage.data else {"data": data})}


def _shared(data: Data, share: float) -> Data:
    if isinstance(data, Mixture):
        return replace(data, ratio=share)
    if isinstance(data, HarmfulExamples):
        return data if share >= 1 else Mixture(data, share, num=data.num)
    raise InputError("it takes no share; harmful_examples and mixture do, and the attacks that stand in their place")


def _of_task(data: Data, task: str) -> Data:
    if isinstance(data, Mixture | BenignDrift):
        return replace(data, task=task)
    raise InputError("it takes no task; mixture@task=NAME does, with harmful rows hidden among the task's")


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
