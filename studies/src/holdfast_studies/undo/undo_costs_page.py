"""Costs of an undo as a section of docs/results/undo.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.stats import Estimate, Unknown
from holdfast_studies.markdown import table
from holdfast_studies.undo.safety_gap_page import OVER_SEEDS, shown
from holdfast_studies.undo.undo_costs_config import UndoCostsConfig


def section(config: UndoCostsConfig, command: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The section: the command, and a row per cost."""
    rl, seeds = config.rl, ", ".join(map(str, config.seeds))
    about = (
        f"Written by `{command}`. GRPO through TRL from {config.model.name}, {config.context} context: {rl.steps} steps of"
        f" {rl.prompts_per_step} requests x {rl.group} answers, learning rate {rl.lr:g}, seeds {seeds}; reward 1 for a right"
        f" final answer, less the cost of every undo. {config.num_test} held-out requests, sampled; intervals are 95 %"
        f" ({OVER_SEEDS})."
    )
    header = list(rows[0])
    lines = [[_cell(row[name]) for name in header] for row in rows]
    return f"## {config.title}\n\n{about}\n\n{table(header, lines)}\n"


def _cell(value: Any) -> str:
    return (
        shown(value) if isinstance(value, Estimate | Unknown) else value if isinstance(value, str) else f"{value:.3g}"
    )
