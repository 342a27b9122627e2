"""Cells: files of this version and of the one that kept outcomes as digits, and seeds pooled by request or not."""

import json
from dataclasses import replace

import pytest

from holdfast.records import Cell, pooled_cells
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
)


def test_a_cell_survives_json() -> None:
    for cell in (CELL, Cell("a", "d", 0, "world", status="failed", reason="why")):
        assert Cell.from_json(json.loads(json.dumps(cell.to_json()))) == cell
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


def test_what_is_no_outcome_is_no_cell() -> None:
    with pytest.raises(KeyError):
        Cell.from_json({**CELL.to_json(), "outcomes": {"asr": "12"}})


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
