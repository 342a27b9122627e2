"""How much of a demo cell is our own Python: neither torch, nor tokenizers, nor any other library.

    python -m benchmarks.own_python

One cell (harmful_examples against csft_pa) under cProfile. The profiler charges every call of a Python function and few of
those inside torch, so the share it gives is above the true one.
"""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path
from typing import Any

import torch

import holdfast
from holdfast.attacks import find_attack
from holdfast.attacks.cell import run_cell
from holdfast.attacks.defences import DEFENCES
from holdfast.attacks.scale import Scale

OURS = str(Path(holdfast.__file__).parent)
GOAL = 0.10


def measure(scale: Scale) -> dict[str, Any]:
    """The share of the time of a cell that is spent in functions of this package, and the five that take most."""
    torch.set_num_threads(1)
    profile = cProfile.Profile()
    profile.enable()
    run_cell(find_attack("harmful_examples"), DEFENCES["csft_pa"], 0, scale)
    profile.disable()
    return shares(pstats.Stats(profile))


def shares(stats: pstats.Stats) -> dict[str, Any]:
    """Time inside the functions themselves, without what they call, summed over our files."""
    rows: dict[tuple[str, int, str], tuple[int, int, float, float, Any]] = stats.stats  # type: ignore[attr-defined]
    whole = sum(row[2] for row in rows.values())
    ours = {place: row[2] for place, row in rows.items() if place[0].startswith(OURS)}
    longest = sorted(ours, key=lambda place: -ours[place])[:5]
    return {
        "ratio": "a demo cell: our own Python / all",
        "measured": round(sum(ours.values()) / whole, 3),
        "goal": GOAL,
        "seconds": round(whole, 1),
        "longest": [f"{Path(file).stem}.{name} {ours[file, line, name] / whole:.1%}" for file, line, name in longest],
    }


def main() -> None:
    figures = measure(Scale())
    print(f"{figures['ratio']}: {figures['measured']:.1%} of {figures['seconds']} s (goal <= {GOAL:.0%})")
    print("\n".join(figures["longest"]))


if __name__ == "__main__":
    main()
