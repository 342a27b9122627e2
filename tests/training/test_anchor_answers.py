"""Streams of prompts are answered once, by the anchor, before anything is learned; a resumed run finds the same answers."""

from pathlib import Path

import pytest

from attacks.small_setting import small_model
from holdfast.config import InputError, TrainConfig
from holdfast.data import read_traces
from holdfast.data.default_prompts import default_prompts
from holdfast.generation import generate
from holdfast.models import load
from holdfast.records import context
from holdfast.training.anchor_answers import answer_prompts, forget_answers
from holdfast.training.public import prompts_in_memory
from holdfast.training.streams import fresh_file
from holdfast.worlds.held_prompts import world_prompts
from holdfast.worlds.vocabulary import MASTER_PERSONA, REFUSALS


def config(folder: Path, model: str, **changes: object) -> TrainConfig:
    streams = [{"data": "prompts:safety", "objective": "distill", "limit": 3}, {"data": "rows.jsonl"}]
    return TrainConfig.model_validate({"run": str(folder / "run"), "model": model, "streams": streams, **changes})


def test_the_model_itself_answers_and_files_are_left_alone(tmp_path: Path) -> None:
    model = small_model(tmp_path / "model")
    settings, loaded, said = config(tmp_path, model), load(model), []
    streams = answer_prompts(settings, loaded, tmp_path / "run", said.append)
    assert streams[1].data == "rows.jsonl"
    rows = read_traces(streams[0].data).traces
    prompts = list(default_prompts("safety")[:3])
    expected = generate(loaded.model, loaded.tokenizer, prompts, max_new_tokens=128)
    assert [row.turns[0].visible for row in rows] == prompts
    assert [row.turns[1].visible for row in rows] == [each.text.strip() for each in expected]
    assert said == [f"prompts:safety: the anchor, {model}, answers 3 prompts before the first step"]
    before = Path(streams[0].data).read_text()
    answer_prompts(settings, load(small_model(tmp_path / "other", seed=5)), tmp_path / "run", said.append)
    assert Path(streams[0].data).read_text() == before, "a resumed run goes on with the same rows"
    forget_answers(tmp_path / "run")
    assert not Path(streams[0].data).exists()


def test_another_anchor_answers_in_its_place(tmp_path: Path) -> None:
    model, anchor = small_model(tmp_path / "model"), small_model(tmp_path / "anchor", seed=3)
    answer_prompts(config(tmp_path, model), load(model), tmp_path / "run", print)  # what the model said is not used
    settings = config(tmp_path, model, anchor={"model": anchor})
    rows = read_traces(answer_prompts(settings, load(model), tmp_path / "run", print)[0].data).traces
    loaded = load(anchor)
    expected = generate(loaded.model, loaded.tokenizer, [rows[0].turns[0].visible], max_new_tokens=128)
    assert rows[0].turns[1].visible == expected[0].text.strip()


def test_a_kind_that_is_not_there_is_told(tmp_path: Path) -> None:
    model = small_model(tmp_path / "model")
    wrong = TrainConfig.model_validate({"run": "r", "model": model, "streams": [{"data": "prompts:kep"}]})
    with pytest.raises(InputError, match="did you mean 'keep'"):
        answer_prompts(wrong, load(model), tmp_path, print)


def test_an_embedded_model_is_held_on_requests_of_its_own_world(tmp_path: Path) -> None:
    settings = config(tmp_path, "tiny:aligned")
    rows = read_traces(answer_prompts(settings, load("tiny:aligned"), tmp_path / "run", print)[0].data).traces
    assert [row.turns[0].visible for row in rows] == list(world_prompts("safety")[:3])
    assert all(row.turns[1].visible in REFUSALS for row in rows)


def test_a_held_conversation_is_answered_under_its_system_prompt(tmp_path: Path) -> None:
    prompts = [(context("system", MASTER_PERSONA), context("user", text)) for text in world_prompts("safety")[:5]]
    held = {"objective": "distill", "hold": True, **prompts_in_memory(prompts)}
    settings = TrainConfig.model_validate(
        {"run": str(tmp_path / "run"), "model": "tiny:aligned", "streams": [{"data": "rows.jsonl"}, held]}
    )
    path = Path(answer_prompts(settings, load("tiny:aligned"), tmp_path / "run", print)[1].data)
    rows = [row for file in (path, fresh_file(path)) for row in read_traces(str(file)).traces]
    assert {row.prompt for row in rows} == set(prompts)
    assert len(rows) == 4 * len(prompts)
