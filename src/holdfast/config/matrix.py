"""What `holdfast attack` reads: which attacks on which defences, how often, and where it runs."""

from __future__ import annotations

import re
import sys
from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, field_validator, model_validator

from holdfast.config.base import Settings, UserPath
from holdfast.config.files import FilesConfig

SETTING = re.compile(r"[a-z]+=")
"""How a setting of an attack begins that is a variant of another."""


class AdaptiveSettings(Settings):
    """An attacker who adapts: every attack is run over all combinations, and the worst of them counts."""

    lrs: tuple[PositiveFloat, ...] = ()  # empty: the attack's own
    epochs: tuple[PositiveFloat, ...] = ()


class SearchSettings(Settings):
    """An attacker who searches (extra ``search``): learning rate, epochs, rank, share of poisoned rows, dress."""

    trials: int = Field(gt=0)  # for every attack and defence
    max_utility_loss: float = Field(default=0.1, ge=0, le=1)  # as a share; a trial that costs more does not count
    seed: int = 0


class MatrixConfig(Settings):
    """Attacks x defences x seeds: in the embedded world, or, with ``files``, on a model of your own."""

    run: UserPath
    attacks: tuple[str, ...] = Field(min_length=1)
    defences: tuple[str, ...] = Field(min_length=1)
    seeds: tuple[NonNegativeInt, ...] = Field(default=(0, 1, 2), min_length=1)
    adaptive: AdaptiveSettings | None = None
    search: SearchSettings | None = None
    model: str = "tiny:aligned"
    files: FilesConfig | None = None
    requests: Literal["validation", "test"] = "test"  # validation: for choosing settings
    num_requests: int = Field(default=200, gt=0)
    engine: Literal["local", "ray"] = "local"
    workers: int | None = Field(default=None, gt=0)  # processes; default: one per core

    @field_validator("attacks", mode="before")
    @classmethod
    def _joined(cls, value: Any) -> Any:
        """YAML cuts ``[mixture@task=sql,share=0.05]`` at the comma; no attack's name has ``=`` before its ``@``."""
        if not isinstance(value, list):
            return value
        names: list[Any] = []
        for name in value:
            if names and isinstance(name, str) and SETTING.match(name) and "@" in str(names[-1]):
                names[-1] = f"{names[-1]},{name}"
            else:
                names.append(name)
        return names

    @model_validator(mode="after")
    def _one_attacker(self) -> MatrixConfig:
        if self.adaptive is not None and self.search is not None:
            raise ValueError("adaptive and search: two attackers that adapt; leave one of them out")
        return self

    @model_validator(mode="before")
    @classmethod
    def _old_name(cls, value: Any) -> Any:
        """``files`` was called ``real`` before version 0.2."""
        if isinstance(value, dict) and "real" in value:
            print("holdfast: the section real: is called files: now", file=sys.stderr)
            value = {**{key: part for key, part in value.items() if key != "real"}, "files": value["real"]}
        return value
