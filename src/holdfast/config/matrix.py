"""What `holdfast attack` reads: which attacks on which defences, how often."""

from __future__ import annotations

from pydantic import Field

from holdfast.config.base import Settings


class MatrixConfig(Settings):
    """A matrix in the embedded world: attacks x defences x seeds."""

    run: str
    attacks: tuple[str, ...] = Field(min_length=1)
    defences: tuple[str, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = (0, 1, 2)
    model: str = "tiny:aligned"
    num_requests: int = Field(default=200, gt=0)
    workers: int | None = Field(default=None, gt=0)  # processes; default: one per core
