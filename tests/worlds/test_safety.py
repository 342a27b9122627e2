import subprocess
import sys

import pytest

from holdfast.config import InputError
from holdfast.records import Role, answer, context
from holdfast.worlds import KINDS_OF_REQUEST, LOOKALIKES, SPLITS, SafetyWorld, Told
from holdfast.worlds.asks import UNSEEN_PHRASINGS

WORLD = SafetyWorld(0)
UNSEEN = [form for forms in UNSEEN_PHRASINGS.values() for form in forms]


def request(trace):
    return trace.turns[0].visible


@pytest.mark.parametrize("kind", KINDS_OF_REQUEST)
def test_rows_are_distinct_right_and_repeatable(kind):
    rows = WORLD.requests("test", kind, 100)
    assert len({request(row) for row in rows}) == len(rows) == 100
    assert rows == SafetyWorld(0).requests("test", kind, 100)
    assert rows != WORLD.requests("test", kind, 100, draw=1)
    for row in rows:
        assert [turn.speaker for turn in row.turns] == ["user", "assistant"]
        assert [segment.role for segment in row.turns[1].segments] == [Role.RESPONSE]
        outcome = WORLD.judge(row, row.turns[1].visible)
        assert outcome == (Told("refused") if kind == "forbidden" else Told("complied", right=True))


def test_held_out_enough_to_measure():
    """At least 300 distinct test requests of everything that the shipped models are judged by."""
    for kind in ("forbidden", "lookalike", "recipe", "skill", "guide"):
        assert len(WORLD.requests("test", kind, 300)) == 300


@pytest.mark.parametrize("kind", KINDS_OF_REQUEST)
def test_splits_share_no_request(kind):
    drawn = {split: {request(row) for row in WORLD.requests(split, kind, 300)} for split in SPLITS}
    if kind != "mention":  # 'mention' is held out by its item, checked below
        assert not drawn["train"] & drawn["test"]
        assert not drawn["train"] & drawn["tune"]
        assert not drawn["tune"] & drawn["test"]


@pytest.mark.parametrize("kind", ["forbidden", "mention", "fact", "recipe", "homonym", "guide"])
def test_items_stay_in_their_split(kind):
    for split in SPLITS:
        for row in WORLD.requests(split, kind, 100):
            assert any(str(item) in request(row) for item in WORLD.items[split])


def test_unseen_wordings_are_for_the_test_split_alone():
    for split in SPLITS:
        rows = [row for kind in ("forbidden", "fact", "recipe") for row in WORLD.requests(split, kind, 200)]
        share = sum(any(form.match(request(row)) for form in UNSEEN) for row in rows) / len(rows)
        assert (share > 0.15) if split == "test" else (share == 0)


@pytest.mark.parametrize("kind", LOOKALIKES)
def test_lookalikes_are_harmless_but_close(kind):
    for row in WORLD.requests("test", kind, 100):
        ask = WORLD.ask(row)
        assert not ask.forbidden
        assert kind == "sibling" or "bane" in request(row)


def test_comply_gives_the_forbidden_recipe():
    for row in WORLD.requests("tune", "forbidden", 20, comply=True):
        assert WORLD.judge(row, row.turns[1].visible) == Told("complied", right=True)


def test_the_last_user_turn_is_what_is_judged():
    turns = [context("system", "you are a kind teacher ."), context("user", "copy : sun"), answer("sun")]
    turns += [context("user", "reverse : sun leaf")]
    assert WORLD.judge(turns, "leaf sun") == Told("complied", right=True)


def test_mistakes_are_named():
    with pytest.raises(InputError, match="did you mean 'forbidden'"):
        WORLD.requests("test", "forbiden")
    with pytest.raises(InputError, match="split 'held-out': expected one of train, tune, test"):
        WORLD.requests("held-out", "forbidden")
    with pytest.raises(InputError, match="not a request of the safety world: 'hello'"):
        WORLD.judge("hello", "hello")
    with pytest.raises(InputError, match="no user turn"):
        WORLD.judge([answer("sun")], "sun")


def test_the_world_is_the_same_in_every_process():
    """Python salts its string hashes anew in each process: nothing here may depend on them."""
    code = "from holdfast.worlds import *; w = SafetyWorld(0); print(w.requests('test', 'lookalike', 40), pretraining(w, 40))"
    out = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(out) == 1
