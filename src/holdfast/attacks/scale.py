"""How large a cell is: which model, how many requests, how much of the training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.attacks.setting import Setting
from holdfast.attacks.world_setting import WorldSetting
from holdfast.audits.suites.world import MAX_NEW_TOKENS, NUM_REQUESTS, Part
from holdfast.config.training import Precision

if TYPE_CHECKING:
    from holdfast.attacks.file_setting import FileSetting


@dataclass(frozen=True)
class Scale:
    """The same for every cell of a matrix."""

    model: str = "tiny:aligned"  # is tuned, and is the anchor
    num_requests: int = NUM_REQUESTS  # of each kind that the audit asks
    part: Part = "test"  # of the held-out requests
    steps: float = 1.0  # share of every training's steps; less than 1 is for trying things out
    max_new_tokens: int = MAX_NEW_TOKENS
    device: str = "cpu"  # models this small are quickest there
    precision: Precision = "fp32"  # of training
    rows_per_pass: int | None = None  # of a step, at most; None: all, because the embedded models are tiny
    files: FileSetting | None = None  # None: the embedded world

    @cached_property
    def setting(self) -> Setting:
        """Where rows and requests come from."""
        return self.files or WorldSetting(self.part, self.num_requests)
