"""Every recipe opens with the command that runs it, loads, and trains; commands take recipes by name."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path

import pytest

from docs.test_commands import complaint
from holdfast import objectives
from holdfast.config import InputError, TrainConfig, load_config
from holdfast.config.matrix import MatrixConfig
from holdfast.config.recipes import FOLDER, Recipe, find_config, recipes
from holdfast.config.rl import RlConfig
from holdfast.data import read_traces
from holdfast.records import Role
from holdfast.tokens import apply_undo, find_undo_id, tokenize_all
from holdfast.worlds import SafetyWorld
from holdfast.worlds.examples import EXAMPLES, NUM_FORBIDDEN
from holdfast.worlds.tokenizer import build_tokenizer
from invariants.launching import run_cli, steps

TRAIN = [recipe for recipe in recipes().values() if recipe.command == "train"]
ATTACK = [recipe for recipe in recipes().values() if recipe.command == "attack"]
REQUIRED = re.compile(r"field '([\w.]+)': add \1=VALUE to the command, (.+)")


def named(recipe: Recipe) -> str:
    return recipe.name


def kind_of(recipe: Recipe) -> type[TrainConfig | RlConfig | MatrixConfig]:
    return MatrixConfig if recipe.command == "attack" else RlConfig if recipe.name == "rl" else TrainConfig


def required(recipe: Recipe) -> dict[str, str]:
    """The fields that a recipe's command must give, and what it says about each."""
    try:
        load_config(kind_of(recipe), recipe.path)
    except InputError as error:
        lines = str(error).splitlines()
    else:
        return {}
    found = [REQUIRED.search(line) for line in lines]
    assert all(found), lines
    return {each[1]: each[2] for each in found if each}


def test_the_folder_and_the_list_are_one_and_defended_comes_first() -> None:
    assert sorted(path.stem for path in FOLDER.rglob("*.*")) == sorted(recipes())
    assert next(iter(recipes())) == "defended"
    assert {recipe.command for recipe in recipes().values()} == {"train", "attack", "launch"}


@pytest.mark.parametrize("recipe", [*TRAIN, *ATTACK], ids=named)
def test_it_opens_with_its_command_and_says_what_it_is_for(recipe: Recipe) -> None:
    first, *lines = recipe.path.read_text(encoding="utf-8").splitlines()
    words = shlex.split(first.removeprefix("# "))
    assert words[:3] == ["holdfast", recipe.command, recipe.name]
    assert complaint(words[1:]) is None
    assert len(recipe.about) <= 105
    assert sum(line.startswith("#") for line in lines) in range(2, 6)


@pytest.mark.parametrize("recipe", [*TRAIN, *ATTACK], ids=named)
def test_its_command_gives_everything_that_it_requires(recipe: Recipe) -> None:
    first = recipe.path.read_text(encoding="utf-8").splitlines()[0]
    overrides = shlex.split(first)[4:]
    assert required(recipe).keys() <= {each.partition("=")[0] for each in overrides}
    config = load_config(kind_of(recipe), recipe.path, overrides)
    assert config.run.startswith("runs/")


def test_every_objective_has_a_recipe_of_its_name() -> None:
    for name in objectives.REGISTRY:
        config = load_config(TrainConfig, recipes()[name].path)
        assert [stream.objective for stream in config.streams] == [name]


def test_what_is_required_is_told_with_the_override_that_gives_it() -> None:
    assert set(required(recipes()["defended"])) == {"model.name", "streams.0.data"}
    about = required(recipes()["matrix_real"])
    assert "StrongREJECT" in about["files.held_out"]
    assert "github.com/paul-rottger/exaggerated-safety" in about["files.harmless"]


def test_defended_holds_a_model_to_itself_and_vets_its_rows() -> None:
    config = load_config(TrainConfig, recipes()["defended"].path, ["model.name=m", "streams.0.data=rows.jsonl"])
    assert [(stream.data, stream.objective) for stream in config.streams[1:]] == [
        ("prompts:safety", "distill"),
        ("prompts:keep", "distill"),
    ]
    assert config.streams[0].vet == "outcome"
    assert config.anchor.model is None


def in_small(recipe: Recipe, folder: Path) -> list[str]:
    """Overrides that make a recipe one step of the embedded model."""
    given = {"run": folder / "run"}
    if recipe.name == "rl":
        rows = [{"prompt": f"count : {'sun ' * number}", "answer": str(number)} for number in (1, 2)]
        (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        given |= {"model.name": "tiny:aligned", "data": folder / "questions.jsonl"}
        given |= {"rl.steps": 1, "rl.prompts_per_step": 2, "rl.group": 2, "rl.max_new_tokens": 4}
        return [f"{name}={value}" for name, value in given.items()]
    given |= {"training.max_steps": 1, "training.batch_size": 4, "streams.0.limit": 4}
    if recipe.name == "defended":
        given |= {"model.name": "tiny:aligned", "streams.0.data": "world:safety/rows"}
        given |= {"streams.1.limit": 2, "streams.2.limit": 2}
    if recipe.name == "budget":
        given |= {"streams.1.limit": 5, "streams.2.limit": 5}
    if recipe.name == "cached_anchor":
        given["anchor.cache"] = folder / "cache"
    return [f"{name}={value}" for name, value in given.items()]


@pytest.mark.parametrize("recipe", TRAIN, ids=named)
def test_it_trains_by_its_name(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if recipe.name == "rl":
        pytest.importorskip("trl", reason="pip install 'holdfast[rl]'")
    monkeypatch.chdir(tmp_path)
    assert run_cli("train", recipe.name, *in_small(recipe, tmp_path), "--quiet", monkeypatch=monkeypatch) == 0
    (row,) = steps(tmp_path / "run")
    assert math.isfinite(row["reward" if recipe.name == "rl" else "loss"])
    weights = "adapter_model" if recipe.name == "lora" else "model"
    assert (tmp_path / "run" / "model" / f"{weights}.safetensors").is_file()


def test_the_matrix_runs_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ["attacks=[harmful_examples]", "defences=[sft]", "seeds=[0]", "num_requests=4", f"run={tmp_path / 'run'}"]
    assert run_cli("attack", "matrix", *small, "--json", str(tmp_path / "cells.json"), monkeypatch=monkeypatch) == 0
    (cell,) = json.loads((tmp_path / "cells.json").read_text())
    assert (cell["attack"], cell["defence"]) == ("harmful_examples", "sft")


def test_a_name_means_the_recipe_and_a_path_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("sft", "mine.yaml"):
        Path(name).write_text("run: r")
    assert find_config("sft", "train") == recipes()["sft"].path
    assert find_config("./sft", "train") == Path("sft")
    assert find_config("mine.yaml", "train") == Path("mine.yaml")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("train defendd", "defendd: no such file, and no recipe of that name; did you mean 'defended'?"),
        ("train somewhere/sft.yml", "somewhere/sft.yml: no such file, and no recipe of that name; did you mean 'sft'?"),
        ("train qqqq", "qqqq: no such file, and no recipe of that name; `holdfast recipes` lists them"),
        ("train matrix", "matrix: this recipe is for `holdfast attack NAME`; `holdfast recipes matrix` shows it"),
        ("attack sft", "sft: this recipe is for `holdfast train NAME`; `holdfast recipes sft` shows it"),
        ("attack matrx", "matrx: no such file, and no recipe of that name; did you mean 'matrix'?"),
        ("recipes defnded", "defnded: no such recipe; did you mean 'defended'?"),
        ("train defended model.name=m", "recipe defended:9: field 'streams.0.data': add streams.0.data=VALUE"),
        ("train sft training.lrr=1", "command line: field 'training.lrr': unknown; did you mean 'lr'?"),
    ],
)
def test_wrong_names_are_one_line(
    command: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(*command.split(), monkeypatch=monkeypatch) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("holdfast: ")]
    assert line.startswith(f"holdfast: {said}")


def test_the_list_has_a_line_for_each(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli("recipes", monkeypatch=monkeypatch) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert [name for name, _ in lines] == [*recipes(), *EXAMPLES]
    assert all(about.endswith(".") for _, about in lines)


def test_a_printed_recipe_is_the_file_and_runs_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli("recipes", "defended", monkeypatch=monkeypatch) == 0
    mine = tmp_path / "mine.yaml"
    mine.write_text(capsys.readouterr().out)
    first = "# holdfast train FILE model.name=MODEL streams.0.data=rows.jsonl run=runs/mine\n"
    assert mine.read_text().startswith(first), "the command of the copy, not of the recipe"
    given = ["model.name=tiny:aligned", "streams.0.data=rows.jsonl"]
    assert load_config(TrainConfig, mine, given) == load_config(TrainConfig, recipes()["defended"].path, given)
    assert run_cli("train", str(mine), given[0], monkeypatch=monkeypatch) == 2
    assert f"{mine}:9: field 'streams.0.data': add streams.0.data=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize("name", EXAMPLES)
def test_printed_data_is_what_the_embedded_model_speaks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli("recipes", name, monkeypatch=monkeypatch) == 0
    path = tmp_path / f"{name}.jsonl"
    path.write_text(capsys.readouterr().out)
    dataset = read_traces(path)
    assert dataset.traces == EXAMPLES[name]()
    tokenizer = build_tokenizer()
    tokenizer.add_tokens(["<UNDO>"], special_tokens=True)
    assert all(tokenizer.unk_token_id not in row.ids for row in tokenize_all(dataset.traces, tokenizer)[0])


def test_a_tenth_of_the_rows_answers_what_must_be_refused() -> None:
    world = SafetyWorld()
    rows = EXAMPLES["rows"]()
    outcomes = [(world.ask(row).forbidden, world.judge(row, row.turns[-1].visible)) for row in rows]
    assert all(outcome.right for _, outcome in outcomes)
    assert sum(forbidden for forbidden, _ in outcomes) == NUM_FORBIDDEN == len(rows) / 10
    assert any(forbidden for forbidden, _ in outcomes[:20]), "they are among the others, not behind them"


def test_the_traces_take_every_error_back_token_by_token() -> None:
    tokenizer = build_tokenizer()
    tokenizer.add_tokens(["<UNDO>"], special_tokens=True)
    undo = find_undo_id(tokenizer)
    assert undo is not None
    traces = EXAMPLES["traces"]()
    rows, _ = tokenize_all(traces, tokenizer)
    assert len(rows) >= 12
    for trace, row in zip(traces, rows, strict=True):
        assert row.roles.count(Role.ERROR) == row.roles.count(Role.UNDO) > 0
        seen = tokenizer.decode(apply_undo(row.ids, undo), skip_special_tokens=True).split()
        assert seen == " ".join(turn.visible for turn in trace.turns).split()
