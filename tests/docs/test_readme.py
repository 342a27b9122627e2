"""README.md: short, one picture, and every line for one's own model runs, in small."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from attacks.small_setting import requests, small_model
from docs.pages import ROOT, fenced, section
from docs.walking import SMALL, own_rows, run_in_small
from holdfast.config import TrainConfig, load_config
from holdfast.config.recipes import recipes

PAGE = (ROOT / "README.md").read_text(encoding="utf-8")
OWN = section(PAGE, "Your own model")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model of random weights, in the folder with the files that the page names."""
    requests(tmp_path / "requests.json", 0, 4)
    requests(tmp_path / "safe.json", 40, 4)
    own_rows(tmp_path)
    monkeypatch.chdir(tmp_path)
    return small_model(tmp_path / "model")


def test_it_is_an_invitation() -> None:
    """What it is in three lines, one picture, then how to install; a screen or three in all."""
    opening = PAGE.partition("## ")[0]
    assert len(opening.partition("![")[0].strip().splitlines()) <= 5
    assert PAGE.count("![") == opening.count("![") == 1
    assert re.findall(r"^## (.+)$", PAGE, re.MULTILINE)[:3] == ["Install", "Two commands", "Your own model"]
    assert len(PAGE.splitlines()) <= 110


def test_the_shell_lines_run(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = re.findall(r"^    (holdfast .+)$", OWN.replace("\\\n", ""), re.MULTILINE)
    assert [command.split()[1] for command in commands] == ["audit", "train", "audit", "report"]
    for command in commands:
        code = run_in_small(command, {"MODEL": model}, SMALL, monkeypatch)
        assert code in ((0, 1) if "--before" in command else (0,)), command  # random weights may come out worse
    assert json.loads((tmp_path / "runs/mine/audit.json").read_text())["bars"]
    assert (tmp_path / "runs/mine/report.html").is_file()


def test_the_python_lines_run(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As they stand, but held on two prompts instead of the package's 634."""
    (code,) = fenced(OWN, "python")
    assert len(code.splitlines()) <= 10
    shortened = code.replace('"safety", "keep"', '["Say hello."], ["Name a colour."]')
    assert shortened != code
    exec(compile(shortened.replace('"MODEL"', repr(model)), "README.md", "exec"), {})
    assert "complied (outcome)" in capsys.readouterr().out
    assert (tmp_path / "runs/python/report.html").is_file()
    assert json.loads((tmp_path / "runs/python/audit.json").read_text())["bars"]
    assert how_it_was_trained(tmp_path / "runs/python/config.yaml") == how_it_was_trained(recipes()["defended"].path)


def how_it_was_trained(config: Path) -> dict[str, Any]:
    """What the page's Python and its recipe must have in common."""
    files = ["model.name=MODEL", "streams.0.data=rows.jsonl"]
    settings = load_config(TrainConfig, config, files).model_dump()
    streams = [{key: stream[key] for key in ("objective", "share", "weight", "vet")} for stream in settings["streams"]]
    return {
        "dtype": settings["model"]["dtype"],
        "lora": settings["lora"],
        "training": settings["training"],
        "streams": streams,
    }
