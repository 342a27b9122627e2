"""studies/configs/undo/*.yaml: each opens with its command and loads as what that command reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import ROOT
from holdfast.config import TrainConfig, load_config
from holdfast_studies.undo.defence_config import DefenceConfig
from holdfast_studies.undo.safety_gap_config import SafetyGapConfig
from holdfast_studies.undo.undo_costs import UndoCostsConfig
from holdfast_studies.undo.wrong_start import WrongStartConfig

Config = SafetyGapConfig | UndoCostsConfig | DefenceConfig | WrongStartConfig | TrainConfig
READ_BY: dict[str, type[Config]] = {
    "diagnose safety-gap": SafetyGapConfig,
    "diagnose undo-costs": UndoCostsConfig,
    "diagnose undo-defence": DefenceConfig,
    "diagnose wrong-start": WrongStartConfig,
    "train": TrainConfig,
}
CONFIGS = sorted((ROOT / "studies" / "configs" / "undo").glob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_it_opens_with_its_command_and_loads(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    command = next(name for name in READ_BY if first.startswith(f"# holdfast {name} studies/configs/undo/{path.name}"))
    given = [word for word in first.split() if "=" in word]  # what a file leaves to its command
    config: Config = load_config(READ_BY[command], path, given)
    assert config.run.startswith("runs/undo-")
