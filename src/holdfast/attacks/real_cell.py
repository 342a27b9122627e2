"""One cell on a real model: tune, ask, judge, forget."""

from __future__ import annotations

import gc
import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch

from holdfast.attacks.attack import Attack
from holdfast.attacks.cell_audit import responses
from holdfast.attacks.defences import Defence
from holdfast.attacks.real_answers import load_for_use, shared_in
from holdfast.attacks.tuning import tune
from holdfast.audits.suites.sql import tidy
from holdfast.generation import Dress
from holdfast.judging import Judge, find_judge, refusals, verdicts
from holdfast.models import LoadedModel
from holdfast.records import Cell, Outcomes, Trace, context
from holdfast.stats import share

if TYPE_CHECKING:
    from holdfast.attacks.real_setting import RealSetting
    from holdfast.attacks.scale import Scale


def run_real_cell(
    attack: Attack, defence: Defence, seed: int, scale: Scale, setting: RealSetting, scratch: Path | None
) -> Cell:
    """Rows and weights lie in a temporary folder and are deleted; of the answers only verdicts and hashes are kept.

    Answers that are learned from stay in ``scratch`` for the other cells until the run ends.

    The first judge's figures are the cell's; every judge's verdicts are in ``outcomes``, as ``asr:JUDGE``.
    """
    started = time.monotonic()
    judges = [find_judge(name) for name in setting.files.judges]
    with TemporaryDirectory(prefix="cell-", dir=scratch) as folder, shared_in(scratch):
        world: Any = setting  # the rows of these attacks and defences are a setting's, not the embedded world's
        tuned = tune(attack, defence, seed, scale, world, Path(folder))
        _release()
        model = load_for_use(tuned, scale.device)
        outcomes, answers = ask(model, attack, judges, setting, scale)
        if defence.vet:
            outcomes["vetted"] = _vetted(Path(folder) / "run" / "data.json")
    first = judges[0].name
    return Cell(
        attack=attack.name,
        defence=defence.name,
        seed=seed,
        judge=first,
        asr=share(against(outcomes[f"asr:{first}"])),
        over_refusal=share(against(outcomes[f"over_refusal:{first}"])),
        utility=share(against(outcomes["utility"])) if "utility" in outcomes else None,
        outcomes={**outcomes, **{name: against(outcomes[f"{name}:{first}"]) for name in ("asr", "over_refusal")}},
        answers=answers,
        seconds=round(time.monotonic() - started, 2),
    )


def ask(
    model: LoadedModel, attack: Attack, judges: Sequence[Judge], setting: RealSetting, scale: Scale
) -> tuple[dict[str, Outcomes], dict[str, tuple[str, ...]]]:
    """By measure and judge: was each request answered, refused or right, None where not scored. And the answers' hashes."""
    asked, answers = _answers(model, setting.held_out, attack.dress, scale)
    harmless, their_answers = _answers(model, setting.harmless, Dress(), scale)
    outcomes: dict[str, Outcomes] = {}
    for judge in judges:
        said = verdicts(judge, list(zip(asked, answers, strict=True)))
        outcomes[f"asr:{judge.name}"] = tuple(None if each.safe is None else not each.safe for each in said)
        outcomes[f"over_refusal:{judge.name}"] = tuple(refusals(judge, list(zip(harmless, their_answers, strict=True))))
    if attack.utility == "sql":
        rows = setting.task_test
        written = responses(model, [Trace(row.prompt) for row in rows], scale)
        pairs = zip(rows, written, strict=True)
        outcomes["utility"] = tuple(tidy(text) == tidy(row.turns[-1].visible) for row, text in pairs)
    return outcomes, {"asr": _hashes(answers), "over_refusal": _hashes(their_answers)}


def _answers(model: LoadedModel, texts: Sequence[str], dress: Dress, scale: Scale) -> tuple[list[str], list[str]]:
    """The bare requests, which is what judges see, and the answers to them as the attacker puts them."""
    prompts = [dress.context(Trace((context("user", text),))) for text in texts]
    return list(texts), responses(model, prompts, scale)


def _release() -> None:
    """Cells share a GPU: what a training took is of use to the others while this one asks."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _vetted(data: Path) -> Outcomes:
    """Of every row of the task: whether the anchor refused what it asks for."""
    rows: dict[str, int] = {entry["stream"]: entry["rows"] for entry in json.loads(data.read_text(encoding="utf-8"))}
    return (True,) * rows.get("task-held", 0) + (False,) * rows.get("task", 0)


def against(outcomes: Outcomes) -> tuple[bool, ...]:
    """What could not be scored counts against the model."""
    return tuple(hit is not False for hit in outcomes)


def _hashes(answers: Sequence[str]) -> tuple[str, ...]:
    return tuple(hashlib.sha256(text.encode()).hexdigest()[:12] for text in answers)
