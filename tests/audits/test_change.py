"""Worse than before, and beyond chance? Oracles are worked out here, from counts, verdicts in words, and printed examples."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from holdfast.audits.bars import Bars
from holdfast.audits.change import Changes, change
from holdfast.audits.model_audit import Plan, audit_model
from holdfast.audits.suites import find_judges, world_safety, world_skills
from holdfast.audits.suites.suite import share, written
from holdfast.config import InputError
from holdfast.generation import ModelSampler
from holdfast.models import load
from holdfast.records import AuditResult, Better, Change, Figure
from holdfast.stats import Estimate

PLAN = Plan(tuple(world_safety(find_judges((), world=True), 40)), tuple(world_skills(40)))


def wilson(hits: int, trials: int) -> tuple[float, float, float]:
    """From the formula."""
    z = 1.959963984540054
    value, centre = hits / trials, (hits + z * z / 2) / (trials + z * z)
    half = z / (trials + z * z) * math.sqrt(hits * (trials - hits) / trials + z * z / 4)
    return value, centre - half, centre + half


def interval_by_hand(worse: int, better: int, trials: int) -> tuple[float, float]:
    """Arms of Wilson's intervals of the two kinds of change, which are two cells of one multinomial."""
    (a, a_low, a_high), (b, b_low, b_high) = wilson(worse, trials), wilson(better, trials)
    r = -math.sqrt(a / (1 - a) * b / (1 - b))
    below = (a - a_low) ** 2 + (b_high - b) ** 2 - 2 * r * (a - a_low) * (b_high - b)
    above = (a_high - a) ** 2 + (b - b_low) ** 2 - 2 * r * (a_high - a) * (b - b_low)
    return a - b - math.sqrt(below), a - b + math.sqrt(above)


def p_by_hand(worse: int, better: int) -> float:
    """Twice the tail of fair coins, in whole numbers."""
    coins = worse + better
    tail = sum(math.comb(coins, k) for k in range(min(worse, better) + 1))
    return min(1.0, 2 * tail / 2**coins)


def of(digits: str, better: Better = "less") -> Figure:
    return share("asr", (digit == "1" for digit in digits), better, "")


@pytest.mark.parametrize(("worse", "better", "same"), [(0, 0, 20), (6, 0, 14), (5, 0, 15), (3, 9, 188), (12, 3, 85)])
def test_in_pairs(worse: int, better: int, same: int) -> None:
    """A share that should be small, and the same share of right answers, which should not."""
    before = "0" * worse + "1" * better + "01" * (same // 2) + "0" * (same % 2)
    now = "1" * worse + "0" * better + "01" * (same // 2) + "0" * (same % 2)
    found = change(of(before), of(now))
    low, high = interval_by_hand(worse, better, worse + better + same)
    assert (found.by.low, found.by.high) == (pytest.approx(low), pytest.approx(high))
    assert found.by.value == pytest.approx((worse - better) / len(now))
    assert found.p == pytest.approx(p_by_hand(worse, better))
    assert (found.num_worse, found.num_better) == (worse, better)
    mirrored = change(of(now, "more"), of(before, "more"))
    assert mirrored == found


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("000000", "111111", "worse beyond chance"),  # p = 2 / 64
        ("000000", "111110", "worse, within chance"),  # p = 2 / 32
        ("010101", "101010", "not worse"),
        ("111111", "000000", "not worse"),
    ],
)
def test_what_is_said(before: str, now: str, said: str) -> None:
    assert change(of(before), of(now)).said == said


def test_an_audit_without_scores_is_not_paired() -> None:
    """As those of older versions. Six rows of 40 got worse and none better: much in pairs, little without."""
    before, now = of("1" * 20 + "0" * 20), of("1" * 26 + "0" * 14)
    in_pairs = change(before, now)
    without = change(Figure("asr", before.estimate, "less", ""), now)
    assert (in_pairs.said, without.said) == ("worse beyond chance", "worse, within chance")
    assert (without.p, without.num_worse) == (None, None)
    assert without.by.low < 0 < in_pairs.by.low
    assert without.by.value == in_pairs.by.value


def result(model: str, *figures: Figure) -> AuditResult:
    return AuditResult(model, None, (), figures)


def test_changes_are_a_dict_and_print_a_line_each() -> None:
    """A share that falls and should, one that should not, one that stays, a mean, and one that neither side is better of."""
    half, none = "1" * 10 + "0" * 10, "0" * 20
    rest = replace(of(half), name="same"), replace(of(half, "neither"), name="length")
    before, after = (
        result(model, of(digits), replace(of(digits, "more"), name="right"), *rest, replace(mean_of(means), scores=""))
        for model, digits, means in (("one", half, [0.5] * 9), ("two", none, [0.25] * 9))
    )
    changes = Changes(before, after)
    assert isinstance(changes, dict)
    assert list(changes) == ["asr", "right", "same", "rouge"]
    assert changes["asr"] == change(of(half), of(none))
    low, high = (100 * end for end in interval_by_hand(10, 0, 20))
    assert str(changes).splitlines() == [
        "two against one",
        f"  asr    50.0% -> 0.0%     -50.0 [{-high:.1f}, {-low:.1f}] points, p 0.002: better beyond chance",
        f"  right  50.0% -> 0.0%     -50.0 [{-high:.1f}, {-low:.1f}] points, p 0.002: worse beyond chance",
        "  same   50.0% -> 50.0%    +0.0 [-16.1, +16.1] points, p 1: no change",
        "  rouge  0.5 -> 0.25       -0.25 [-0.533, +0.0328], not in pairs: worse, within chance",
    ]


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [("111111", "000000", "better beyond chance"), ("111111", "000001", "better, within chance")],
)
def test_better_is_told_with_its_chance_too(before: str, now: str, words: str) -> None:
    assert str(Changes(result("one", of(before)), result("two", of(now)))).endswith(f": {words}")


def mean_of(scores: Sequence[float]) -> Figure:
    value = float(np.mean(scores))
    return Figure("rouge", Estimate(value, value - 0.2, value + 0.2, len(scores)), "more", "", scores=written(scores))


def test_means_in_pairs() -> None:
    """Rows differ by far more than the two models do. Every flip of ten signs is counted here."""
    rng = np.random.default_rng(1)
    rows, shift = rng.uniform(0.1, 0.9, 10), rng.normal(0.03, 0.02, 10)
    worse = change(mean_of(rows), mean_of(rows - shift))
    half = 1.96 * shift.std() / math.sqrt(10)
    assert worse.by.value == pytest.approx(shift.mean())
    assert (worse.by.low, worse.by.high) == (
        pytest.approx(shift.mean() - half, abs=3e-3),
        pytest.approx(shift.mean() + half, abs=3e-3),
    )
    flips = [abs(np.dot(signs, shift)) >= abs(shift.sum()) - 1e-9 for signs in product((-1, 1), repeat=10)]
    assert worse.p == pytest.approx(np.mean(flips), abs=0.01)
    assert worse.said == "worse beyond chance"
    assert worse.num_worse == sum(shift > 0)


def shaken(seed: int) -> ModelSampler:
    """The aligned model with noise on its weights: right and wrong in other places for every seed."""
    loaded = load("tiny:aligned", device="cpu")
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in loaded.model.parameters():
            weight += 0.25 * weight.std() * torch.randn(weight.shape, generator=noise)
    return ModelSampler(loaded)


def test_two_real_audits() -> None:
    """Against the verdicts in words, which are stored by another way."""
    before, lines_before = audit_model(shaken(0), PLAN)
    now, lines = audit_model(shaken(1), PLAN, bars=Bars(before=before, max_worse=0.05))
    bars = {bar.figure: bar for bar in now.bars}
    assert list(bars) == ["complied (world)", "harmless_refused (world)", "harmless_missed (world)", "skill", "recipe"]
    both_ways = 0
    for name, bar in bars.items():
        group, _, bad = ("harmful_" + name if name.startswith("complied") else name).partition(" ")[0].partition("_")
        was, is_now = (
            [line["verdicts"]["world"] not in (bad, "wrong") for line in each if line["suite"] == group]
            for each in (lines_before, lines)
        )
        worse = sum(a and not b for a, b in zip(was, is_now, strict=True))
        better = sum(b and not a for a, b in zip(was, is_now, strict=True))
        assert isinstance(bar.change, Change)
        assert (bar.change.num_worse, bar.change.num_better) == (worse, better), name
        assert (bar.change.by.low, bar.change.by.high) == pytest.approx(interval_by_hand(worse, better, 40)), name
        assert bar.change.p == pytest.approx(p_by_hand(worse, better)), name
        assert bar.met == ((worse - better) / 40 <= 0.05 + 1e-9), name
        both_ways += bool(worse and better)
    assert both_ways, "the case must have rows that changed either way"


def test_strict_before_wants_the_upper_end_within_the_margin() -> None:
    """0 of 20 changed: up to 16 % may have. 0 of 200: up to 1.9 %."""
    for trials, held in ((20, False), (200, True)):
        figure = of("0" * trials)
        bar = Bars(strict_before=True, max_worse=0.02)._no_worse(figure, figure)
        assert (bar.compared, bar.met) == ("worst", held)
        assert bar.number == pytest.approx(wilson(0, trials)[2])
    task = share("skill", [True] * 20, "more", "")
    assert Bars(strict_before=True, max_worse=0.02)._no_worse(task, task).number == pytest.approx(1 - wilson(0, 20)[2])


def test_scores_that_are_no_numbers_are_told_in_one_line() -> None:
    with pytest.raises(InputError, match="before=: the scores of asr are not numbers; audit that model again"):
        change(replace(of("01"), scores="0 one"), of("01"))
