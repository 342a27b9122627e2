"""Rows of steps.jsonl that an RL run writes: the trainer's figures, seconds by part, and whatever else an observer saw."""

from __future__ import annotations

from collections.abc import Iterable

TRAINER_FIGURES = (
    "reward",
    "reward_std",
    "kl",
    "entropy",
    "grad_norm",
    "step_time",
    "completions/mean_length",
    "completions/clipped_ratio",
    "clip_ratio/region_mean",
    "frac_reward_zero_std",
    "learning_rate",
)
"""TRL's names; which of them a row has depends on the settings."""


def seconds_name(part: str) -> str:
    """The name under which a row keeps the seconds of a part of a step."""
    return f"{part}_seconds"


def observed_names(names: Iterable[str]) -> list[str]:
    """Those of a row's names that an observer gave."""
    return [
        name for name in names if name != "step" and name not in TRAINER_FIGURES and not name.endswith(seconds_name(""))
    ]
