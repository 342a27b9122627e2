"""Shares of several seeds that asked the same requests: worked by hand, against Wilson's, and by how often they are right."""

import random
from dataclasses import replace

import pytest

from holdfast.records import Cell
from holdfast.records.shares import asked_again, pooled_cells, wilson


def test_seeds_that_agree_about_every_request_add_nothing() -> None:
    """The untouched model answers alike under every seed: 13 of 188 three times over is 13 of 188, not 39 of 564."""
    digits = "1" * 13 + "0" * 175
    once, thrice = wilson(13, 188), asked_again([digits] * 3)
    assert (thrice.low, thrice.high) == (pytest.approx(once.low), pytest.approx(once.high))
    assert (thrice.value, thrice.hits, thrice.trials) == (13 / 188, 39, 564)


def test_effective_number_by_hand() -> None:
    """1100 and 1010: means 1, .5, .5, 0 and the two added, so Var = 4 * .25 / 36, and .25 * 36 - 2 = 7 trials of 8.

    1100 twice: Var = 6 * .25 / 36, so .25 * 36 / 1.5 - 2 = 4 trials.
    """
    for seeds, expected in ((["1100", "1010"], wilson(3.5, 7)), (["1100", "1100"], wilson(2, 4))):
        found = asked_again(seeds)
        assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_one_hit_is_no_proof_that_seeds_differ() -> None:
    """Of three seeds one answered one of 200 requests: that cannot promise much less than no hit at all does."""
    none, one = asked_again(["0" * 200] * 3), asked_again(["1" + "0" * 199, "0" * 200, "0" * 200])
    assert one.high > 0.95 * none.high


def test_the_ends() -> None:
    """None of them, or all: seeds that never differed count once. Seeds that always differ are worth no more than all answers."""
    assert asked_again(["000", "000"]).high == pytest.approx(wilson(0, 3).high)
    assert asked_again(["111", "111"]).low == pytest.approx(wilson(3, 3).low)
    assert asked_again(["1100", "0011"]) == wilson(4, 8)
    alone = asked_again(["10110"])
    assert (alone.low, alone.high) == (pytest.approx(wilson(3, 5).low), pytest.approx(wilson(3, 5).high))


def test_intervals_hold_as_often_as_they_say() -> None:
    """Requests of very different difficulty under three seeds. Pooled counts would hold for about 78 %."""
    rng = random.Random(1)
    held = {"once": 0, "as if all were new": 0}
    for _ in range(400):
        hard = [rng.random() < 0.2 for _ in range(150)]
        seeds = ["".join(str(int(rng.random() < (0.85 if h else 0.03))) for h in hard) for _ in range(3)]
        truth = 0.2 * 0.85 + 0.8 * 0.03
        once, new = asked_again(seeds), wilson(sum(s.count("1") for s in seeds), 450)
        held["once"] += once.low <= truth <= once.high
        held["as if all were new"] += new.low <= truth <= new.high
    assert held["once"] >= 0.92 * 400
    assert held["as if all were new"] < 0.87 * 400


def test_cells_of_a_real_model_are_pooled_by_request_and_those_of_the_world_are_not() -> None:
    world = [Cell("a", "d", seed, "j", asr=wilson(2, 4), outcomes={"asr": "1100"}) for seed in (0, 1)]
    real = [replace(cell, outcomes={**cell.outcomes, "asr:answers": "x"}) for cell in world]
    assert pooled_cells(world, "asr") == wilson(4, 8)
    assert pooled_cells(real, "asr") == asked_again(["1100", "1100"])
    assert pooled_cells(world, "utility") is None
