"""Choosing by agreement: of n programs the largest group that returns the same is taken. Exact, from one pool.

A candidate's votes depend on who else was drawn, so the ranks of ``holdfast.oversight.expected`` do not apply. Instead all
subsets of n are counted by the sizes of the groups: polynomials whose exponents are how many were drawn and how many tie.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ways = NDArray[np.float64]
"""[drawn, ties]: in how many ways so many are drawn, with so many groups of exactly the winner's size."""


class Won(NamedTuple):
    """What one group wins: P(it is returned), and E[its share of the n votes; 0 where it is not]."""

    p: float
    votes: float


def winners(groups: Sequence[Hashable | None], n: int) -> dict[Hashable, Won]:
    """What every group wins; ties are broken at random. None marks a candidate that may not be returned: it has no vote.

    A group's members are alike, so each is the one returned with probability p / size.
    """
    sizes = Counter(group for group in groups if group is not None)
    barred = sum(group is None for group in groups)
    total = math.comb(len(groups), n)
    by_size = {size: _won(size, sizes, barred, n, total) for size in set(sizes.values())}
    return {group: by_size[size] for group, size in sizes.items()}


def _won(size: int, sizes: Counter[Hashable], barred: int, n: int, total: int) -> Won:
    """What one group wins: a sum over how many of it are drawn, and over how many other groups tie with it."""
    others = Counter(sizes.values())
    others[size] -= 1
    p = votes = 0.0
    for drawn in range(1, min(size, n) + 1):
        ways = np.zeros((n - drawn + 1, n // drawn + 1))
        ways[: barred + 1, 0] = [math.comb(barred, number) for number in range(min(barred, n - drawn) + 1)]
        for other, times in others.items():
            for _ in range(times):
                ways = _with_group(ways, other, drawn)
        chance = math.comb(size, drawn) * sum(ways[-1, ties] / (ties + 1) for ties in range(ways.shape[1])) / total
        p += chance
        votes += chance * drawn / n
    return Won(float(p), float(votes))


def _with_group(ways: Ways, size: int, most: int) -> Ways:
    """Add a group to the ways: fewer than ``most`` of it are drawn, or exactly ``most``, which is a tie."""
    more = np.zeros_like(ways)
    for number in range(min(size, most, len(ways) - 1) + 1):
        there = ways[: len(ways) - number] * math.comb(size, number)
        if number < most:
            more[number:] += there
        else:
            more[number:, 1:] += there[:, :-1]
    return more
