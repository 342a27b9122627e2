"""The arithmetic world's environment: now and then a step of an attempt is written down wrongly."""

from __future__ import annotations

from typing import Any

import torch
from holdfast_studies.worlds.arithmetic import AGAIN, CHECK, LANES, ArithmeticWorld
from torch import Tensor


class Slips:
    """Puts another value in the place of a share ``rate`` of the steps of attempts; checks and decisions are left alone.

    Without slips a small model that has learned the task makes no mistakes, and there is nothing to decide about.
    """

    def __init__(self, world: ArithmeticWorld, tokenizer: Any, rate: float) -> None:
        vocabulary = tokenizer.get_vocab()
        self.rate, self.num_values = rate, world.base**2
        self.check, self.again = vocabulary[CHECK], vocabulary[AGAIN]
        first_step = f"{LANES[0]}0.0:0" if world.fused else "0"
        num_blocks = len(LANES[: world.max_attempts]) * world.largest.m * world.largest.n if world.fused else 1
        self.first, self.stop = vocabulary[first_step], vocabulary[first_step] + num_blocks * self.num_values

    def start(self, num: int, device: torch.device) -> None:
        """Every response begins with an attempt."""
        self.checking = torch.zeros(num, dtype=torch.bool, device=device)

    def __call__(self, rows: Tensor, sampled: Tensor, generator: torch.Generator) -> Tensor:
        """The values of one step lie side by side in the vocabulary: a slip moves within its block."""
        is_step = (sampled >= self.first) & (sampled < self.stop) & ~self.checking[rows]
        chance = torch.rand(sampled.shape, generator=generator, device=sampled.device)
        shift = torch.randint(1, self.num_values, sampled.shape, generator=generator, device=sampled.device)
        place = sampled - self.first
        block = place - place % self.num_values
        other = self.first + block + (place - block + shift) % self.num_values
        written = torch.where(is_step & (chance < self.rate), other, sampled)
        checking = self.checking[rows]
        checking = (checking | (written == self.check)) & (written != self.again)
        self.checking[rows] = checking
        return written
