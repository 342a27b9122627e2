"""One cell of the matrix: tune, ask, judge, and delete the weights."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.attacks.asking import ask
from holdfast.attacks.attack import Attack
from holdfast.attacks.cell_files import write_replies
from holdfast.attacks.curve import Curve
from holdfast.attacks.defences import Defence
from holdfast.attacks.inside import inside, write_inside
from holdfast.attacks.rows import about_rows
from holdfast.attacks.run_time_answers import answered_by, load_for_use, release, shared_in
from holdfast.attacks.scale import Scale
from holdfast.attacks.tuning import LEFT_OUT, tune
from holdfast.heads.answer_stats import kl_by_position
from holdfast.judging import request_text
from holdfast.models import LoadedModel, load
from holdfast.records import Cell, Hits
from holdfast.training.kept_answers import kept_in

ANCHOR = "anchor"
"""Folder of the scratch with the anchor's answers."""


def run_cell(
    attack: Attack,
    defence: Defence,
    seed: int,
    scale: Scale | None = None,
    *,
    scratch: Path | None = None,
    keep: Path | None = None,
) -> Cell:
    """Attack a defended training, ask the tuned model, and return the cell. Rows and weights are deleted at the end.

    ``keep``: the cell's file; in the embedded world, what the report shows of its inside is written beside it. Of a real
    model's answers only verdicts and hashes are kept (the texts go to ``files.replies`` where that is a folder); answers that are
    learned from, and what the anchor says of rows and prompts, stay in ``scratch`` for the other cells until the run ends.

    The seed draws the rows, orders them, and in the embedded world draws the requests. Two defences under one seed learn
    from the same rows and answer the same requests.
    """
    started = time.monotonic()
    scale = scale or Scale()
    setting = scale.setting
    attack = attack.in_setting(setting)
    kl: tuple[float, ...] = ()
    with (
        TemporaryDirectory(prefix="cell-", dir=scratch) as folder,
        shared_in(None if setting.is_world else scratch),
        kept_in(scratch and scratch / ANCHOR),
    ):
        curve = _curve(attack, defence, seed, scale)
        tuned = tune(attack, defence, seed, scale, Path(folder), watch=curve)
        tuning_seconds = _since(started)
        release()
        model = (
            load(tuned, dtype="float32", device=scale.device) if setting.is_world else load_for_use(tuned, scale.device)
        )
        untouched = _untouched(scale, seed)
        outcomes, answers, scores, texts = ask(
            model, attack, setting, seed=seed, scale=scale, untouched=untouched, system=defence.system
        )
        if setting.is_world:
            kl = _kl_and_inside(attack, model, seed, scale, Path(folder) / "run", keep)
        elif defence.vet or defence.leave_out:
            outcomes["vetted"] = _vetted(Path(folder))
        if defence.tune:
            outcomes |= about_rows(attack.data, setting, seed)
    if scale.files and scale.files.files.replies:
        write_replies(Path(scale.files.files.replies), attack.name, defence.name, seed, texts)
    cell = Cell(
        attack.name, defence.name, seed, setting.judges[0].name, outcomes=outcomes, answers=answers, scores=scores
    )
    points = tuple(point for asker in curve for point in asker.points)
    cell = replace(cell.with_shares(), kl_by_position=kl, curve=points)
    return replace(cell, seconds=_since(started), tuning_seconds=tuning_seconds)


def _kl_and_inside(
    attack: Attack, model: LoadedModel, seed: int, scale: Scale, run: Path, keep: Path | None
) -> tuple[float, ...]:
    """The divergence from the anchor on the embedded world's forbidden answers. The cell's inside is written where asked."""
    anchor = load(scale.model, dtype="float32", device=scale.device)
    rows = [attack.dress.context(row) for row in scale.setting.forbidden(seed)]
    if keep is not None:
        write_inside(keep, inside(run, model, anchor, rows))
    return kl_by_position(model, anchor, rows)


def _since(started: float) -> float:
    return round(time.monotonic() - started, 2)


def _curve(attack: Attack, defence: Defence, seed: int, scale: Scale) -> list[Curve]:
    """The callbacks that ask the model along its training; none where no curve is wanted."""
    setting = scale.files
    if setting is None or setting.files.curve is None or not defence.tune:
        return []
    return [Curve(attack, setting, scale, seed, defence.system)]


def _untouched(scale: Scale, seed: int) -> list[str]:
    """What the model says to the look-alikes before any tuning. Cells of a real model share it; a tiny one says it again."""
    prompts = [request_text(row.prompt) for row in scale.setting.lookalikes(seed)]
    rows = answered_by(scale.model, prompts, scale.device, everything=prompts, max_new_tokens=scale.max_new_tokens)
    return [row.turns[-1].visible for row in rows]


def _vetted(folder: Path) -> Hits:
    """Whether the anchor refused what a row of the task asks for, for every row."""
    if (folder / LEFT_OUT).exists():
        rows: dict[str, int] = json.loads((folder / LEFT_OUT).read_text(encoding="utf-8"))
    else:
        data = json.loads((folder / "run" / "data.json").read_text(encoding="utf-8"))
        rows = {entry["stream"]: entry["rows"] for entry in data}
    return (True,) * rows.get("task-held", 0) + (False,) * rows.get("task", 0)
