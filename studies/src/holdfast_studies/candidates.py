"""Settings tried for each defence, the same number for all, and the rule that chooses among them.

`studies/configs/attack/validation.yaml` runs them on validation requests; what it chose is in ``defences.DEFENCES``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.attacks import DEFENCES, Defence, OwnStream, Repair
from holdfast.config import InputError, did_you_mean
from holdfast.records import Cell, Measure
from holdfast.stats import pooled


def _objective(name: str, **options: Any) -> Defence:
    said = ",".join(f"{key}={value}" for key, value in options.items())
    return Defence(name=f"{name}@{said or 'default'}", objective=name, options=options)


def _beta(name: str, **beta: float) -> Defence:
    said = ",".join(f"{key}={value:g}" for key, value in beta.items())
    return Defence(name=f"{name}@{said}", objective=name, options={"beta": beta})


def _anchored(safety: float, keep: float, keep_borrow: float) -> Defence:
    return Defence(
        name=f"anchored@safety={safety:g},keep={keep:g},keep_borrow={keep_borrow:g}",
        own=(
            OwnStream(rows="safety", weight=safety, batch_size=8, borrow=0.6),
            OwnStream(rows="keep", weight=keep, batch_size=8, borrow=keep_borrow),
        ),
    )


def _mixed(weight: float, borrow: float, batch_size: int) -> Defence:
    stream = OwnStream(rows="safety", objective="sft", weight=weight, borrow=borrow, batch_size=batch_size)
    return Defence(name=f"safety_mixed@weight={weight:g},borrow={borrow:g},rows={batch_size}", own=(stream,))


def _repair(num_steps: int, lr: float, *, borrow: tuple[float, float] = (0.0, 0.0)) -> Defence:
    streams = (OwnStream(rows="safety", borrow=borrow[0]), OwnStream(rows="keep", borrow=borrow[1]))
    name = f"repair@steps={num_steps},lr={lr:g}" + (",borrowing" if any(borrow) else "")
    return Defence(name=name, repair=Repair(streams=streams, num_steps=num_steps, lr=lr))


_ALL = (
    _beta("csft", early=2.0),
    _beta("csft", early=0.5),
    _beta("csft", early=5.0),
    _beta("csft", first=2.0, early=5.0),
    _objective("csft_pa"),
    _objective("csft_pa", pa_weight=0.02),
    _objective("csft_pa", kl="detach"),
    _beta("csft_pa", early=0.5),
    *(_objective("kl_sft", kl_weight=weight) for weight in (0.03, 0.1, 0.3, 1.0)),
    _mixed(1.0, 0.0, 16),
    *(_mixed(weight, 0.6, 8) for weight in (0.3, 1.0, 3.0)),
    _anchored(20.0, 1.0, 0.3),
    _anchored(5.0, 1.0, 0.3),
    _anchored(5.0, 0.3, 0.3),
    _anchored(10.0, 1.0, 0.0),
    *(Defence(name=f"interpolate@share={share}", interpolate=share) for share in (0.2, 0.35, 0.5, 0.65)),
    _repair(20, 1e-3),
    _repair(40, 1e-3),
    _repair(40, 2e-3),
    _repair(40, 1e-3, borrow=(0.6, 0.3)),
)
CANDIDATES: dict[str, Defence] = {defence.name: defence for defence in _ALL}


def find_defence(name: str) -> Defence:
    """By name, a candidate's included; a clear line for a name that is not there."""
    found = DEFENCES.get(name) or CANDIDATES.get(name)
    if found is None:
        known = did_you_mean(name, [*DEFENCES, *CANDIDATES]) or "; known: " + ", ".join(DEFENCES)
        raise InputError(f"defence '{name}': no such defence{known}")
    return found


def cost(cells: Sequence[Cell], defence: str) -> float:
    """What is to be small: attack success + over-refusal + (1 - utility), the mean over attacks."""

    def share(attack: str, measure: Measure) -> float:
        own = [getattr(cell, measure) for cell in cells if (cell.attack, cell.defence) == (attack, defence)]
        return pooled(rate for rate in own if rate is not None).value

    attacks = list(dict.fromkeys(cell.attack for cell in cells if cell.defence == defence))
    return sum(share(a, "asr") + share(a, "over_refusal") + 1 - share(a, "utility") for a in attacks) / len(attacks)


def chosen(cells: Sequence[Cell]) -> dict[str, tuple[str, float]]:
    """For each defence that was run with several settings (``name@settings``): the cheapest, and its cost."""
    done = [cell for cell in cells if cell.status == "ok" and "@" in cell.defence]
    costs: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(cell.defence for cell in done):
        costs.setdefault(name.partition("@")[0], {})[name] = cost(done, name)
    several = {defence: tried for defence, tried in costs.items() if len(tried) > 1}
    return {defence: min(tried.items(), key=lambda item: item[1]) for defence, tried in several.items()}
