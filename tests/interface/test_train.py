"""``hf.train`` on rows in memory: the same files as the command writes, resumed, and refused for other rows."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from transformers import TrainerCallback

import holdfast as hf
from holdfast import objectives
from holdfast.config import InputError
from holdfast.config.training import TrainingSettings
from holdfast.heads import TokenStats
from holdfast.models import load, tiny_path
from holdfast.training.public import OTHER_NAMES
from holdfast.worlds import SafetyWorld

ROWS = [
    {"prompt": row.turns[0].visible, "completion": row.turns[-1].visible}
    for row in SafetyWorld().requests("tune", "guide", 12)
]
QUICK: dict[str, Any] = {"lr": 1e-3, "batch_size": 8, "progress": False, "say": lambda _: None}


def test_rows_in_memory_train_resume_and_are_known_again(tmp_path: Path) -> None:
    streams = [hf.Stream(iter(ROWS), "sft"), *hf.held("keep", ["copy : sun river stone"])]
    result = hf.train("tiny:aligned", streams, run=tmp_path / "run", **QUICK)
    assert (result.num_steps, result.interrupted, result.run) == (4, False, tmp_path / "run")
    assert hf.report(result) == tmp_path / "run" / "report.html"
    assert hf.card(result) == result.model / "README.md"
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["streams"][0]["data"].startswith("memory: 12 rows, sha256 ")
    assert config["streams"][1]["data"] == "prompts:keep"
    said: list[str] = []
    again = [hf.Stream(ROWS, "sft"), *hf.held("keep", ["copy : sun river stone"])]
    assert hf.train("tiny:aligned", again, run=tmp_path / "run", **{**QUICK, "say": said.append}).num_steps == 4
    assert said == [f"trained already: {result.model}"]
    with pytest.raises(InputError, match="started with other settings"):
        hf.train("tiny:aligned", [hf.Stream(ROWS[1:], "sft"), *again[1:]], run=tmp_path / "run", **QUICK)


def test_a_model_can_be_held_on_skills_too(tmp_path: Path) -> None:
    assert [stream.name for stream in hf.held()] == ["safety", "keep"], "skills are an option"
    streams = [hf.Stream(ROWS, "sft"), *(replace(held, limit=8) for held in hf.held("safety", "keep", "skills"))]
    result = hf.train("tiny:aligned", streams, run=tmp_path / "run", **QUICK)
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert [stream["data"] for stream in config["streams"][1:]] == ["prompts:safety", "prompts:keep", "prompts:skills"]
    steps = [json.loads(line) for line in (tmp_path / "run" / "steps.jsonl").read_text().splitlines()]
    assert result.num_steps == len(steps) == 6
    assert all(step["streams"]["skills"]["tokens"] > 0 for step in steps)
    assert steps[0]["streams"]["skills"]["loss"] < steps[-1]["streams"]["skills"]["loss"], (
        "it is its own anchor at first"
    )


def test_two_lists_are_held_with_weights_of_their_own_near_a_finished_run(tmp_path: Path) -> None:
    anchor = hf.train("tiny:aligned", hf.Stream(ROWS), run=tmp_path / "anchor", **QUICK)
    streams = [hf.Stream(ROWS), *hf.held(["copy : sun"], weight=5), *hf.held(["copy : stone"], weight=1)]
    hf.train("tiny:aligned", streams, run=tmp_path / "run", anchor=anchor, **QUICK)
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert [(stream["name"], stream["weight"]) for stream in config["streams"][1:]] == [("held-0", 5), ("held-1", 1)]
    assert config["anchor"]["model"] == str(anchor.model)
    with pytest.raises(InputError, match=r"hf.train: anchor: model: expected .*, got a int"):
        hf.train("tiny:aligned", streams, run=tmp_path / "other", anchor=3, **QUICK)


def test_the_same_rows_from_a_file_give_the_same_weights(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    from holdfast.data import read_rows, write_traces

    write_traces(tmp_path / "rows.jsonl", read_rows(ROWS).traces)
    one = hf.train("tiny:aligned", hf.Stream(ROWS), run=tmp_path / "memory", **QUICK)
    two = hf.train("tiny:aligned", hf.Stream(tmp_path / "rows.jsonl"), run=tmp_path / "file", **QUICK)
    first, second = (load_file(run.model / "model.safetensors") for run in (one, two))
    assert all((first[name] == second[name]).all() for name in first)


@pytest.mark.parametrize(
    ("streams", "more", "said"),
    [
        (hf.Stream(ROWS, "stf"), {}, "did you mean 'sft'"),
        (hf.Stream(ROWS), {"lrr": 1e-3}, "hf.train: field 'training.lrr': unknown; did you mean 'lr'"),
        (hf.Stream([{"a": "b"}]), {}, "memory: expected the columns of one format"),
        (hf.Stream([ROWS[0], "text"]), {}, "memory:2: expected a dict, got str"),  # type: ignore[list-item]
        ([], {}, "at least one stream"),
        (hf.Stream(ROWS), {"run": ""}, "hf.train: run: expected a path, got an empty text"),
        (hf.Stream(ROWS), {"run": None}, "hf.train: run: expected a path, got a value of type NoneType"),
        (ROWS, {}, 'streams: expected a list of hf.Stream, got a list of dict; write hf.Stream(rows, "sft")'),
        ("r.jsonl", {}, "streams: expected a list of hf.Stream, got 'r.jsonl'; write hf.Stream('r.jsonl', \"sft\")"),
        (None, {}, "streams: expected a list of hf.Stream, got a value of type NoneType"),
        ([hf.Stream(ROWS), hf.held("keep")], {}, "streams: a list within a list; write *hf.held(...)"),
        (hf.Stream([]), {}, "hf.Stream: expected at least one row, got no rows"),
        (hf.Stream(ROWS, limit=0), {}, "memory: limit: expected 1 or more, got 0"),
        (hf.Stream(ROWS, skip_bad=-1), {}, "memory: skip_bad: expected 0 or more, got -1"),
        (hf.held(["safety", "keep"]), {}, 'for the shipped sets write hf.held("safety", "keep")'),
        (hf.held([{"prompt": "hello"}]), {}, "hf.held: expected a list of texts, got a dict in it"),  # type: ignore[list-item]
        (hf.Stream(ROWS), {"report_to": "tensorbord"}, "unknown 'tensorbord'; did you mean 'tensorboard'"),
        (hf.held([]), {}, "hf.held: expected at least one prompt, got an empty list"),
        (hf.Stream(ROWS), {"gradient_accumulation_steps": 4}, "unknown; did you mean 'batch_size'?"),
        (hf.Stream(ROWS), {"learning_rate": 1e-3}, "field 'training.learning_rate': unknown; did you mean 'lr'?"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streams: Any, more: Any, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        hf.train("tiny:aligned", streams, **{"run": tmp_path / "run", **QUICK, **more})
    assert said in str(error.value)
    assert not list(tmp_path.iterdir())


def test_settings_may_be_numbers_of_numpy_and_torch_and_paths(tmp_path: Path) -> None:
    settings = QUICK | {"lr": np.float32(0.5), "batch_size": np.int64(8), "epochs": torch.tensor(1.0)}
    run = hf.train({"name": tiny_path("tiny:aligned")}, hf.Stream(ROWS), run=tmp_path / "run", **settings)
    config = yaml.safe_load((run.run / "config.yaml").read_text())
    assert [config["training"][name] for name in ("lr", "batch_size", "epochs")] == [0.5, 8, 1.0]


def test_empty_settings_of_lora_are_lora(tmp_path: Path) -> None:
    for name, lora in (("empty", {}), ("true", True)):
        run = hf.train("tiny:aligned", hf.Stream(ROWS), run=tmp_path / name, lora=lora, **QUICK)
        assert (run.model / "adapter_config.json").is_file()
    assert hf.train("tiny:aligned", hf.Stream(ROWS), run=tmp_path / "no", lora=False, **QUICK).num_steps
    assert not (tmp_path / "no/model/adapter_config.json").exists()


def test_a_loaded_model_is_not_taken_for_a_name(tmp_path: Path) -> None:
    loaded = load("tiny:aligned")
    for model, kind in ((loaded, "LoadedModel"), (loaded.model, "LlamaForCausalLM"), (None, "NoneType")):
        with pytest.raises(
            InputError, match=rf"hf.train: model: expected a name, a path or a finished run, got a {kind}"
        ):
            hf.train(model, hf.Stream(ROWS), run=tmp_path / "run")
        with pytest.raises(InputError, match=rf"hf.attack: model: expected .*, got a {kind}"):
            hf.attack(model, attacks=["backdoor"], defences=["sft"], run=tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_shipped_set_spelt_wrongly_is_told_where_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'safty': no such file; .* did you mean 'safety'\?"):
        hf.held("safty")
    (tmp_path / "safty").write_text("copy : sun\n")
    (stream,) = hf.held(tmp_path / "safty")
    assert stream.rows == f"prompts:{tmp_path / 'safty'}", "a file may have any name"


def test_a_finished_run_says_that_the_code_of_an_objective_is_not_looked_at_where_it_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever edits the class and calls again gets the model of the old one."""

    class Mine:
        __module__ = "mine"

        def __call__(self, stats: TokenStats) -> torch.Tensor:
            return -stats.logp

    monkeypatch.setitem(objectives.REGISTRY, "mine", objectives.Objective("mine", Mine(), reads=("logp",)))
    said: list[str] = []
    for _ in range(2):
        result = hf.train("tiny:aligned", hf.Stream(ROWS[:2], "mine"), run=tmp_path, **{**QUICK, "say": said.append})
    assert said[-1] == f"trained already: {result.model} (if you have changed mine since, choose another run)"


MINE = """
SCALE = 1.0

def scaled(stats):
    return -SCALE * stats.logp

def mine(stats, *, power=1.0):
    return scaled(stats) * power
"""


def test_a_run_does_not_go_on_with_other_code_of_an_objective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tune(source: str) -> None:
        own: dict[str, Any] = {"__name__": "mine"}
        exec(source, own)
        monkeypatch.setitem(objectives.REGISTRY, "mine", objectives.Objective("mine", own["mine"], reads=("logp",)))
        how = {**QUICK, "say": said.append, "batch_size": 1, "save_every": 1}
        hf.train("tiny:aligned", hf.Stream(ROWS[:2], "mine"), run=tmp_path / "run", callbacks=callbacks, **how)

    said: list[str] = []
    callbacks: list[Any] = [_Killed()]
    with pytest.raises(RuntimeError, match="killed"):
        tune(MINE)
    callbacks.clear()
    for old, new in (("SCALE = 1.0", "SCALE = 1.5"), ("-SCALE", "SCALE"), ("power=1.0", "power=2.0")):
        with pytest.raises(InputError) as told:
            tune(MINE.replace(old, new))
        assert str(told.value) == (
            f"{tmp_path / 'run'}: this run was started with other code of the objective 'mine'; choose another run:,"
            " or restore the code"
        )
    tune(MINE.replace("def scaled", "# less likely, more loss\n\ndef scaled"))
    assert any("resuming from" in line for line in said)
    tune(MINE)
    assert said[-1] == f"trained already: {tmp_path / 'run' / 'model'}"
    with pytest.raises(InputError, match="other code of the objective 'mine'"):
        tune(MINE.replace("-SCALE", "SCALE"))
    (tmp_path / "run" / "own_code.json").write_text("{")
    with pytest.raises(InputError, match=r"own_code\.json: is damaged; delete it"):
        tune(MINE)


class _Killed(TrainerCallback):
    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == 1:
            raise RuntimeError("killed")


def test_what_other_trainers_call_a_setting_is_a_setting_here() -> None:
    assert set(OTHER_NAMES.values()) <= TrainingSettings.model_fields.keys()
    assert not OTHER_NAMES.keys() & TrainingSettings.model_fields.keys()
