"""What the package knows about one objective, in one value."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from holdfast.heads import FROM_ANCHOR, FROM_ANCHOR_LOGITS, TokenStats

GIVEN = ("role", "position")
"""What the data give to a function whose signature asks for it. Its other keywords are options."""


def _all_read(options: Mapping[str, Any]) -> tuple[str, ...]:
    del options
    return ()


@dataclass(frozen=True)
class Objective:
    """The loss of each token as a function of its statistics, and what training and diagnostics ask about it.

    Calling the value calls ``function``, and it has that function's signature.
    """

    name: str
    function: Callable[..., Tensor]  # (stats, *, role and position if it asks for them, options) -> a loss per token
    reads: tuple[str, ...]  # the statistics it needs: fields of TokenStats
    gauges: Mapping[str, Callable[..., Tensor]] = field(default_factory=dict)
    """Figures of each token for the log. Called as ``function`` is, with those of its options that a gauge takes."""
    schedule: Mapping[str, Callable[[float], float]] = field(default_factory=dict)
    """Option -> its value at a share of all epochs, 0 to 1. An option that the config sets stays as set."""
    unread: Callable[[Mapping[str, Any]], tuple[str, ...]] = _all_read
    """Options -> those of ``reads`` that are not needed under them."""
    expected: str = ""
    """Which gradient it stands for, in expectation. Attribution shows the objectives that say so."""
    __signature__: inspect.Signature = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "__signature__", inspect.signature(self.function))

    def __call__(self, stats: TokenStats, **keywords: Any) -> Tensor:
        """The loss of every token, not reduced."""
        return self.function(stats, **keywords)

    def on(self, stats: TokenStats, role: Tensor, position: Tensor, **options: Any) -> Tensor:
        """The loss of every token: the function gets role and position if it asks for them."""
        given = {"role": role, "position": position}
        return self.function(stats, **{name: given[name] for name in GIVEN if name in self.takes}, **options)

    @property
    def takes(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the function."""
        return self.__signature__.parameters

    @property
    def options(self) -> list[str]:
        """Those parameters that a config may set."""
        return [name for name in self.takes if name not in ("stats", *GIVEN)]

    def stats_read(self, options: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """The statistics it reads under these options."""
        unread = self.unread(options or {})
        return tuple(name for name in self.reads if name not in unread)

    @property
    def needs_anchor(self) -> bool:
        """Whether there must be an anchor at all."""
        return not set(self.reads).isdisjoint(FROM_ANCHOR)

    def needs_kl(self, options: Mapping[str, Any] | None = None) -> bool:
        """Whether the anchor's whole distribution is needed: hidden states or logits, not a cache of logp and top."""
        return not set(self.stats_read(options)).isdisjoint(FROM_ANCHOR_LOGITS)
