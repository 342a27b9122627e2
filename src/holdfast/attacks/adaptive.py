"""An attacker who adapts: the same attack over a grid of learning rates and epochs. Its worst case is what counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.attacks.attack import Attack


def variants(attack: Attack, *, lrs: Sequence[float] = (), epochs: Sequence[float] = ()) -> list[Attack]:
    """Every combination, each under a name of its own: ``harmful_examples@lr=0.002,epochs=12``."""
    return [
        replace(attack, name=f"{attack.name}@lr={lr:g},epochs={length:g}", lr=lr, epochs=length)
        for lr in (lrs or (attack.lr,))
        for length in (epochs or (attack.epochs,))
    ]
