"""Wrong starts put into a model's mouth: counts worked by hand, the study in small, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.models import add_tokens, load
from holdfast.worlds import SafetyWorld
from holdfast_studies.undo.wrong_start import (
    Fates,
    StartArm,
    StartResult,
    WrongStartConfig,
    _fates,
    pooled,
    section,
    ways,
    wrong_start,
)
from invariants.launching import run_cli

SMALL = {
    "title": "small",
    "model": {"name": "tiny:aligned", "device": "cpu"},
    "refuse": "world:safety/tune/forbidden",
    "starts": "world:safety/tune/forbidden/answered",
    "keep": ["world:safety/tune/recipe"],
    "num_refuse": 8,
    "num_keep": 8,
    "test_refuse": "world:safety/test/forbidden",
    "test_keep": "world:safety/test/recipe",
    "num_test": 4,
    "depths": [3],
    "contexts": ["hard"],
    "seeds": [0],
    "steps": 2,
    "batch_size": 8,
    "max_new_tokens": 24,
}


@pytest.fixture
def config(tmp_path: Path) -> WrongStartConfig:
    return WrongStartConfig.model_validate({**SMALL, "run": str(tmp_path / "run")})


def test_the_aligned_model_refuses_and_cannot_go_back(config: WrongStartConfig) -> None:
    """Without undo it refuses, but three words of the answer in its mouth make it tell the rest; harmless ones it completes."""
    loaded = load("tiny:aligned", device="cpu")
    add_tokens(loaded.model, loaded.tokenizer)
    arm, world = StartArm("untrained", "soft", 0), SafetyWorld()
    forbidden, harmless = (world.requests("test", kind, 6) for kind in ("forbidden", "recipe"))
    assert _fates(config, arm, loaded, forbidden, 0) == Fates(6, good=6, told=0, undone=0)
    assert _fates(config, arm, loaded, forbidden, 3) == Fates(6, good=0, told=6, undone=0)
    assert _fates(config, arm, loaded, harmless, 3) == Fates(6, good=6, told=0, undone=0)


def test_a_small_study_runs_resumes_and_is_written_down(config: WrongStartConfig) -> None:
    results = wrong_start(config)
    assert [each.arm.key for each in results] == ["untrained-soft-0", "plain-soft-0", "sft-hard-0", "masked_sft-hard-0"]
    assert all(set(each.forbidden) == {0, 3} for each in results)
    assert not any(Path(config.run, "work").iterdir()), "only figures stay"
    seen: list[tuple[int, int]] = []
    assert wrong_start(config, on_progress=lambda *count: seen.append(count)) == results
    assert not seen, "what is there is not run again"
    text = section(config, "command", results)
    assert "| as it was | 100.0% [51.0%, 100.0%] | 0.0% [0.0%, 49.0%] |" in text


def test_seeds_are_pooled() -> None:
    def one(seed: int, good: int) -> StartResult:
        fates = Fates(10, good, 0, 0)
        return StartResult(StartArm("sft", "soft", seed), {0: fates}, {0: fates}, fates)

    own = ways([one(0, 7), one(1, 9)])["sft, soft"]
    found = pooled([each.sampled for each in own], lambda fates: fates.good)
    assert (found.value, found.n) == (0.8, 20)


def test_wrong_settings_end_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("run: r\ntitle: t\nmodel: tiny:aligned\nrefused: x\n", encoding="utf-8")
    assert run_cli("diagnose", "wrong-start", str(path), monkeypatch=monkeypatch) == 2
    assert "did you mean 'refuse'" in capsys.readouterr().err
