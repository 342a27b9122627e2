"""A model asked during its training: the three outcomes, the task and the drift from the anchor at a few steps.

Fewer requests are asked at each of these steps than at the end, in the attack's way, and only by the first judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from holdfast.attacks.asking import ask
from holdfast.attacks.attack import Attack
from holdfast.attacks.file_setting import FileSetting
from holdfast.attacks.run_time_answers import load_for_use, release
from holdfast.attacks.scale import Scale
from holdfast.config.files import CurveSettings
from holdfast.heads.answer_stats import kl_by_position
from holdfast.models import LoadedModel
from holdfast.models.eval_mode import eval_mode
from holdfast.records import BESIDE, MEASURES, Cell, CurvePoint


class Curve(TrainerCallback):
    """Asks the model after every ``1/points`` of its steps; ``points`` holds the results."""

    def __init__(self, attack: Attack, setting: FileSetting, scale: Scale, seed: int, system: str) -> None:
        assert setting.files.curve is not None
        self.settings = setting.files.curve
        self.attack, self.scale, self.seed, self.system = attack, scale, seed, system
        self.setting = _fewer(setting, self.settings)
        self.points: list[CurvePoint] = []

    @cached_property
    def anchor(self) -> LoadedModel:
        """The untouched model; its tokenizer is the tuned one's too."""
        return load_for_use(self.scale.model, self.scale.device)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """A point, if this step is one."""
        if state.global_step in curve_steps(state.max_steps, self.settings.points):
            self.points.append(self._point(model, state.global_step))
            release()

    def _point(self, model: Any, step: int) -> CurvePoint:
        name, device = f"step {step}", next(model.parameters()).device
        policy = LoadedModel(model, self.anchor.tokenizer, name, next(model.parameters()).dtype, device, name)
        judge = self.setting.judges[0]
        with eval_mode(model), torch.no_grad():
            outcomes = ask(
                policy, self.attack, self.setting, seed=self.seed, scale=self.scale, judges=[judge], system=self.system
            ).outcomes
            rows = [self.attack.dress.context(row) for row in self.setting.begun(self.seed)]
            kl = kl_by_position(policy, self.anchor, rows)
        cell = Cell(self.attack.name, name, self.seed, judge.name, outcomes=outcomes).with_shares()
        shares = {measure: getattr(cell, measure) for measure in (*MEASURES, *BESIDE)}
        return CurvePoint(step, {name: share.value for name, share in shares.items() if share is not None}, kl)


def curve_steps(num_steps: int, points: int) -> Sequence[int]:
    """``points`` steps in equal distances, the last one included; fewer where there are not so many steps."""
    return sorted({max(1, round(num_steps * number / points)) for number in range(1, points + 1)})


def _fewer(setting: FileSetting, curve: CurveSettings) -> FileSetting:
    """The first requests by hash, as many as a point asks; nothing else is measured."""
    sizes = {"num_requests": curve.num_requests, "num_task": curve.num_task, "beside": (), "asks": ()}
    return replace(setting, files=setting.files.model_copy(update=sizes))
