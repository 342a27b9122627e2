"""configs/undo/*.yaml: each opens with its command and loads as what that command reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import ROOT
from holdfast.config import TrainConfig, load_config
from holdfast.config.safety_gap import SafetyGapConfig
from holdfast.config.undo_costs import UndoCostsConfig
from holdfast.config.wrong_start import WrongStartConfig

READ_BY = {
    "diagnose safety-gap": SafetyGapConfig,
    "diagnose undo-costs": UndoCostsConfig,
    "diagnose wrong-start": WrongStartConfig,
    "train": TrainConfig,
}
CONFIGS = sorted((ROOT / "configs" / "undo").glob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_it_opens_with_its_command_and_loads(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    command = next(name for name in READ_BY if first.startswith(f"# holdfast {name} configs/undo/{path.name}"))
    config = load_config(READ_BY[command], path)
    assert config.run.startswith("runs/undo-")
