"""Figures of other settings are never shown as those of a study."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config import InputError, load_config
from holdfast.config.base import Settings
from holdfast_studies.decisions.config import DecisionStudyConfig
from holdfast_studies.decisions.decision_study import run_study
from holdfast_studies.study_folder import claim_study
from holdfast_studies.undo.safety_gap import safety_gap
from holdfast_studies.undo.safety_gap_config import SafetyGapConfig
from holdfast_studies.undo.undo_costs import UndoCostsConfig, undo_costs
from holdfast_studies.undo.wrong_start import WrongStartConfig, wrong_start

CONFIGS = Path(__file__).parents[3] / "studies" / "configs"


@pytest.mark.parametrize(
    ("kind", "file", "change", "said", "study"),
    [
        (SafetyGapConfig, "undo/world.yaml", "skip_test=7", "skip_test: 100 there, 7 now", safety_gap),
        (WrongStartConfig, "undo/wrong_start.yaml", "lr=0.5", "lr: .* there, 0.5 now", wrong_start),
        (UndoCostsConfig, "undo/costs.yaml", "rl.steps=7", "rl.steps: .* there, 7 now", undo_costs),
        (DecisionStudyConfig, "arithmetic/micro.yaml", "base.lr=0.5", "base.lr: .* there, 0.5 now", run_study),
    ],
)
def test_every_study_refuses_a_folder_of_other_settings(kind, file, change, said, study, tmp_path):
    claim_study(read(kind, file, tmp_path), str(tmp_path))
    (tmp_path / "arms").mkdir()
    with pytest.raises(InputError, match=f"study.yaml: the figures here were made with other settings.*\n  {said}$"):
        study(read(kind, file, tmp_path, change))


def test_more_of_the_same_is_no_other_study(tmp_path):
    claim_study(read(DecisionStudyConfig, "arithmetic/micro.yaml", tmp_path), str(tmp_path))
    (tmp_path / "seed-0").mkdir()
    more = ("seeds=[7]", "workers=3", "device=cpu", "variants.more={sizes: [2x1], phase: {steps: 1}}")
    claim_study(read(DecisionStudyConfig, "arithmetic/micro.yaml", tmp_path, *more), str(tmp_path))
    assert "more:" in (tmp_path / "study.yaml").read_text(encoding="utf-8")


def test_a_study_that_never_began_may_be_mended(tmp_path):
    claim_study(read(UndoCostsConfig, "undo/costs.yaml", tmp_path, "model=nowhere"), str(tmp_path))
    claim_study(read(UndoCostsConfig, "undo/costs.yaml", tmp_path, "model=tiny:aligned"), str(tmp_path))
    assert "tiny:aligned" in (tmp_path / "study.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("change", ["seeds=[]", "contexts=[]"])
def test_a_study_of_nothing_is_refused(change, tmp_path):
    with pytest.raises(InputError, match=change.partition("=")[0]):
        read(WrongStartConfig, "undo/wrong_start.yaml", tmp_path, change)


def read(kind: type[Settings], file: str, run: Path, *changes: str) -> Settings:
    return load_config(kind, CONFIGS / file, [f"run={run}", *changes])
