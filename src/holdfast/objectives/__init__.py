"""The loss of each token: pure functions of its statistics, keyword-only options, not reduced (MATH §2)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from holdfast.objectives.csft import QI_2024, BetaSchedule, csft, csft_weight
from holdfast.objectives.dft import dft
from holdfast.objectives.kl import distill, kl_sft
from holdfast.objectives.objective import Objective
from holdfast.objectives.pa import csft_pa, pa, pa_active, pa_weight_at
from holdfast.objectives.sft import first_k_masked, masked_sft, sft


def _objectives_of_every_file() -> dict[str, Objective]:
    """Each file of this folder lists its own as ``OBJECTIVES``, so that a new file needs no line here.

    The order is that of lists and tables: plain likelihood first, then those without an anchor, then those with one.
    """
    files = sorted((file.name for file in iter_modules(__path__)), key="sft".__ne__)
    modules = [import_module(f"{__name__}.{name}") for name in files]
    objectives: list[Objective] = [objective for module in modules for objective in getattr(module, "OBJECTIVES", ())]
    return {objective.name: objective for objective in sorted(objectives, key=lambda objective: objective.needs_anchor)}


REGISTRY: dict[str, Objective] = _objectives_of_every_file()
"""By name. One of your own: ``REGISTRY["focal"] = Objective("focal", focal, reads=("logp",))``."""

# Importing a file of this folder sets objectives.NAME to a module; here it becomes the function of that name.
globals().update({name: objective.function for name, objective in REGISTRY.items()})


def stats_read(name: str, options: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The statistics an objective reads under these options."""
    return REGISTRY[name].stats_read(options)


def needs_anchor(name: str) -> bool:
    """Whether there must be an anchor at all."""
    return REGISTRY[name].needs_anchor


def needs_kl(name: str, options: Mapping[str, Any] | None = None) -> bool:
    """Whether the anchor's whole distribution is needed: hidden states or logits, not a cache of logp and top."""
    return REGISTRY[name].needs_kl(options)


__all__ = [
    "QI_2024",
    "REGISTRY",
    "BetaSchedule",
    "Objective",
    "csft",
    "csft_pa",
    "csft_weight",
    "dft",
    "distill",
    "first_k_masked",
    "kl_sft",
    "masked_sft",
    "needs_anchor",
    "needs_kl",
    "pa",
    "pa_active",
    "pa_weight_at",
    "sft",
    "stats_read",
]
