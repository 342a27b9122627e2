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
    """Of the time that a part of a step took."""
    return f"{part}_seconds"


def observed_names(names: Iterable[str]) -> list[str]:
    """Of a row's names, those that an observer gave."""
    return [
        name for name in names if name != "step" and name not in TRAINER_FIGURES and not name.endswith(seconds_name(""))
    ]
