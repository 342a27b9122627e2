"""How the rows of a step are cut into passes: by the tokens that a pass holds, padding included.

A small pass is dear on a GPU: the host launches the same kernels for 500 tokens as for 5,000, and a GPU that is quick waits for
it. So rows that are short, such as held answers, travel together in few passes. The loss of a step is a sum over its rows: how
they are cut changes time and memory, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

LAUNCHING = 6e12
"""Parameters times tokens of a pass below which a GPU waits for the host: 4,000 tokens with 1.5 billion parameters.

On an H200 a pass of a model of 1.5B took 150 ms with 2,048 tokens and with 4,096 (docs/performance.md).
"""
FEWEST, MOST = 256, 65_536  # tokens, for models of any size; on a CPU the former
FIXED = 8  # a pass of any size costs this part of the floor besides: gradients are added to what is there
POLICY, ANCHOR = 3, 1  # a forward and a backward pass of twice its cost; a forward pass


def least_worth(num_parameters: int, *, gpu: bool) -> int:
    """Tokens that a pass costs at least, however few it holds."""
    return int(min(MOST, max(FEWEST, LAUNCHING / max(1, num_parameters)))) if gpu else FEWEST


@dataclass(frozen=True)
class PassRoom:
    """What a pass may hold. A row that is longer than ``tokens`` has a pass for itself."""

    tokens: int  # padding included
    floor: int  # tokens that a pass costs at least
    rows: int | None = None
    packing: bool = False  # rows lie on one line, without padding

    def ends(self, lengths: Ints, anchored: NDArray[np.bool_]) -> list[int]:
        """Cut rows, in the order given, where it costs least: the end of every pass.

        A pass costs its tokens, but not less than ``floor``, and a little besides: three times for the policy, once for the
        anchor if it has rows there. The cheapest way to cut the first rows is known when the next row is looked at.
        """
        num = len(lengths)
        best = np.zeros(num + 1, dtype=np.int64)  # cost of the first rows, cut in the cheapest way
        start_of_last = np.zeros(num + 1, dtype=np.int64)
        for stop in range(1, num + 1):
            first = 0 if self.rows is None else max(0, stop - self.rows)
            backwards = lengths[first:stop][::-1]
            with_anchor = anchored[first:stop][::-1]
            held = self._held(backwards, np.ones_like(backwards))
            fits = held <= self.tokens
            fits[0] = True
            held, backwards, with_anchor = held[fits], backwards[fits], with_anchor[fits]
            compared = self._held(np.where(with_anchor, backwards, 0), with_anchor.astype(np.int64))
            cost = POLICY * self._cost(held) + ANCHOR * np.where(compared > 0, self._cost(compared), 0)
            starts = stop - 1 - np.flatnonzero(fits)
            cost += best[starts]
            cheapest = int(np.argmin(cost))
            best[stop], start_of_last[stop] = cost[cheapest], starts[cheapest]
        ends = [num] if num else []
        while ends and (start := int(start_of_last[ends[0]])):
            ends.insert(0, start)
        return ends

    def _cost(self, tokens: Ints) -> Ints:
        return np.maximum(tokens, self.floor) + self.floor // FIXED

    def _held(self, lengths: Ints, counted: Ints) -> Ints:
        """Tokens of a pass with the first row, the first two, ..."""
        if self.packing:
            return np.cumsum(lengths)
        return np.maximum.accumulate(lengths) * np.cumsum(counted)
