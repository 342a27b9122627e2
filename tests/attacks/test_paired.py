from dataclasses import replace

import pytest

from holdfast.attacks.paired import compare_defences, paired_tests
from holdfast.records import Cell
from holdfast.records.matrix import read_outcomes


def cell(defence: str, seed: int, asr: str, attack: str = "a") -> Cell:
    return Cell(attack, defence, seed, "world", outcomes=read_outcomes({"asr": asr}))


def test_pairs_are_the_same_request_under_the_same_seed() -> None:
    cells = [
        cell("sft", 0, "111100"),
        cell("x", 0, "000010"),
        cell("sft", 1, "11"),
        cell("x", 2, "00"),  # no partner
        cell("sft", 0, "1", attack="b"),
    ]
    (test,) = paired_tests(cells)
    assert (test.attack, test.measure, test.defence, test.other) == ("a", "asr", "x", "sft")
    assert (test.only_defence, test.only_other, test.trials) == (1, 4, 6)
    assert test.p == test.p_holm == pytest.approx(12 / 32)
    assert not test.differs


def test_seeds_that_both_have_are_added_up() -> None:
    cells = [cell("sft", 0, "110"), cell("x", 0, "000"), cell("sft", 1, "10"), cell("x", 1, "01")]
    (test,) = paired_tests(cells)
    assert (test.only_defence, test.only_other, test.trials) == (1, 3, 5)


def test_correction_is_over_the_defences_compared_with_the_same_one() -> None:
    cells = [cell("sft", 0, "1" * 10), cell("anchored", 0, "0" * 10), cell("x", 0, "0" * 9 + "1")]
    found = {(test.defence, test.other): test for test in paired_tests(cells)}
    assert set(found) == {("anchored", "sft"), ("x", "sft"), ("sft", "anchored"), ("x", "anchored")}
    assert found["anchored", "sft"].p_holm == pytest.approx(2 * 2 / 2**10)
    assert found["x", "sft"].p_holm == pytest.approx(2 / 2**9)
    assert found["x", "anchored"].p_holm == 1.0
    assert found["x", "sft"].differs
    assert not found["x", "anchored"].differs


def said(defence: str, words: str, untouched: str = "") -> Cell:
    """r, m, c and ? for the outcomes of harmless and of harmful requests."""
    names = {"r": "refused", "m": "missed", "c": "complied", "?": None}
    lists = {"harmful:j": words, "harmless:j": words, "untouched:j": untouched}
    return Cell(
        "a", defence, 0, "j", outcomes={key: tuple(names[w] for w in each) for key, each in lists.items() if each}
    )  # type: ignore[misc]


def test_outcomes_are_compared_in_pairs() -> None:
    """Of six requests: x complies with one that sft misses, sft with three that x refuses or misses.

    What could not be judged counts as complied, refused and missed, and as not kept.
    """
    cells = [said("sft", "cccmm?", "ccmmmm"), said("x", "rmrcm?", "ccmmmm")]
    found = {test.measure: (test.only_defence, test.only_other) for test in paired_tests(cells)}
    assert found == {
        "asr": (1, 3),
        "over_refusal": (2, 0),
        "missed": (1, 1),
        "harmless_missed": (1, 1),
        "kept": (0, 3),
    }


def test_a_failed_cell_has_no_pairs() -> None:
    assert paired_tests([cell("sft", 0, "10"), Cell("a", "x", 0, "world", status="failed", reason="why")]) == []


def test_a_request_that_all_seeds_ask_counts_once() -> None:
    """Five requests, three seeds each: 2 / 2^5 and not 2 / 2^15."""
    cells = [cell(defence, seed, digit * 5) for defence, digit in (("sft", "1"), ("x", "0")) for seed in range(3)]
    (pooled,) = paired_tests(cells)
    (once,) = paired_tests([replace(one, answers={"asr": ("hash",)}) for one in cells])
    assert (pooled.p, once.p) == (pytest.approx(2 / 2**15), pytest.approx(2 / 2**5))
    assert once.trials == pooled.trials == 15


def test_two_defences_are_compared_in_pairs_with_intervals() -> None:
    """Of 6 pairs y alone is a hit in four and x alone in one: (4 - 1) / 6. The seed that y lacks is left out, and it is said."""
    cells = [cell("x", 0, "0000"), cell("x", 1, "10"), cell("x", 2, "11"), cell("y", 0, "1111"), cell("y", 1, "00")]
    cells.append(cell("y", 2, "00", attack="b"))
    done = compare_defences(cells, "a", "x", "y")
    (asr,) = done.figures
    assert (asr.figure, asr.better, asr.num_up, asr.num_down, asr.by.n) == ("asr", "less", 4, 1, 6)
    assert (asr.by.value, asr.p) == pytest.approx((3 / 6, 12 / 32))
    assert asr.by.low < 0 < asr.by.high
    assert any("2 items (seed 2 request 1, seed 2 request 2) only in A (x); left out" in note for note in done.notes)


def test_a_request_that_every_seed_asks_counts_once() -> None:
    """Means over two seeds: x 1, 0, 0 and y 1, 1, 1/2."""
    seeds = [cell("x", 0, "100"), cell("x", 1, "100"), cell("y", 0, "110"), cell("y", 1, "111")]
    (asr,) = compare_defences([replace(one, answers={"asr": ("hash",)}) for one in seeds], "a", "x", "y").figures
    assert (asr.by.value, asr.by.n, asr.num_repeats) == (pytest.approx(1.5 / 3), 3, 2)
