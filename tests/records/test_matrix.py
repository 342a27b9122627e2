"""Cells: files of this version and of the one that kept outcomes as digits, and seeds pooled by request or not."""

import json
from dataclasses import replace

import pytest

from holdfast.records import Cell, Outcomes, pooled_cells
from holdfast.stats import Estimate, share_of_repeats, wilson

CELL = Cell(
    "a",
    "d",
    3,
    "phrases",
    asr=wilson(1, 3),
    over_refusal=wilson(0, 2),
    outcomes={"asr": (True, False, False), "asr:phrases": (None, False, False), "over_refusal": (False, False)},
    answers={"asr": ("ab12", "cd34", "ef56"), "over_refusal": ("0011", "2233")},
    kl_by_position=(0.5, 0.25),
    seconds=1.5,
    tuning_seconds=1.0,
)


def test_a_cell_survives_json() -> None:
    for cell in (CELL, Cell("a", "d", 0, "world", status="failed", reason="why")):
        read = Cell.from_json(json.loads(json.dumps(cell.to_json())))
        assert (read, read.tuning_seconds) == (cell, cell.tuning_seconds)
    assert CELL.to_json()["outcomes"]["asr:phrases"] == [None, False, False]
    assert CELL.to_json()["asr"].items() >= {"value": 1 / 3, "hits": 1, "trials": 3}.items()


def test_files_that_kept_outcomes_as_digits_are_still_read() -> None:
    """As written before outcomes were lists: digits, the answers' hashes among them, no method."""
    share = wilson(1, 3)
    numbers = {"value": share.value, "low": share.low, "high": share.high, "hits": 1, "trials": 3}
    none = {"value": 0.0, "low": 0.0, "high": wilson(0, 2).high, "hits": 0, "trials": 2}
    old = {
        "attack": "a",
        "defence": "d",
        "seed": 3,
        "judge": "phrases",
        "asr": numbers,
        "over_refusal": none,
        "utility": None,
        "outcomes": {
            "asr:answers": "ab12 cd34 ef56",
            "over_refusal:answers": "0011 2233",
            "asr:phrases": "?00",
            "asr": "100",
            "over_refusal": "00",
        },
        "kl_by_position": [0.5, 0.25],
        "seconds": 1.5,
        "status": "ok",
        "reason": "",
    }
    read = Cell.from_json(old)
    assert read.outcomes == CELL.outcomes
    assert read.answers == CELL.answers
    assert read.asks_again
    assert read.asr == replace(share, method="")
    assert read.asr == Estimate(share.value, share.low, share.high, 3, "", 1)


def test_an_old_cell_says_not_refused_and_has_nothing_beside_it() -> None:
    """Its first judge's word is ``asr``. Only the embedded world's oracle meant complied by it."""
    assert (CELL.tells_outcomes, replace(CELL, judge="world").tells_outcomes) == (False, True)
    assert CELL.hits("asr") == (True, False, False)
    assert CELL.hits("asr:phrases") == (None, False, False)
    assert CELL.counted("asr:phrases") == (True, False, False)
    assert (CELL.hits("missed"), CELL.hits("kept"), CELL.judges) == ((), (), ("phrases",))
    old = {name: value for name, value in CELL.to_json().items() if name not in ("missed", "harmless_missed", "kept")}
    assert Cell.from_json(old) == CELL


def test_shares_of_outcomes_by_hand() -> None:
    """Four harmful requests: complied, refused, missed, none. Three harmless: refused, complied, missed; before: the first
    two the same, the third complied.
    """
    outcomes: dict[str, Outcomes] = {
        "harmful:outcome": ("complied", "refused", "missed", None),
        "harmless:outcome": ("refused", "complied", "missed"),
        "untouched:outcome": ("refused", "complied", "complied"),
        "asr:phrases": (True, False, True, True),
        "utility": (True, False),
    }
    cell = Cell("a", "d", 0, "outcome", outcomes=outcomes).with_shares()
    assert cell.tells_outcomes
    assert cell.judges == ("outcome", "phrases")
    assert cell.hits("asr") == cell.hits("asr:outcome") == (True, False, False, None)
    assert cell.counted("asr:phrases") == (True, False, True, True)
    found = (cell.asr, cell.missed, cell.over_refusal, cell.harmless_missed, cell.kept, cell.utility)
    assert found == (wilson(2, 4), wilson(2, 4), wilson(1, 3), wilson(1, 3), wilson(2, 3), wilson(1, 2))
    assert Cell.from_json(json.loads(json.dumps(cell.to_json()))) == cell
    assert cell.to_json()["outcomes"]["harmful:outcome"] == ["complied", "refused", "missed", None]
    assert (cell.row()["kept"], cell.row()["missed_trials"]) == (2 / 3, 4)


def test_what_is_no_outcome_is_no_cell() -> None:
    for wrong in ("12", ["complied", "answered"]):
        with pytest.raises(KeyError):
            Cell.from_json({**CELL.to_json(), "outcomes": {"asr": wrong}})


def test_the_flat_row() -> None:
    row = CELL.row()
    assert (row["asr"], row["asr_low"], row["asr_trials"]) == (1 / 3, wilson(1, 3).low, 3)
    assert (row["utility"], row["utility_trials"]) == (None, None)
    assert row["outcomes"]["asr"] == [True, False, False]
    assert json.loads(json.dumps(row)) == row


def test_cells_of_a_real_model_are_pooled_by_request_and_those_of_the_world_are_not() -> None:
    hits = (True, True, False, False)
    world = [Cell("a", "d", seed, "j", asr=wilson(2, 4), outcomes={"asr": hits}) for seed in (0, 1)]
    real = [replace(cell, answers={"asr": ("x",) * 4}) for cell in world]
    assert pooled_cells(world, "asr") == wilson(4, 8)
    assert pooled_cells(real, "asr") == share_of_repeats([hits, hits])
    assert pooled_cells(world, "utility") is None
