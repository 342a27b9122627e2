"""What `holdfast attack` reads: which attacks on which defences, how often, and where it runs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat

from holdfast.config.base import Settings
from holdfast.config.real_setting import RealSettings


class AdaptiveSettings(Settings):
    """An attacker who adapts: every attack is run over all combinations, and the worst of them counts."""

    lrs: tuple[PositiveFloat, ...] = ()  # empty: the attack's own
    epochs: tuple[PositiveFloat, ...] = ()


class MatrixConfig(Settings):
    """Attacks x defences x seeds: in the embedded world, or, with ``real``, on a model of your own."""

    run: str
    attacks: tuple[str, ...] = Field(min_length=1)
    defences: tuple[str, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(default=(0, 1, 2), min_length=1)
    adaptive: AdaptiveSettings | None = None
    model: str = "tiny:aligned"
    real: RealSettings | None = None
    requests: Literal["validation", "test"] = "test"  # validation: for choosing settings
    num_requests: int = Field(default=200, gt=0)
    engine: Literal["local", "ray"] = "local"
    workers: int | None = Field(default=None, gt=0)  # processes; default: one per core
