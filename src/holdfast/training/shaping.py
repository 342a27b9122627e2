"""Potential-based shaping, and why it needs per-token returns (MATH §3).

F_t = gamma Phi(s_{t+1}) - Phi(s_t), with Phi = 0 at the end. Summed over a trajectory this telescopes to -Phi(s_0): the same
for all answers to one prompt, so a reward of one scalar per trajectory loses it in the group's mean. In returns-to-go it
takes Phi(s_t) off the return from every state: a baseline, which leaves the expected gradient alone and can lower its variance.
"""

from __future__ import annotations

import torch
from torch import Tensor


def shaping(potentials: Tensor, *, gamma: float = 1.0) -> Tensor:
    """potentials [B, T] of the states in which tokens were chosen -> what is added to the reward of each token, [B, T]."""
    after = torch.cat([potentials[:, 1:], torch.zeros_like(potentials[:, :1])], dim=1)
    return gamma * after - potentials


def returns_to_go(rewards: Tensor, *, gamma: float = 1.0) -> Tensor:
    """rewards [B, T] -> the discounted sum from each token to the end, [B, T]."""
    returns = torch.zeros_like(rewards)
    total = torch.zeros_like(rewards[:, 0])
    for step in reversed(range(rewards.shape[1])):
        total = rewards[:, step] + gamma * total
        returns[:, step] = total
    return returns


def group_advantages(rewards: Tensor, *, epsilon: float = 1e-4) -> Tensor:
    """GRPO (MATH §3): one scalar reward per trajectory of a group, centred and scaled by the group's spread."""
    return (rewards - rewards.mean()) / (rewards.std() + epsilon)
