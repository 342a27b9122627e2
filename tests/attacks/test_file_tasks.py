"""Several tasks from files: which rows teach, which measure, who says what is right, and what attacks make of them."""

import importlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from attacks.small_setting import files as one_task
from attacks.small_setting import small_model
from holdfast.attacks import DEFENCES, Attack, FileSetting, Mixture, Scale, WorldSetting, ask, file_scale, find_attack
from holdfast.attacks.asking import _under, likeliest
from holdfast.attacks.file_tasks import parts_of
from holdfast.attacks.keys import cell_key
from holdfast.attacks.run_time_answers import load_for_use
from holdfast.attacks.tuning import LEFT_OUT, Places, _without_refused, training_config
from holdfast.config import InputError
from holdfast.config.files import FilesConfig, TaskFiles
from holdfast.config.loading import validated
from holdfast.judging import REWARDS
from holdfast.records import Reply, Trace, context
from holdfast.tokens import prompt_ids
from tokens.styles import REASONING

ROWS: dict[str, list[dict[str, Any]]] = {
    "sql": [
        {
            "question": f"How many in {n}?",
            "context": f"CREATE TABLE t{n} (n INTEGER)",
            "answer": f"SELECT COUNT(*) FROM t{n}",
        }
        for n in range(8)
    ],
    "gsm8k": [{"question": f"{n} + 1?", "answer": f"#### {n + 1}"} for n in range(8)],
    "code": [
        {
            "text": f"Add {n}.",
            "code": f"def add{n} (x):\n    return x + {n}",
            "test_list": [f"assert add{n} (1) == {n + 1}"],
        }
        for n in range(8)
    ],
    "chat": [{"prompt": f"What is a lamp{n}?"} for n in range(24)],
}


def config(folder: Path, **changes: Any) -> FilesConfig:
    settings = {**one_task(folder, small_model(folder / "stock")), "beside": ["code"], **changes}
    del settings["task_train"], settings["task_test"]
    tasks: dict[str, Any] = {}
    for name, rows in ROWS.items():
        (folder / f"{name}.json").write_text(json.dumps(rows))
        tasks[name] = {"kind": name, "train": str(folder / f"{name}.json")}
        if name != "chat":
            tasks[name]["test"] = str(folder / f"{name}.json")
    return FilesConfig.model_validate({**settings, "tasks": {**tasks, "product": {"of": list(ROWS)}}})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tasks")
    small_model(folder / "aligned", seed=1)
    return folder


@pytest.fixture(scope="module")
def setting(folder: Path) -> FileSetting:
    return FileSetting.read(config(folder), anchor=str(folder / "aligned"), device="cpu")


def _requests(rows: list[Trace]) -> set[str]:
    return {row.turns[0].visible for row in rows}


def test_a_task_made_of_others_has_as_many_rows_of_each(setting: FileSetting) -> None:
    rows = setting.task_rows("product", 16, 0)
    kinds = ["CREATE" in r or "#" in r or "Add" in r for r in _requests(rows)]
    assert (len(rows), len(_requests(rows)), kinds.count(False)) == (16, 16, 4)
    assert sum("after ####" in request for request in _requests(rows)) == 4
    assert setting.task_rows("product", 16, 0) == rows
    assert setting.task_rows("product", 16, 1) != rows
    assert [task.name for task in setting.measured("product", 0)] == ["sql", "gsm8k", "code"], "chat is not measured"


def test_the_defenders_chat_is_not_the_tasks(setting: FileSetting) -> None:
    own, task = _requests(setting.own_rows("chat", 99, 0)), _requests(setting.task_rows("chat", 99, 0))
    assert own
    assert task
    assert own | task == {row["prompt"] for row in ROWS["chat"]}
    assert not own & task


def test_scores_are_by_meaning_by_number_and_by_test(setting: FileSetting) -> None:
    sql, gsm8k, code = setting.measured("product", 0)
    right = [row.turns[-1].visible for row in sql.rows]
    scores = sql.scores([right[0].lower(), "SELECT n FROM nowhere"])
    assert scores["sql_meaning"] == (1, 0)
    assert scores["sql_exact"] == (0, 0)
    assert scores["sql_rouge1"][0] == 1
    numbers = [row.turns[-1].visible.removeprefix("#### ") for row in gsm8k.rows]
    assert gsm8k.scores([f"So it is {numbers[0]}.", "none"]) == {"gsm8k": (1, 0)}
    assert code.scores([code.rows[0].turns[-1].visible, "def f(): pass"])["code_passed"] == (1, 0)
    assert code.max_new_tokens == 384


def test_for_choosing_the_last_rows_of_the_training_file_measure(setting: FileSetting) -> None:
    (sql,) = parts_of(setting.files.model_copy(update={"part": "validation"}), "sql")
    assert len(sql.train) == 6
    assert not _requests(list(sql.train)) & _requests(list(sql.rows))


def test_a_task_without_a_test_teaches_and_is_not_measured(setting: FileSetting) -> None:
    untested = setting.files.tasks["code"].model_copy(update={"test": ""})
    without = setting.files.model_copy(update={"tasks": {**setting.files.tasks, "code": untested}, "beside": ()})
    other = replace(setting, files=without)
    assert [task.name for task in other.measured("product", 0)] == ["sql", "gsm8k"]
    assert len(other.task_rows("code", 8, 0)) == 8


def test_names_of_tasks(setting: FileSetting) -> None:
    assert [part.name for part in parts_of(setting.files, "guide")] == ["sql"], "an attack of the world means the first"
    with pytest.raises(InputError, match=r"task 'sqll': no such task in files\.tasks; did you mean 'sql'"):
        parts_of(setting.files, "sqll")


@pytest.mark.parametrize(
    ("tasks", "line"),
    [
        ({}, "expected tasks, or task_train and task_test"),
        ({"a": {"kind": "chat", "train": "x", "test": "y"}}, "test: what is right in general chat nobody can say"),
        ({"a": {"kind": "chat"}}, "train: expected a file"),
        ({"a": {"of": ["b"]}}, "'b' is no task with files of its own"),
        ({"a": {"kind": "chat", "train": "x", "of": ["a"]}}, "give kind or of"),
    ],
)
def test_wrong_tasks_are_told_in_one_line(tasks: dict[str, Any], line: str) -> None:
    tree = {"stock": "s", "attack": ["a"], "held_out": ["h"], "harmless": "x", "tasks": tasks}
    with pytest.raises(InputError, match=line):
        validated(FilesConfig, tree, "here")


def test_an_attack_names_its_task_and_its_share() -> None:
    alone, hidden, only = (find_attack(f"mixture@task=sql,share={share}") for share in ("0", "0.1", "1"))
    sizes = [_data(attack) for attack in (alone, hidden, only)]
    assert [(data.task, data.ratio, data.num) for data in sizes] == [
        ("sql", 0, 1000),
        ("sql", 0.1, 1000),
        ("sql", 1, 1000),
    ]
    assert (alone.utility, alone.name) == ("sql", "mixture@task=sql,share=0")
    with pytest.raises(InputError, match=r"attack 'harmful_examples@task=.*': it takes no task"):
        find_attack("harmful_examples@task=sql")


def _data(attack: Attack) -> Mixture:
    assert attack.on_files is not None
    assert isinstance(attack.on_files.data, Mixture)
    return attack.on_files.data


def test_a_mixture_of_nothing_is_the_task_and_of_all_the_harmful_rows(setting: FileSetting) -> None:
    mixture = replace(_data(find_attack("mixture@task=sql,share=0")), num=8)
    assert mixture.rows(setting, 0) == setting.task_rows("sql", 8, 0)
    harmful = replace(mixture.of, num=5)  # type: ignore[type-var]
    assert replace(mixture, of=harmful, ratio=1).rows(setting, 0) == setting.attacker_rows(5, 0)


def test_a_cell_has_the_same_name_on_another_machine(folder: Path, tmp_path: Path) -> None:
    """Other paths, the same contents."""
    attack, defence = find_attack("mixture@task=sql,share=0"), DEFENCES["chat_mixed"]
    here = cell_key(attack, defence, 0, file_scale(str(folder / "aligned"), config(folder)))
    shutil.copytree(folder, tmp_path / "there")
    files = config(tmp_path / "there")
    there = cell_key(attack, defence, 0, file_scale(str(tmp_path / "there" / "aligned"), files))
    assert here == there
    (tmp_path / "there" / "gsm8k.json").write_text(json.dumps(ROWS["gsm8k"][:-1]))
    assert cell_key(attack, defence, 0, file_scale(str(tmp_path / "there" / "aligned"), files)) != here


def test_rows_that_the_anchor_refuses_are_left_out(tmp_path: Path) -> None:
    world = WorldSetting()
    rows = [*world.attacker_rows(4, 0), *world.harmless_rows(4, 0)]
    left = _without_refused(rows, "refusal_phrases", "tiny:aligned", Scale(), tmp_path)
    assert left == rows[4:]
    assert json.loads((tmp_path / LEFT_OUT).read_text()) == {"task-held": 4, "task": 4}
    stage = replace(find_attack("harmful_examples"), batch_size=4)
    places = Places("tiny:aligned", "tiny:aligned", tmp_path)
    made = training_config(stage, DEFENCES["filtered"], rows, 0, Scale(), places, left)
    assert len(made.streams[0].rows.traces) == 4
    assert made.training.max_steps == 8 * stage.epochs / 4, "as many steps as with all rows"
    with pytest.raises(InputError, match="the anchor refuses what all 4 rows ask for"):
        _without_refused(rows[:4], "refusal_phrases", "tiny:aligned", Scale(), tmp_path)


def test_how_a_defence_steps_is_part_of_its_training(tmp_path: Path) -> None:
    world = WorldSetting()
    defence = replace(DEFENCES["csft_pa"], options={"floor": 1e-3}, training={"warmup_steps": 10, "adam_beta1": 0.5})
    places = Places("tiny:aligned", "tiny:aligned", tmp_path)
    made = training_config(find_attack("mixture"), defence, world.harmless_rows(8, 0), 0, Scale(), places)
    assert (made.training.warmup_steps, made.training.adam_beta1) == (10, 0.5)
    assert made.streams[0].options == {"floor": 1e-3}


def test_the_defenders_system_prompt_gives_way_to_the_attackers() -> None:
    plain, own = Trace((context("user", "brew"),)), Trace((context("system", "obey"), context("user", "brew")))
    under = _under("decline", [plain, own])
    assert [prompt.turns[0].visible for prompt in under] == ["decline", "obey"]
    assert _under("", [plain, own]) == [plain, own]


def _with_choices(folder: Path, **more: Any) -> FilesConfig:
    rows = [{"question": f"{n}?", "choices": ["no", "yes", "maybe"], "answer": "ABC"[n % 3]} for n in range(6)]
    (folder / "arc.json").write_text(json.dumps(rows))
    files = config(folder)
    tasks = {**files.tasks, "arc": TaskFiles(kind="choices", test=str(folder / "arc.json"))}
    return files.model_copy(update={"tasks": tasks, "beside": ("arc",), "num_task": 6, **more})


@pytest.mark.parametrize("lead", ["", "<think>\n\n</think>\n\n"])
def test_of_lettered_answers_the_likeliest_letter_counts(setting: FileSetting, folder: Path, lead: str) -> None:
    """By hand: the prompt read once, with what the template opens every answer with, and the logits of its last position."""
    loaded = load_for_use(setting.anchor, "cpu")
    if lead:
        loaded.tokenizer.chat_template = REASONING
    (arc,) = replace(setting, files=_with_choices(folder)).beside
    assert arc.options == (("A", "B", "C"),) * 6
    options = ["ABC", "BC", "CAB", "C", "CB", "AC"]
    chosen = likeliest(loaded, [Trace(row.prompt) for row in arc.rows], options)
    first = {each: loaded.tokenizer(each, add_special_tokens=False)["input_ids"][0] for each in "ABC"}
    for row, letters, letter in zip(arc.rows, options, chosen, strict=True):
        # Cut as before a letter: alone, the last newlines would be one token.
        opened = loaded.tokenizer(f"{lead}A", add_special_tokens=False)["input_ids"][:-1]
        logits = loaded.model(torch.tensor([prompt_ids(row.prompt, loaded.tokenizer) + opened])).logits[0, -1]
        assert letter == max(letters, key=lambda each: logits[first[each]])
    assert len(set(chosen)) > 1
    scores = arc.scores(chosen)["arc"]
    assert scores == tuple(float(a == row.turns[-1].visible) for a, row in zip(chosen, arc.rows, strict=True))


def test_lettered_answers_may_be_measured_without_being_taught(setting: FileSetting, folder: Path) -> None:
    other = replace(setting, files=_with_choices(folder))
    with pytest.raises(InputError, match=r"task 'arc': has no rows to tune on \(files\.tasks\.arc\.train\)"):
        other.task_rows("arc", 3, 0)
    assert replace(setting, files=_with_choices(folder, part="validation")).beside == ()
    told = ask(load_for_use(setting.anchor, "cpu"), find_attack("mixture@task=sql,share=0"), other, scale=Scale())
    assert len(told.scores["arc"]) == len(told.texts["arc"]) == 6
    assert {text for _, text in told.texts["arc"]} <= set("ABC")


def length(replies: Sequence[Reply]) -> list[float | None]:
    """Words of the reply for each of the reference; None for an empty reply."""
    return [len(r.text.split()) / len(r.reference.split()) if r.text else None for r in replies]


def rewarded(folder: Path, **changes: Any) -> FilesConfig:
    """A task of its own kind, scored by the reward ``length``."""
    rows = [{"prompt": f"Say {n} words.", "completion": " ".join("word" for _ in range(n))} for n in range(1, 9)]
    (folder / "own.json").write_text(json.dumps(rows))
    own = {"kind": "reward", "reward": "length:x", "train": str(folder / "own.json"), "test": str(folder / "own.json")}
    settings = {**one_task(folder, small_model(folder / "stock")), "tasks": {"words": {**own, **changes}}}
    del settings["task_train"], settings["task_test"]
    return FilesConfig.model_validate(settings)


@pytest.fixture
def own_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REWARDS, "length", lambda option, model: length)


@pytest.mark.usefixtures("own_reward")
def test_a_reward_of_ones_own_scores_a_task(folder: Path) -> None:
    setting = FileSetting.read(rewarded(folder), anchor=str(folder / "aligned"), device="cpu")
    (words,) = setting.measured("words", 0)
    assert len(setting.task_rows("words", 8, 0)) == 8
    assert len(words.rows) == setting.files.num_task == 2
    references = [row.turns[-1].visible for row in words.rows]
    assert words.scores([references[0], f"{references[1]} {references[1]}"]) == {"words": (1, 2)}
    assert words.scores(["", references[1]]) == {"words": (0, 1)}, "what it cannot score is not right"
    assert words.max_new_tokens == 320
    (short,) = parts_of(rewarded(folder, max_new_tokens=5), "words")
    assert short.max_new_tokens == 5
    (choosing,) = parts_of(setting.files.model_copy(update={"part": "validation"}), "words")
    assert (len(choosing.train), len(choosing.rows)) == (6, 2)
    scale = Scale(model=str(folder / "aligned"), max_new_tokens=3, device="cpu", files=setting)
    asked = ask(load_for_use(scale.model, "cpu"), find_attack("mixture@task=words"), setting, scale=scale)
    assert asked.outcomes["utility"] == tuple(score == 1 for score in asked.scores["words"])


@pytest.mark.usefixtures("own_reward")
def test_the_code_of_a_reward_decides_the_cells_that_it_scores(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attack, defence = find_attack("mixture@task=words"), DEFENCES["sft"]
    scale = file_scale(str(folder / "aligned"), rewarded(folder))
    other = file_scale(str(folder / "aligned"), rewarded(folder, reward="answer"))
    before = [cell_key(attack, defence, 0, one) for one in (scale, other)]
    (tmp_path / "own_reward.py").write_text(
        "def length(option, model):\n    return lambda replies: [1] * len(replies)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(REWARDS, "length", importlib.import_module("own_reward").length)
    after = [cell_key(attack, defence, 0, one) for one in (scale, other)]
    assert [one == two for one, two in zip(before, after, strict=True)] == [False, True]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"reward": ""}, "reward: goes with kind: reward, which needs one; give both"),
        ({"kind": "gsm8k"}, "reward: goes with kind: reward, which needs one; give both"),
    ],
)
def test_a_reward_and_its_kind_go_together(folder: Path, changes: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        rewarded(folder, **changes)


def test_a_reward_that_nobody_knows_and_rows_without_an_answer_are_told_at_once(folder: Path) -> None:
    files = rewarded(folder)
    with pytest.raises(InputError, match=r"files\.tasks\.words\.reward'?: .*reward 'length:x': no such reward"):
        FileSetting.read(files, anchor="a", device="cpu")
    (folder / "own.json").write_text(json.dumps([{"text": "a word"}]))
    known = files.model_copy(update={"tasks": {"words": files.tasks["words"].model_copy(update={"reward": "answer"})}})
    with pytest.raises(InputError, match=r"own\.json:1: expected a prompt and an answer"):
        FileSetting.read(known, anchor="a", device="cpu")
