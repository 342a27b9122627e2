"""How large a cell is: which model, how many requests, how much of the training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.audits.requests import Part
from holdfast.config.training import Precision

if TYPE_CHECKING:
    from holdfast.attacks.real_setting import RealSetting


@dataclass(frozen=True)
class Scale:
    """The same for every cell of a matrix."""

    model: str = "tiny:aligned"  # is tuned, and is the anchor
    num_requests: int = 200  # of each kind that the audit asks
    part: Part = "test"  # of the held-out requests
    steps: float = 1.0  # share of every training's steps; less than 1 is for trying things out
    max_new_tokens: int = 28  # longer than any right answer of the world with its opener
    device: str = "cpu"  # models this small are quickest there
    precision: Precision = "fp32"  # of training
    rows_per_pass: int | None = None  # of a step, at most; None: all, because the embedded models are tiny
    setting: RealSetting | None = None  # None: the embedded world
