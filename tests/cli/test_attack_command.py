"""`holdfast attack` and `holdfast report`, on the smallest matrix there is."""

import json
from pathlib import Path

import pytest
import yaml

from invariants.launching import run_cli


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "matrix.yaml"
    settings = {
        "attacks": ["harmful_examples"],
        "defences": ["untouched"],
        "seeds": [0],
        "num_requests": 12,
        "workers": 1,
    }
    path.write_text(yaml.safe_dump({"run": str(tmp_path / "run"), **settings}))
    return path


def test_attack_gives_cells_and_a_report_and_goes_on_from_there(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli("attack", str(config), "--json", "-", monkeypatch=monkeypatch) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["attack"], row["defence"], row["seed"], row["status"]) == ("harmful_examples", "untouched", 0, "ok")
    assert row["asr"] == 0  # the aligned model, as it is, refuses
    assert row["asr_low"] <= row["asr"] <= row["asr_high"]
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    (cell,) = (tmp_path / "run" / "cells").glob("*.json")
    written = cell.stat().st_mtime_ns
    assert run_cli("attack", str(config), monkeypatch=monkeypatch) == 0
    assert cell.stat().st_mtime_ns == written  # found, not run again
    assert "untouched" in capsys.readouterr().out


def test_names_that_do_not_exist_are_told(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli("attack", str(config), "defences=[anchord]", monkeypatch=monkeypatch) == 2
    assert "did you mean 'anchored'?" in capsys.readouterr().err


def test_report_of_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli("report", str(tmp_path / "nowhere"), monkeypatch=monkeypatch) == 2
    assert "no such run directory" in capsys.readouterr().err
