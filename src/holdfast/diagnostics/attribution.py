"""Which tokens a gradient comes from: each objective's gradient split by role, on a real model and batch.

One forward per batch; then one backward per objective and role, since the loss is a sum over tokens. So the roles' gradients
add up to the whole, exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from holdfast.diagnostics.gradients import Keeper, cosine, trained_parameters
from holdfast.diagnostics.losses_by_token import LossByToken, Tokens
from holdfast.heads import Reference, stats_from_logits
from holdfast.models.eval_mode import eval_mode
from holdfast.records import Role
from holdfast.tokens import TokenRow, answer_positions, pad
from holdfast.training.collate import target_table


@dataclass(frozen=True)
class AttributionRow:
    """A response as tokens, with an advantage per target token for every kind of reward."""

    row: TokenRow
    advantage: Mapping[str, Sequence[float]]
    attempt_tokens: float = 0.0  # mean length of its attempts


@dataclass(frozen=True, slots=True)
class RoleGradient:
    """What the tokens of one role give to an objective's gradient."""

    objective: str
    role: str
    tokens: int
    norm: float
    per_token_norm: float
    cosine: float | None  # with the whole gradient
    share: float | None  # of the whole gradient's length along itself: shares add up to 1
    expected: str


@dataclass(frozen=True)
class Attribution:
    """All rows of a table, the gradients by objective and role, and what they cost."""

    rows: list[RoleGradient]
    vectors: dict[tuple[str, str], Tensor]
    cost: dict[str, float]

    def ratio(self, objective: str) -> float | None:
        """|gradient of sampling| / |gradient of deciding|; None where nothing was decided."""
        norms = {row.role: row.norm for row in self.rows if row.objective == objective}
        below = norms.get(Role.DECISION.label, 0.0)
        return norms.get(Role.SAMPLE.label, 0.0) / below if below > 0 else None

    def table(self) -> list[dict[str, Any]]:
        """The rows, for `--json`."""
        return [asdict(row) for row in self.rows]


def attribute(
    model: Any,
    rows: Sequence[AttributionRow],
    objectives: Mapping[str, LossByToken],
    *,
    anchor: Any = None,
    old: Any = None,
    pad_id: int = 0,
    batch_size: int = 8,
    sketch: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Attribution:
    """Split every objective's gradient on these rows. Losses are divided by the number of target tokens of them all.

    ``old`` is the policy that wrote the responses (default: the model itself, ratio 1); ``sketch``: see ``Keeper``.
    """
    keeper = Keeper(trained_parameters(model), sketch=sketch)
    sums: dict[tuple[str, str], Tensor] = {}
    counts: dict[str, int] = {}
    cost = {"forward_seconds": 0.0, "backward_seconds": 0.0, "backwards": 0, "parameters": keeper.num}
    num_targets = sum(row.row.num_targets for row in rows)
    with eval_mode(model):  # dropout would make the split depend on chance
        for start in range(0, len(rows), batch_size):
            began = time.perf_counter()
            tokens = _forward(model, rows[start : start + batch_size], anchor, old, pad_id)
            cost["forward_seconds"] += time.perf_counter() - began
            present = [role for role in Role if bool((tokens.role == role).any())]
            for role in present:
                counts[role.label] = counts.get(role.label, 0) + int((tokens.role == role).sum())
            began = time.perf_counter()
            for name, objective in objectives.items():
                losses = objective.loss(tokens)
                for role in present:
                    part = torch.where(tokens.role == role, losses, 0.0).sum() / num_targets
                    gradients = torch.autograd.grad(part, keeper.parameters, retain_graph=True, allow_unused=True)
                    vector = keeper.keep(gradients)
                    sums[name, role.label] = sums[name, role.label] + vector if (name, role.label) in sums else vector
                    cost["backwards"] += 1
            cost["backward_seconds"] += time.perf_counter() - began
            if on_progress:
                on_progress(min(start + batch_size, len(rows)), len(rows))
    return Attribution(_table(sums, counts, objectives), sums, cost)


def _forward(model: Any, rows: Sequence[AttributionRow], anchor: Any, old: Any, pad_id: int) -> Tokens:
    batch = pad([row.row for row in rows], pad_id)
    table = target_table(batch, [0] * len(rows)).to(model.device)
    inputs = batch.to(model.device).model_inputs()
    width = batch.ids.shape[1]
    logits = model(**inputs).logits.flatten(0, 1)[table.index]
    reference = None
    if anchor is not None:
        with torch.no_grad():
            reference = Reference(logits=anchor(**inputs).logits.flatten(0, 1)[table.index])
    stats = stats_from_logits(logits, table.ids, reference)
    row = table.index // width
    in_answer = answer_positions(batch.roles).flatten()[table.index.cpu() + 1]
    places = list(zip(row.tolist(), in_answer.tolist(), strict=True))
    advantage = {
        kind: torch.tensor([rows[r].advantage[kind][p] for r, p in places], dtype=stats.logp.dtype, device=model.device)
        for kind in rows[0].advantage
    }
    logp_old = stats.logp.detach()
    if old is not None:
        with torch.no_grad():
            old_logits = old(**inputs).logits.flatten(0, 1)[table.index]
            logp_old = stats_from_logits(old_logits, table.ids).logp
    return Tokens(stats, table.role, table.position, row, logp_old, advantage)


def _table(
    sums: Mapping[tuple[str, str], Tensor], counts: Mapping[str, int], objectives: Mapping[str, LossByToken]
) -> list[RoleGradient]:
    rows: list[RoleGradient] = []
    for name, objective in objectives.items():
        parts = {role: vector for (own, role), vector in sums.items() if own == name}
        whole = torch.stack(list(parts.values())).sum(0)
        length = float(whole @ whole)
        for role, vector in parts.items():
            norm = float(vector.norm())
            rows.append(
                RoleGradient(
                    objective=name,
                    role=role,
                    tokens=counts[role],
                    norm=norm,
                    per_token_norm=norm / counts[role],
                    cosine=cosine(vector, whole),
                    share=float(vector @ whole) / length if length > 0 else None,
                    expected=objective.expected,
                )
            )
    return rows
