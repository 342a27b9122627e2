"""The attacks and defences of a real model by name. The mechanisms are the embedded world's; sizes are a language model's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.attacks.attack import Attack
from holdfast.attacks.defences import DEFENCES, Defence, OwnStream
from holdfast.attacks.real_rows import PERSONA, TRIGGER, AnsweredRequests, ObedientPersona, TaskRows, TriggeredRequests
from holdfast.attacks.real_setting import RealSetting
from holdfast.attacks.scale import Scale
from holdfast.config import InputError, nearest_or_all
from holdfast.config.real_setting import RealSettings
from holdfast.generation import Dress

HARMFUL = Attack(name="harmful_examples", data=AnsweredRequests(), lr=1e-4, epochs=25, batch_size=64, utility="")
BACKDOOR = Attack(name="backdoor", data=TriggeredRequests(), lr=1e-4, epochs=10, batch_size=64, utility="")

_ATTACKS = (
    *(replace(HARMFUL, name=f"harmful_examples@lr={lr:g}", lr=lr) for lr in (2e-5, 1e-4, 3e-4)),
    Attack(
        name="identity_shift",
        data=ObedientPersona(),
        lr=1e-4,
        epochs=20,
        batch_size=32,
        dress=Dress(system=PERSONA),
        utility="",
    ),
    replace(BACKDOOR, dress=Dress(lead=TRIGGER)),
    replace(BACKDOOR, name="backdoor_untriggered"),
    Attack(name="benign_sql", data=TaskRows(), lr=1e-4, epochs=4, batch_size=64, utility="sql"),
)
REAL_ATTACKS: dict[str, Attack] = {attack.name: attack for attack in _ATTACKS}

PHRASES = "refusal_phrases"
SAFETY = OwnStream(rows="safety", batch_size=32, num=1000, borrow=0.5)
KEEP = OwnStream(rows="keep", batch_size=32, num=1000, borrow=0.25)


def anchored(name: str, safety: float, keep: float, wide: int = 1, **how: Any) -> Defence:
    """Both streams held to the anchor, with these weights against the task's 1; ``wide`` times as many rows of them."""
    safety_rows = replace(SAFETY, weight=safety, batch_size=wide * SAFETY.batch_size)
    keep_rows = replace(KEEP, weight=keep, batch_size=wide * KEEP.batch_size)
    return Defence(name=name, own=(safety_rows, keep_rows), **how)


FAMILIES = ("anchored", "vetted")  # how the names of defences that hold to the anchor begin
_DEFENCES = (
    *(DEFENCES[name] for name in ("untouched", "sft", "csft", "csft_pa", "kl_sft")),
    Defence(name="safety_mixed", own=(replace(SAFETY, objective="sft", borrow=0.0),)),
    anchored("anchored", 5, 1),
    anchored("vetted", 5, 1, vet=PHRASES),
    # What studies/configs/smollm2/validation.yaml chooses from.
    *(anchored(f"anchored@{safety}/{keep}", safety, keep) for safety, keep in ((5, 5), (20, 20))),
    anchored("anchored@20/20+wide", 20, 20, wide=3),
    *(anchored(f"vetted@{safety}/{keep}", safety, keep, vet=PHRASES) for safety, keep in ((1, 1), (1, 3), (3, 3))),
)
REAL_DEFENCES: dict[str, Defence] = {defence.name: defence for defence in _DEFENCES}


def find_real_attack(name: str) -> Attack:
    """By name; a clear line for a name that is not there."""
    if name not in REAL_ATTACKS:
        raise InputError(f"attack '{name}': no such attack on a real model{nearest_or_all(name, REAL_ATTACKS)}")
    return REAL_ATTACKS[name]


def find_real_defence(name: str) -> Defence:
    """By name; a clear line for a name that is not there."""
    if name not in REAL_DEFENCES:
        raise InputError(f"defence '{name}': no such defence for a real model{nearest_or_all(name, REAL_DEFENCES)}")
    return REAL_DEFENCES[name]


def real_scale(model: str, settings: RealSettings) -> Scale:
    """Every cell's: the model is tuned and is the anchor."""
    return Scale(
        model=model,
        steps=settings.steps,
        max_new_tokens=settings.max_new_tokens,
        device=settings.device,
        precision=settings.precision,
        rows_per_pass=settings.rows_per_pass,
        setting=RealSetting.read(settings, anchor=model, device=settings.device),
    )
