"""`holdfast attack` and `holdfast report`, on the smallest matrix there is."""

import json
from pathlib import Path

import pytest
import yaml

from attacks.small_setting import files, small_model
from invariants.launching import run_cli


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "matrix.yaml"
    settings = {
        "attacks": ["harmful_examples"],
        "defences": ["untouched"],
        "seeds": [0],
        "num_requests": 12,
        "adaptive": {"lrs": [0.001, 0.002]},
        "workers": 1,
    }
    path.write_text(yaml.safe_dump({"run": str(tmp_path / "run"), **settings}))
    return path


def test_attack_gives_cells_a_report_and_a_page_and_goes_on_from_there(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, run = tmp_path / "results" / "page.md", tmp_path / "run"
    assert run_cli("attack", str(config), "--json", "-", "--write", str(page), monkeypatch=monkeypatch) == 0
    rows = json.loads(capsys.readouterr().out)
    names = [f"harmful_examples@lr={lr},epochs=12" for lr in ("0.001", "0.002")]
    assert [(row["attack"], row["defence"], row["seed"], row["status"]) for row in rows] == [
        (name, "untouched", 0, "ok") for name in names
    ]
    for row in rows:
        assert row["asr"] == 0  # the aligned model, as it is, refuses
        assert row["asr_low"] <= row["asr"] <= row["asr_high"]
        assert row["outcomes"]["harmful:world"] == ["refused"] * 12
    assert (run / "report.html").stat().st_size > 10_000
    (worst,) = json.loads((run / "worst.json").read_text())
    assert (worst["attack"], worst["num_variants"], worst["asr"]["trials"]) == ("harmful_examples", 2, 12)
    assert f"`holdfast attack {config} --json - --write {page}`" in page.read_text()
    written = {path: path.stat().st_mtime_ns for path in (run / "cells").glob("*.json")}
    assert run_cli("attack", str(config), monkeypatch=monkeypatch) == 0
    assert {path: path.stat().st_mtime_ns for path in written} == written  # found, not run again
    shown = " ".join(capsys.readouterr().out.split())
    assert "worst of 2 variants of harmful_examples on untouched" in shown
    assert "1 seed, 95 % interval" in shown


def test_cells_that_fail_are_told_and_are_no_success(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = tmp_path / "damaged" / "model.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(b"no weights")
    (weights.parent / "config.json").write_text("{}")
    wrong = ("adaptive=null", f"model={weights.parent}")
    assert run_cli("attack", str(config), *wrong, "--json", "-", monkeypatch=monkeypatch) == 1
    said = capsys.readouterr()
    (row,) = json.loads(said.out)
    assert row["status"] == "failed"
    assert "damaged" in row["reason"]
    assert "1 of 1 cells failed; the same command runs them again" in said.err


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ("model=tiny:alignd", "model 'tiny:alignd': the embedded models are tiny:base and tiny:aligned; did you mean"),
        (
            "attacks=[harmful_examples,reworded]",
            "attack 'reworded': in the embedded world nobody rewords or writes rows",
        ),
        (
            "attacks=[mixture@task=sql,share=0.05]",
            "attack 'mixture@task=sql,share=0.05': 'sql' is no task of the embedded world (it has guide, ledger)",
        ),
    ],
)
def test_what_a_matrix_lacks_is_told_before_anything_is_trained(
    wrong: str,
    line: str,
    config: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run_cli("attack", str(config), "adaptive=null", "defences=[sft]", wrong, monkeypatch=monkeypatch) == 2
    said = capfd.readouterr()
    assert said.err.startswith(f"holdfast: {line}"), "and no bar stands before it"
    assert said.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_real_models_matrix_has_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, page = small_model(tmp_path / "model"), tmp_path / "page.md"
    settings = {"attacks": ["identity_shift"], "defences": ["untouched", "sft"], "seeds": [0], "workers": 1}
    (tmp_path / "real.yaml").write_text(
        yaml.safe_dump({**settings, "run": str(tmp_path / "run"), "model": model, "files": files(tmp_path, model)})
    )
    assert run_cli("attack", str(tmp_path / "real.yaml"), "--write", str(page), monkeypatch=monkeypatch) == 0
    assert "| untouched |" in page.read_text()
    assert "exact sign flips, each request once" in capsys.readouterr().out


def test_an_unknown_engine_is_told(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli("attack", str(config), "engine=slurm", monkeypatch=monkeypatch) == 2
    assert "field 'engine'" in capsys.readouterr().err


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
