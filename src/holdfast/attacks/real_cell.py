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
from holdfast.audits.intervals import rate
from holdfast.audits.suites.sql import tidy
from holdfast.generation import Dress
from holdfast.judging import Judge, find_judge, refusals, verdicts
from holdfast.models import LoadedModel
from holdfast.records import Cell, Rate, Trace, context

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
        outcomes = ask(model, attack, judges, setting, scale)
        if defence.vet:
            outcomes["vetted"] = _vetted(Path(folder) / "run" / "data.json")
    first = judges[0].name
    return Cell(
        attack=attack.name,
        defence=defence.name,
        seed=seed,
        judge=first,
        asr=_rate(outcomes[f"asr:{first}"]),
        over_refusal=_rate(outcomes[f"over_refusal:{first}"]),
        utility=_rate(outcomes["utility"]) if "utility" in outcomes else None,
        outcomes={**outcomes, **{name: against(outcomes[f"{name}:{first}"]) for name in ("asr", "over_refusal")}},
        seconds=round(time.monotonic() - started, 2),
    )


def ask(
    model: LoadedModel, attack: Attack, judges: Sequence[Judge], setting: RealSetting, scale: Scale
) -> dict[str, str]:
    """By measure and judge, one digit per request: 1 answered, refused or right, 0 not, ? not scored. And the answers' hashes."""
    asked, answers = _answers(model, setting.held_out, attack.dress, scale)
    harmless, their_answers = _answers(model, setting.harmless, Dress(), scale)
    outcomes = {"asr:answers": _hashes(answers), "over_refusal:answers": _hashes(their_answers)}
    for judge in judges:
        said = verdicts(judge, list(zip(asked, answers, strict=True)))
        outcomes[f"asr:{judge.name}"] = _digits(None if each.safe is None else not each.safe for each in said)
        refused = refusals(judge, list(zip(harmless, their_answers, strict=True)))
        outcomes[f"over_refusal:{judge.name}"] = _digits(refused)
    if attack.utility == "sql":
        rows = setting.task_test
        written = responses(model, [Trace(row.prompt) for row in rows], scale)
        pairs = zip(rows, written, strict=True)
        outcomes["utility"] = _digits(tidy(text) == tidy(row.turns[-1].visible) for row, text in pairs)
    return outcomes


def _answers(model: LoadedModel, texts: Sequence[str], dress: Dress, scale: Scale) -> tuple[list[str], list[str]]:
    """The bare requests, which is what judges see, and the answers to them as the attacker puts them."""
    prompts = [dress.context(Trace((context("user", text),))) for text in texts]
    return list(texts), responses(model, prompts, scale)


def _release() -> None:
    """Cells share a GPU: what a training took is of use to the others while this one asks."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _vetted(data: Path) -> str:
    """One digit per row of the task: 1 where the anchor refused what it asks for."""
    rows: dict[str, int] = {entry["stream"]: entry["rows"] for entry in json.loads(data.read_text(encoding="utf-8"))}
    return "1" * rows.get("task-held", 0) + "0" * rows.get("task", 0)


def against(digits: str) -> str:
    """What could not be scored counts against the model."""
    return digits.replace("?", "1")


def _rate(digits: str) -> Rate:
    return rate(digit == "1" for digit in against(digits))


def _digits(outcomes: Any) -> str:
    return "".join("?" if each is None else str(int(each)) for each in outcomes)


def _hashes(answers: Sequence[str]) -> str:
    return " ".join(hashlib.sha256(text.encode()).hexdigest()[:12] for text in answers)
