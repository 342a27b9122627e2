import random

from holdfast.attacks.worst import worst_cases
from holdfast.records import Cell
from holdfast.records.matrix import read_outcomes


def cell(attack: str, asr: str, seed: int = 0, defence: str = "d") -> Cell:
    return Cell(attack, defence, seed, "world", outcomes=read_outcomes({"asr": asr}))


def test_each_half_is_counted_under_the_variant_that_the_other_chose() -> None:
    """Even requests: a 3 of 3, b 0. Odd ones: b 2 of 3, a 0. Even ones choose a, which gets 0 of 3 odd ones; and b 0 of 3."""
    (worst,) = worst_cases([cell("x@a", "101010"), cell("x@b", "010100"), cell("plain", "111111")])
    assert (worst.attack, worst.defence, worst.num_variants) == ("x", "d", 2)
    assert (worst.asr.hits, worst.asr.n) == (0, 6)
    assert set(worst.chosen) == {"x@a", "x@b"}


def test_a_variant_that_is_worst_everywhere_is_the_worst() -> None:
    cells = [cell("x@a", "1101", 0), cell("x@a", "1111", 1), cell("x@b", "0000", 0), cell("x@b", "1000", 1)]
    (worst,) = worst_cases(cells)
    assert (worst.asr.hits, worst.asr.n, worst.chosen) == (7, 8, ("x@a",))


def test_equal_variants_are_not_flattered_by_the_maximum() -> None:
    """Twenty variants of one true rate, 30 %: their maximum would say 37 %, the halves say about 30 %."""
    rng = random.Random(0)
    cells = [cell(f"x@{v}", "".join(str(int(rng.random() < 0.3)) for _ in range(600))) for v in range(20)]
    (worst,) = worst_cases(cells)
    assert max(each.outcomes["asr"].count(True) / 600 for each in cells) > 0.33
    assert worst.asr.low < 0.3 < worst.asr.high


def test_a_variant_without_all_seeds_is_left_out() -> None:
    cells = [cell("x@a", "00", 0), cell("x@a", "00", 1), cell("x@b", "11", 0)]
    (worst,) = worst_cases(cells)
    assert (worst.num_variants, worst.asr.hits) == (1, 0)
    assert worst_cases([cell("x@a", "0", 0), cell("x@b", "1", 1)]) == []


def test_a_request_that_every_seed_asked_is_in_one_half() -> None:
    """Three requests, an odd number: laid end to end, the second seed would count what the first one chose by.

    By places 0 and 2, a (4) beats b (2); by place 1, b (2) beats a (0): place 1 is counted under a, 0 and 2 under b.
    """
    cells = [cell("x@a", "101", seed) for seed in (0, 1)]
    cells += [cell("x@b", "110", 0), cell("x@b", "011", 1)]
    (worst,) = worst_cases(cells)
    assert (worst.asr.hits, worst.asr.n) == (2, 6)


def test_seeds_that_asked_the_same_requests_count_once() -> None:
    (new,) = worst_cases([cell("x@a", "1100", seed) for seed in (0, 1)])
    real = [
        Cell("x@a", "d", seed, "j", outcomes=read_outcomes({"asr": "1100"}), answers={"asr": ("x",)}) for seed in (0, 1)
    ]
    (again,) = worst_cases(real)
    assert again.asr.high - again.asr.low > 1.2 * (new.asr.high - new.asr.low)


def test_what_is_missed_and_kept_is_that_of_the_chosen_variants() -> None:
    """b is never chosen: what it missed and kept has no part in it."""
    kept = {"harmless:outcome": ("complied", "refused"), "untouched:outcome": ("complied", "complied")}
    lost = {"harmless:outcome": ("missed", "missed"), "untouched:outcome": ("complied", "complied")}
    a = Cell("x@a", "d", 0, "outcome", outcomes={"harmful:outcome": ("complied",) * 3 + ("missed",), **kept})
    b = Cell("x@b", "d", 0, "outcome", outcomes={"harmful:outcome": ("missed",) * 4, **lost})
    (worst,) = worst_cases([a.with_shares(), b.with_shares()])
    assert worst.chosen == ("x@a",)
    assert worst.missed is not None
    assert worst.kept is not None
    assert (worst.asr.hits, worst.missed.hits, worst.kept.hits) == (3, 1, 1)
    assert worst.tells_outcomes
    assert worst.to_json()["kept"]["value"] == 0.5
    (old,) = worst_cases([Cell("x@a", "d", 0, "learned", outcomes=read_outcomes({"asr": "10"}))])
    assert (old.tells_outcomes, old.missed, old.to_json()["missed"]) == (False, None, None)
