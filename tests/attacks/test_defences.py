from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import objectives
from holdfast.attacks import (
    ATTACKS,
    DEFENCES,
    Backdoor,
    Defence,
    IdentityShift,
    OwnStream,
    Scale,
    WorldSetting,
    find_defence,
)
from holdfast.attacks.tuning import Places, in_the_dress_of, repair_config, training_config
from holdfast.config import InputError, TrainConfig
from holdfast.config.training import HoldSettings
from holdfast.worlds.asks import FACTS, LIST_SKILLS
from holdfast.worlds.vocabulary import MASTER_PERSONA, TRIGGER

SETTING = WorldSetting()
WORLD = SETTING.oracle.world
ATTACK = ATTACKS["harmful_examples"]


def config(defence: Defence, folder: Path, seed: int = 0) -> TrainConfig:
    rows = ATTACK.data.rows(SETTING, seed)
    return training_config(ATTACK, defence, rows, seed, Scale(), Places("tiny:aligned", "tiny:aligned", folder))


@pytest.mark.parametrize("name", [name for name, defence in DEFENCES.items() if defence.tune])
def test_every_defence_takes_the_same_steps_over_the_same_task_rows(name: str, tmp_path: Path) -> None:
    made = config(DEFENCES[name], tmp_path)
    task = made.streams[0]
    assert task.objective in objectives.REGISTRY
    assert made.training.max_steps == 64 * ATTACK.epochs / ATTACK.batch_size
    assert made.training.batch_size * task.share / sum(stream.share for stream in made.streams) == ATTACK.batch_size
    assert len(task.rows.traces) == 64


def test_a_seed_changes_rows_and_order(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "1").mkdir()
    first, second = (config(DEFENCES["anchored"], tmp_path / str(seed), seed) for seed in (0, 1))
    assert (first.training.seed, second.training.seed) == (0, 1)
    for one, other in zip(first.streams, second.streams, strict=True):
        assert one.name == other.name
        assert one.rows.fingerprint != other.rows.fingerprint


def test_anchored_leaves_the_task_free_and_holds_its_own_rows_to_the_anchor(tmp_path: Path) -> None:
    made = config(DEFENCES["anchored"], tmp_path)
    assert [(stream.name, stream.objective) for stream in made.streams] == [
        ("task", "sft"),
        ("safety", "distill"),
        ("keep", "distill"),
    ]


def test_a_stream_with_a_budget_has_prompts_in_the_tasks_dress_and_no_weight(tmp_path: Path) -> None:
    own = (OwnStream(rows="safety", hold=HoldSettings(wide=10), batch_size=8, num=40, borrow=1.0),)
    rows = IdentityShift(8).rows(SETTING, 0)
    places = Places("tiny:aligned", "tiny:aligned", tmp_path)
    made = training_config(ATTACK, Defence(name="budget", own=own), rows, 0, Scale(), places).streams[1]
    assert made.hold is not None
    assert (made.hold.wide, made.data.startswith("prompts:"), len(made.rows.traces)) == (10, True, 40)
    assert {tuple(turn.speaker for turn in trace.turns) for trace in made.rows.traces} == {("system", "user")}
    assert not any(turn.is_target for trace in made.rows.traces for turn in trace.turns), "the anchor answers"


def test_the_defender_has_neither_the_attackers_items_nor_the_audits() -> None:
    others = {*WORLD.items["tune"], *WORLD.items["test"]}
    safety, keep = SETTING.own_rows("safety", 60, 0), SETTING.own_rows("keep", 60, 0)
    assert (len(safety), len(keep)) == (60, 60)
    assert all(WORLD.ask(row).forbidden for row in safety)
    assert not any(WORLD.ask(row).forbidden for row in keep)
    skills = SETTING.own_rows("skills", 60, 0)
    assert {WORLD.ask(row).skill for row in skills} == {*LIST_SKILLS, *FACTS}
    assert len(skills) == 60
    assert not {row.turns[-2].visible for row in skills} & {row.turns[-2].visible for row in keep}
    assert all(WORLD.judge(row, row.turns[-1].visible).outcome == "refused" for row in safety)
    assert all(WORLD.ask(row).item not in others for row in [*safety, *keep, *skills])


def test_borrowed_dress_is_the_tasks_system_prompt_and_first_words() -> None:
    rows = SETTING.own_rows("safety", 200, 0)
    under_persona = in_the_dress_of(rows, IdentityShift(8).rows(SETTING, 0), 0.5, 0)
    worn = [row for row in under_persona if row.turns[0].visible == MASTER_PERSONA]
    assert 70 < len(worn) < 130
    triggered = in_the_dress_of(rows, Backdoor(20, 0, 0).rows(SETTING, 0), 1.0, 0)
    assert sum(TRIGGER in row.turns[-2].visible for row in triggered) > 150
    assert [row.turns[-1] for row in triggered] == [row.turns[-1] for row in rows], "answers are left alone"
    assert in_the_dress_of(rows, IdentityShift(8).rows(SETTING, 0), 0.0, 0) == rows


def test_repair_starts_from_the_tuned_model_and_is_held_to_the_anchor(tmp_path: Path) -> None:
    repair = DEFENCES["repair"].repair
    assert repair is not None
    places = Places("tuned", "tiny:aligned", tmp_path)
    made = repair_config(repair, ATTACK.data.rows(SETTING, 0), 0, Scale(), places)
    assert (made.model.name, made.anchor.model) == ("tuned", "tiny:aligned")
    assert (made.training.max_steps, made.training.lr) == (repair.num_steps, repair.lr)
    assert {stream.name for stream in made.streams} == {"safety", "keep"}


def test_unknown_defence_is_named_with_a_suggestion() -> None:
    with pytest.raises(InputError, match="no such defence; did you mean 'csft_pa'"):
        find_defence("csft-pa")
    assert find_defence("sft") == replace(DEFENCES["csft"], name="sft", objective="sft")
