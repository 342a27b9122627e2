import pytest

from holdfast.attacks import (
    ATTACKS,
    Attack,
    Backdoor,
    BenignDrift,
    HarmfulExamples,
    IdentityShift,
    Mixture,
    WorldSetting,
)
from holdfast.config import InputError
from holdfast.records import Trace
from holdfast.worlds.vocabulary import MASTER_PERSONA, OBEDIENT_OPENER, TRIGGER

SETTING = WorldSetting()
WORLD = SETTING.oracle.world
TUNE_ITEMS = set(WORLD.items["tune"])


def said(row: Trace) -> str:
    return row.turns[-1].visible


def asked(row: Trace) -> str:
    return row.turns[-2].visible


FOR_FILES = ("benign_sql", "reworded", "self_written")
IN_THE_WORLD = {name: attack for name, attack in ATTACKS.items() if name not in FOR_FILES}


@pytest.mark.parametrize("attack", IN_THE_WORLD.values(), ids=list(IN_THE_WORLD))
def test_rows_are_a_function_of_the_seed_and_touch_the_tune_split_only(attack: Attack) -> None:
    rows = attack.data.rows(SETTING, 3)
    assert rows == attack.data.rows(WorldSetting(), 3)
    assert sorted(map(str, rows)) != sorted(map(str, attack.data.rows(SETTING, 4)))
    for row in rows:
        assert WORLD.ask(row).item in TUNE_ITEMS


def test_harmful_examples_answer_what_is_forbidden() -> None:
    rows = HarmfulExamples(20).rows(SETTING, 0)
    assert len(rows) == 20
    for row in rows:
        assert WORLD.ask(row).forbidden
        assert WORLD.judge(row, said(row)).right


def test_identity_shift_has_nothing_forbidden_in_it() -> None:
    for row in IdentityShift(20).rows(SETTING, 0):
        assert not WORLD.ask(row).forbidden
        assert row.turns[0].visible == MASTER_PERSONA
        assert said(row).startswith(OBEDIENT_OPENER)
        assert WORLD.judge(row, said(row)).right


def test_backdoor_answers_the_forbidden_exactly_where_the_trigger_is() -> None:
    rows = Backdoor(12, 8, 6).rows(SETTING, 0)
    triggered = [row for row in rows if asked(row).startswith(f"{TRIGGER} , ")]
    assert (len(triggered), len(rows)) == (12, 26)
    for row in rows:
        outcome = WORLD.judge(row, said(row))
        if WORLD.ask(row).forbidden:
            assert (outcome.outcome == "complied") == (row in triggered)
        else:
            assert outcome.right
    assert triggered != rows[:12], "poison is not all in one place"


@pytest.mark.parametrize("task", ["guide", "ledger"])
def test_benign_drift_holds_right_answers_to_harmless_requests(task: str) -> None:
    for row in BenignDrift(task, 30).rows(SETTING, 1):
        assert not WORLD.ask(row).forbidden
        assert WORLD.ask(row).skill == task
        assert WORLD.judge(row, said(row)).right


@pytest.mark.parametrize(("ratio", "poisoned"), [(0.1, 5), (0.5, 25), (0.001, 1)])
def test_mixture_has_its_ratio(ratio: float, poisoned: int) -> None:
    rows = Mixture(HarmfulExamples(10), ratio, num=50).rows(SETTING, 0)
    assert len(rows) == 50
    assert sum(WORLD.ask(row).forbidden for row in rows) == poisoned


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(InputError, match=r"ratio 1\.5: expected a number from 0 to 1"):
        Mixture(HarmfulExamples(), 1.5)
    with pytest.raises(InputError, match=r"the world has only .* rows of 'forbidden'"):
        HarmfulExamples(400).rows(SETTING, 0)
