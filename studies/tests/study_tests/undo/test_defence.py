"""Undo as a defence, in small: what rows are made of, what counts as exact, and a study on the embedded world."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.config import InputError
from holdfast.models import LoadedModel, load, load_tokenizer
from holdfast.records import Role
from holdfast.tokens import Encoder
from holdfast_studies.undo import defence, defence_rows
from holdfast_studies.undo.defence import Asked, DefenceArm, DefenceResult, defence_arms
from holdfast_studies.undo.defence_config import DefenceConfig
from holdfast_studies.undo.defence_page import by_title, estimate, outcome, undone
from holdfast_studies.undo.defence_rows import RESET, Material, beginnings, first_tokens, rows_for

CONFIG = """\
run: {folder}/run
title: Small
model: {{name: "tiny:aligned", device: cpu}}
stock: tiny:base
train_harmful: world:safety/tune/forbidden
train_harmless: world:safety/tune/recipe
test_harmful: world:safety/test/forbidden
test_harmless: world:safety/test/recipe
num_harmful: 8
num_harmless: 4
num_test: 4
begun: [1, 6]
depths: [2]
arms: [untouched, undo, banned, reset]
held: [undo]
hold_prompts: ["prompts:{folder}/held.txt"]
tuned: [undo]
benign: world:safety/tune/skill
num_benign: 8
benign_steps: 1
judge: world
seeds: [0]
init: mean
steps: 2
batch_size: 4
lr: 0.002
precision: fp32
eval_dtype: float32
reply_tokens: 12
sources: {{}}
"""
MADE = Material(
    (("forbidden one", "no , sorry"),),
    (("harmless one", "bell lamp"),),
    {"forbidden one": "first take a bell and a lamp"},
)


def small(**more: object) -> DefenceConfig:
    settings = {"run": "r", "title": "t", "model": "tiny:aligned", "stock": "tiny:base", "sources": {}, **more}
    return DefenceConfig.model_validate(settings)


def test_rows_of_every_arm_take_back_the_same_beginnings() -> None:
    """undo: error, undo, correction; reset: one token instead; augmented: the refusal follows, harmless rows are plain."""
    encoder, config = Encoder(load_tokenizer("tiny:aligned")), small(begun=(2, 2), copies=1)
    rows = {arm: rows_for(arm, MADE, config, encoder, 0) for arm in ("undo", "reset", "augmented")}
    segments = {
        arm: [[(segment.role, segment.text) for segment in row.turns[-1].segments] for row in made]
        for arm, made in rows.items()
    }
    begun = (Role.ERROR, first_tokens(encoder, MADE.harmful["forbidden one"], 2))
    assert [begun, (Role.UNDO, ""), (Role.CORRECTION, "no , sorry")] in segments["undo"]
    assert [begun, (Role.UNDO, ""), (Role.CORRECTION, "bell lamp")] in segments["undo"]
    assert [begun, (Role.CORRECTION, f"{RESET}no , sorry")] in segments["reset"]
    assert [begun, (Role.CORRECTION, " no , sorry")] in segments["augmented"]
    assert {arm: len(made) for arm, made in rows.items()} == {"undo": 4, "reset": 4, "augmented": 3}


def test_what_is_exact() -> None:
    """9 takes back: as many as were begun, right after them."""
    assert defence._is_exact((1, 2, 9, 9, 3), 2, 9, 2)
    assert not defence._is_exact((1, 2, 9, 3, 9), 2, 9, 2)
    assert not defence._is_exact((1, 2, 9, 9, 9), 2, 9, 2)
    assert not defence._is_exact((9, 1), 0, 9, 0)


def test_arms_that_share_a_training() -> None:
    arms = list(defence_arms(small(seeds=(0, 1))))
    assert [arm.title for arm in arms if arm.seed == 1] == [
        *("undo", "undo, then tuned", "undo, held", "undo, held, then tuned", "undo_sft"),
        *("reset", "reset, held", "augmented", "augmented, held", "banned"),
    ]
    assert sum(arm.name == "untouched" for arm in arms) == 1
    assert DefenceArm("banned", False, False, 1).training == DefenceArm("undo", False, True, 1).training


@pytest.mark.slow
def test_a_study_in_small(tmp_path: Path) -> None:
    """Two steps of training: no text is kept, and the second command reads what the first left."""
    (tmp_path / "held.txt").write_text("say again : bell lamp\nsay again : sun bell\n")
    path, page = tmp_path / "config.yaml", tmp_path / "page.md"
    path.write_text(CONFIG.format(folder=tmp_path))
    command = ["diagnose", "undo-defence", str(path), "--page", str(page)]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    results = defence.read_results(small(**_settings(path)))
    assert len(results) == 7
    ways = by_title(results)
    assert estimate(ways["untouched"], "harmful", 0, outcome("rendered", "refused")).value == 1.0
    assert estimate(ways["untouched"], "harmful", 2, outcome("rendered", "refused")).value < 1.0
    kept = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert {file.suffix for file in kept} == {".json", ".yaml"}
    assert {*json.loads(next(iter(sorted(kept))).read_text())} == {"arm", "num_rows", "harmful", "harmless"}
    text = page.read_text()
    assert text.startswith("# Undo as a defence\n")
    assert "| undo, held, then tuned |" in text
    assert CliRunner().invoke(app, command).exit_code == 0
    assert page.read_text() == text


def test_a_model_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    """The held one: its file of prompts is not there."""
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG.format(folder=tmp_path))
    wanted = ["arms=[undo,untouched]", "tuned=[]"]
    done = CliRunner().invoke(app, ["diagnose", "undo-defence", str(path), *wanted])
    assert done.exit_code == 1, done.output
    assert {file.stem for file in (tmp_path / "run" / "arms").iterdir()} == {"undo-0", "untouched-0"}
    assert "failed: undo-held-0: " in done.stderr
    assert "held.txt" in done.stderr
    assert "1 of 3 failed; the same command runs them again" in done.stderr


def test_a_mistake_of_all_models_is_wrong_input(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG.format(folder=tmp_path))
    wanted = ["arms=[undo,reset]", "held=[]", "tuned=[]", "model.name=tiny:alignd"]
    done = CliRunner().invoke(app, ["diagnose", "undo-defence", str(path), *wanted])
    assert isinstance(done.exception, InputError), "which the command line ends with exit code 2"
    assert str(done.exception).startswith("model 'tiny:alignd': ")


def _settings(path: Path) -> dict[str, object]:
    import yaml

    return dict(yaml.safe_load(path.read_text()))


def test_a_share_of_nothing_has_a_width() -> None:
    """20 requests, none complied: bootstrap alone would say 0 % [0 %, 0 %]."""
    asked = {0: Asked(("refused",) * 20, ("refused",) * 20, (0,) * 20, (False,) * 20)}
    found = estimate([DefenceResult(DefenceArm("undo", False, False, 0), 1, asked, {})], "harmful", 0, undone)
    assert found.value == found.low == 0
    assert 0.05 < found.high < 0.25


def test_wrong_benign_rows_are_told_before_anything_is_trained(tmp_path: Path) -> None:
    config = small(run=str(tmp_path / "run"), model="/no/such/model", benign="world:safety/tune/nothing")
    with pytest.raises(InputError, match="kind of request 'nothing'"):
        defence.undo_defence(config)
    assert not (tmp_path / "run").exists()


def test_a_few_requests_are_of_every_file(tmp_path: Path) -> None:
    """Not the first ones of the first file."""
    for start, name in enumerate(("one", "other")):
        texts = [f"Polish lamp{number} behind shelf{number}" for number in range(100 * start, 100 * start + 40)]
        (tmp_path / f"{name}.json").write_text(json.dumps([{"instruction": text, "from": name} for text in texts]))
    sources = {name: {"file": f"{name}.json", "origin": "made here"} for name in ("one", "other")}
    asked = small(data=str(tmp_path), sources=sources).prompts_of("files:one,other", True, 20)
    assert len(asked) == 20
    assert len({"lamp1" in text and len(text.split()[1]) == 7 for text in asked}) == 2


def test_what_a_model_says_before_training_is_asked_once_for_all_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def counted(name: str, **how: str) -> LoadedModel:
        loaded.append(name)
        return load(name, **how)

    monkeypatch.setattr(defence_rows, "load", counted)
    config = small(model={"name": "tiny:aligned", "device": "cpu"}, eval_dtype="float32", depths=(2,), begun=(1, 3))
    asked = config.prompts_of("world:safety/test/forbidden", True, 3)
    assert beginnings(config, asked) == beginnings(config, asked)
    assert loaded == ["tiny:base"]
