"""RL along its steps: reward, KL, length of responses, and what an observer saw in the rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.records.rl_steps import observed_names
from holdfast.reports.reading import Curve
from holdfast.reports.training import MAX_CURVES, Panel, TrainedRun, drawn_runs

MAX_OBSERVED = 6  # charts of figures that only their observer knows


class _Known(NamedTuple):
    """A chart whose figures we know; ``lines``: what they are called in the chart, and in the log."""

    title: str
    y_name: str
    lines: dict[str, str]
    meaning: str
    share: bool = False


KNOWN = (
    _Known(
        "Reward",
        "reward",
        {"mean": "reward", "spread": "reward_std"},
        "mean over the rollouts of a step; spread is their standard deviation.",
    ),
    _Known(
        "KL",
        "KL (nats per token)",
        {"KL": "kl"},
        "of the policy from the model it started from, estimated on the rollouts (k3), mean over their tokens.",
    ),
    _Known(
        "Length",
        "tokens of a response",
        {"mean": "completions/mean_length"},
        "tokens of a response, mean over rollouts.",
    ),
    _Known(
        "Attempts and decisions",
        "share",
        {name: name for name in ("p_s", "p_dC", "p_dW", "cut_off")},
        "p_s, a first attempt is right; p_dC, it stops on a right attempt; p_dW, it tries again after a wrong one; "
        "cut_off, a response did not end by itself. A gap: no attempt of that kind was seen.",
        share=True,
    ),
    _Known("Attempts per response", "attempts", {"mean": "attempts"}, "mean over rollouts."),
)
OBSERVED = "as the observer of the run named and measured it, on the rollouts of a step."


class Reinforced(NamedTuple):
    """The charts of every RL run, and what those that are there measure."""

    runs: list[TrainedRun]
    meanings: dict[str, str]


def reinforced_part(curves: Sequence[Curve], notes: list[str]) -> Reinforced | None:
    """None without a run of RL. A chart that no log has figures for is not drawn, nor explained."""
    rl_curves = [curve for curve in curves if curve.rl]
    if not rl_curves:
        return None
    if len(rl_curves) > MAX_CURVES:
        notes.append(f"Reinforcement learning: the first {MAX_CURVES} of {len(rl_curves):,} runs.")
    panels_of = {index: (curve, _panels(curve, notes)) for index, curve in enumerate(rl_curves[:MAX_CURVES])}
    drawn = {panel.title for _, panels in panels_of.values() for panel in panels}
    meanings = {known.title: known.meaning for known in KNOWN if known.title in drawn}
    meanings.update(dict.fromkeys(sorted(drawn - meanings.keys()), OBSERVED))
    return Reinforced(drawn_runs("rl", panels_of), meanings)


def _panels(curve: Curve, notes: list[str]) -> list[Panel]:
    panels = []
    for title, y_name, lines, _, share in KNOWN:
        there = {label: curve.rl[name] for label, name in lines.items() if name in curve.rl}
        panels += [Panel(title, y_name, there, share)] if there else []
    known_names = {name for known in KNOWN for name in known.lines.values()}
    others = [name for name in observed_names(curve.rl) if name not in known_names]
    if len(others) > MAX_OBSERVED:
        notes.append(f"{curve.name}: the first {MAX_OBSERVED} of {len(others):,} figures that an observer gave.")
    return panels + [Panel(name, name, {"observed": curve.rl[name]}) for name in others[:MAX_OBSERVED]]
