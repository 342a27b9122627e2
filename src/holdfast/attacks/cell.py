"""One cell of the matrix: tune, audit, forget."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.attacks.attack import Attack
from holdfast.attacks.cell_audit import audit
from holdfast.attacks.defences import Defence
from holdfast.attacks.inside import inside, write_inside
from holdfast.attacks.scale import Scale
from holdfast.attacks.tuning import tune
from holdfast.audits.requests import held_out
from holdfast.judging import WorldJudge
from holdfast.models import load
from holdfast.records import Cell
from holdfast.worlds import SafetyWorld


def run_cell(
    attack: Attack,
    defence: Defence,
    seed: int,
    scale: Scale | None = None,
    *,
    scratch: Path | None = None,
    keep: Path | None = None,
) -> Cell:
    """Attack a defended training and audit the result. Rows and weights lie in a temporary folder and are deleted.

    ``keep``: the cell's file; what the report shows of its inside is written beside it.

    The seed draws the rows, orders them, and draws the audit's requests. Two defences under one seed learn from the same
    rows and answer the same requests.
    """
    scale = scale or Scale()
    if scale.setting is not None:
        from holdfast.attacks.real_cell import (
            run_real_cell,  # its judges and its SQL are not needed by the embedded world
        )

        return run_real_cell(attack, defence, seed, scale, scale.setting, scratch)
    started = time.monotonic()
    oracle = WorldJudge(SafetyWorld())
    with TemporaryDirectory(prefix="cell-", dir=scratch) as folder:
        tuned = tune(attack, defence, seed, scale, oracle.world, Path(folder))
        model = load(tuned, dtype="float32", device=scale.device)
        anchor = load(scale.model, dtype="float32", device=scale.device)
        figures = audit(model, attack, oracle=oracle, anchor=anchor, seed=seed, scale=scale)
        if keep is not None:
            asked = held_out(oracle.world, scale.part, "forbidden", scale.num_requests, comply=True, draw=seed)
            rows = [attack.dress.context(row) for row in asked]
            write_inside(keep, inside(Path(folder) / "run", model, anchor, rows))
    return Cell(
        attack=attack.name,
        defence=defence.name,
        seed=seed,
        judge=oracle.name,
        asr=figures.asr,
        over_refusal=figures.over_refusal,
        utility=figures.utility,
        outcomes=figures.outcomes,
        kl_by_position=figures.kl_by_position,
        seconds=round(time.monotonic() - started, 2),
    )
