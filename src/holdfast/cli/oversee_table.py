"""The n-curve as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Column, Table

from holdfast.oversight.curves import Point
from holdfast.oversight.kl import shown_kl
from holdfast.stats import Estimate, Unknown

COLUMNS = ("n", "reward", "gold", "pass@n", "abstains", "E[R*S]", "KL(overseen||base)", "bound", "KL(base||overseen)")


def curve_table(points: Sequence[Point], num_prompts: int) -> Table:
    """95 % intervals over prompts; KL in nats."""
    title = f"best-of-n with the safety bar, mean over {num_prompts} prompts (95 % interval over prompts)"
    columns = (Column(name, overflow="fold") for name in COLUMNS)  # in a narrow terminal no figure is cut
    table = Table(*columns, box=None, header_style="bold", title=title)
    for point in points:
        table.add_row(
            str(point.n),
            *(shown(value) for value in (point.reward, point.gold, point.pass_at_n, point.abstention, point.joint)),
            *(shown_kl(value) for value in (point.kl, point.kl_bound, point.kl_reverse)),
        )
    return table


def shown(estimate: Estimate | Unknown | None) -> str:
    """A value with its interval."""
    if estimate is None:
        return ""
    if isinstance(estimate, Unknown):
        return estimate.why
    if not estimate.has_interval:
        return f"{estimate.value:.3f} (no interval)"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"
