"""Every estimator against brute-force enumeration in float64."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config import InputError
from holdfast.oversight import Pool, abstention, curve, divergence, expected, kl_bound, pass_at_k, select
from holdfast.oversight.kl import shown_kl

sample = st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans(), st.sampled_from([0.0, 1.0]))
pools = st.lists(sample, min_size=1, max_size=7)


def pool_of(rows: list[tuple[float, bool, float]]) -> Pool:
    rewards, safe, gold = zip(*rows, strict=True)
    return Pool(rewards, safe, gold)


@settings(max_examples=60)
@given(pools)
def test_every_n_equals_the_mean_over_all_subsets(rows: list[tuple[float, bool, float]]) -> None:
    pool = pool_of(rows)
    assert pool.gold is not None
    for n in range(1, pool.size + 1):
        rewards, golds, nobody, passes = [], [], [], []
        for chosen in itertools.combinations(range(pool.size), n):
            index = select(chosen, [pool.rewards[i] for i in chosen], [pool.safe[i] for i in chosen]).index
            rewards.append(0.0 if index is None else pool.rewards[chosen[index]])
            golds.append(0.0 if index is None else pool.gold[chosen[index]])
            nobody.append(index is None)
            passes.append(any(pool.gold[i] == 1.0 for i in chosen))
        assert expected(pool, pool.rewards, n) == pytest.approx(np.mean(rewards), abs=1e-12)
        assert expected(pool, pool.gold, n) == pytest.approx(np.mean(golds), abs=1e-12)
        assert abstention(pool, n) == pytest.approx(np.mean(nobody), abs=1e-12)
        assert pass_at_k(pool.size, int(sum(pool.gold)), n) == pytest.approx(np.mean(passes), abs=1e-12)


@pytest.mark.parametrize(
    ("size", "num_right", "k", "said"),
    [
        (10, 3, 11, "pass@11 from a pool of 10: expected 1 to 10"),
        (10, 3, 0, "pass@0 from a pool of 10"),
        (10, 11, 2, "expected 0 to 10 right ones, not 11"),
    ],
)
def test_a_pool_says_nothing_of_more_draws_than_it_has(size: int, num_right: int, k: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        pass_at_k(size, num_right, k)


def test_nor_do_the_other_estimators() -> None:
    pool = Pool((0.5, 1.0), (True, False))
    for estimate in (lambda: abstention(pool, 3), lambda: expected(pool, pool.rewards, 3)):
        with pytest.raises(InputError, match="best-of-3 from a pool of 2: expected 1 to 2"):
            estimate()


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.booleans()), min_size=1, max_size=4), st.integers(1, 4))
def test_kl_equals_enumeration_of_all_sequences(rows: list[tuple[float, bool]], n: int) -> None:
    """All m^n ordered draws: the distribution of the *entry* returned, and its divergence from uniform over entries."""
    size = len(rows)
    rewards, safe = [r for r, _ in rows], [s for _, s in rows]
    counts = np.zeros(size)
    for draw in itertools.product(range(size), repeat=n):
        index = select(draw, [rewards[i] for i in draw], [safe[i] for i in draw]).index
        if index is not None:
            counts[draw[index]] += 1
    moved = divergence(rewards, safe, n)
    if not any(safe):
        assert math.isnan(moved.from_base)
        return
    overseen = counts / counts.sum()
    exact = sum(q * math.log(q * size) for q in overseen if q > 0)
    assert moved.from_base == pytest.approx(exact, abs=1e-12)
    assert moved.from_base <= moved.bound + 1e-12
    if all(safe):
        assert moved.to_base == pytest.approx(sum(math.log(1 / (q * size)) / size for q in overseen), abs=1e-12)
    else:
        assert moved.to_base == math.inf


def test_kl_figures_of_the_notes() -> None:
    """A fair binary reward at n = 20: exact 0.69, bound 2.05 (MATH §6)."""
    found = divergence([0.0, 1.0], [True, True], 20)
    assert found.from_base == pytest.approx(0.693, abs=1e-3)
    assert found.bound == pytest.approx(2.046, abs=1e-3)
    assert kl_bound(1) == 0.0
    assert kl_bound(5, 1e-12) == pytest.approx(kl_bound(5), abs=1e-9)


def test_the_bound_is_reached_by_a_continuous_reward() -> None:
    """With 20,000 distinct rewards and a third unsafe the exact value meets the bound."""
    size = 30_000
    found = divergence(list(range(size)), [index % 3 > 0 for index in range(size)], 8)
    assert found.from_base == pytest.approx(found.bound, abs=2e-3)


def test_infinite_is_printed_as_infinite() -> None:
    assert shown_kl(divergence([1.0, 0.0], [True, False], 2).to_base) == "infinite"
    assert shown_kl(0.5) == "0.500"
    assert "nothing" in shown_kl(math.nan)


def test_the_estimate_is_unbiased_for_fresh_samples() -> None:
    """Pools of 6 estimate best-of-3 as 20,000 fresh draws of 3 give it."""
    generator = np.random.default_rng(0)

    def draw(num: int) -> list[tuple[float, bool, float]]:
        rewards = generator.random(num)
        return [(float(r), bool(s), float(g)) for r, s, g in
                zip(rewards, generator.random(num) < 0.7, rewards > generator.random(num), strict=True)]  # fmt: skip

    estimates = [expected(pool, pool.gold or (), 3) for pool in (pool_of(draw(6)) for _ in range(4000))]
    fresh = [expected(pool, pool.gold or (), 3) for pool in (pool_of(draw(3)) for _ in range(20_000))]
    error = math.sqrt(np.var(estimates) / len(estimates) + np.var(fresh) / len(fresh))
    assert abs(np.mean(estimates) - np.mean(fresh)) < 4 * error


def test_the_curve_shows_over_optimisation_and_keeps_its_identities() -> None:
    """A proxy that hates the gold: reward rises with n, gold falls; joint = reward * P(returned)."""
    generator = np.random.default_rng(1)
    made = []
    for _ in range(30):
        gold = generator.random(12)
        made.append(Pool(tuple(1 - gold), tuple(bool(x) for x in generator.random(12) < 0.8), tuple(gold)))
    points = curve(made, num_bootstrap=200)
    assert [point.n for point in points] == list(range(1, 13))
    assert points[-1].reward.value > points[0].reward.value
    assert points[-1].gold is not None
    assert points[0].gold is not None
    assert points[-1].gold.value < points[0].gold.value
    for point in points:
        assert point.joint.value == pytest.approx(point.reward.value * (1 - point.abstention.value))
        assert point.joint.low <= point.joint.value <= point.joint.high
        assert point.kl <= point.kl_bound + 1e-9
        assert point.kl_reverse == math.inf


def test_none_or_all_of_the_prompts_still_has_an_interval() -> None:
    """Nobody of 20 abstains, everybody is right: exact, 0 of 20 may be 16.8 % (1 - .025^(1/20)); and the same from above."""
    (point,) = curve([Pool((0.5, 0.7), (True, True), (1.0, 1.0))] * 20, [2], num_bootstrap=50)
    most = 1 - 0.025 ** (1 / 20)
    assert (point.abstention.low, point.abstention.high) == (0, pytest.approx(most))
    for share in (point.gold, point.pass_at_n):
        assert share is not None
        assert (share.low, share.high) == (pytest.approx(1 - most), 1)


def test_a_share_next_to_nothing_is_no_surer_than_none() -> None:
    """One prompt of 20 abstains once in 45 times: draws of these prompts would say at most 1 in 300."""
    clean, odd = Pool((0.5,) * 10, (True,) * 10), Pool((0.5,) * 10, (False, False, *[True] * 8))
    (point,) = curve([clean] * 19 + [odd], [2], num_bootstrap=50)
    assert point.abstention.value == pytest.approx(1 / 45 / 20)
    assert point.abstention.low <= point.abstention.value < 0.15 < point.abstention.high < 0.2
    assert point.gold is None


def test_scores_that_are_no_shares_keep_their_bootstrap_interval() -> None:
    (point,) = curve([Pool((0.5,), (True,), (0.0,)), Pool((0.5,), (True,), (7.0,))] * 10, [1], num_bootstrap=200)
    assert point.gold is not None
    assert 1 < point.gold.low < point.gold.value == 3.5 < point.gold.high < 6
