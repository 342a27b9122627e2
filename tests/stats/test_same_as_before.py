"""The new floor against every implementation that it replaces, on random inputs. Goes when they go."""

import random

import numpy as np
import pytest
from holdfast_studies.real import figures as real
from scipy.stats import beta, binomtest

from holdfast import stats
from holdfast.audits import agreement, bootstrap, intervals
from holdfast.diagnostics import estimates
from holdfast.records import Cell, shares

RNG = np.random.default_rng(7)
CLOSE = {"rel": 1e-13, "abs": 1e-14}


def ends(found) -> tuple[float, float, float]:
    return found.value, found.low, found.high


def counts(num: int = 400) -> list[tuple[int, int]]:
    sizes = RNG.integers(1, 700, num)
    return [(int(RNG.integers(0, n + 1)), int(n)) for n in sizes] + [(0, 9), (9, 9)]


def test_wilson_is_scipys_bit_by_bit() -> None:
    for hits, n in counts():
        old, new = intervals.rate_of(hits, n), stats.wilson(hits, n)
        assert ends(new) == ends(old)
        assert (new.hits, new.n) == (old.hits, old.trials)


def test_wilson_of_scores_and_effective_numbers() -> None:
    for n in RNG.uniform(1, 600, 400):
        hits = float(RNG.uniform(0, n))
        assert ends(stats.wilson(hits, n)) == pytest.approx(ends(shares.wilson(hits, n)), **CLOSE)


def test_pooled() -> None:
    old = [intervals.rate_of(*each) for each in counts(20)]
    new = [stats.wilson(each.hits, each.trials) for each in old]
    assert ends(stats.pooled(new)) == ends(intervals.pooled(old))


def digits(seeds: int, num: int) -> list[str]:
    easy = RNG.random(num)
    return ["".join(str(int(RNG.random() < p)) for p in easy) for _ in range(seeds)]


def hits_of(rows: list[str]) -> list[list[bool]]:
    return [[digit == "1" for digit in row] for row in rows]


def test_share_of_repeats() -> None:
    for _ in range(200):
        rows = digits(int(RNG.integers(1, 5)), int(RNG.integers(1, 60)))
        old, new = shares.asked_again(rows), stats.share_of_repeats(hits_of(rows))
        assert ends(new) == pytest.approx(ends(old), **CLOSE)
        assert (new.hits, new.n) == (old.hits, old.trials)


def test_share_of_counts() -> None:
    for _ in range(200):
        pairs = counts(int(RNG.integers(1, 5)))[:-2]
        old, new = estimates.over_seeds(pairs, "why"), stats.share_of_counts(pairs)
        assert ends(new) == pytest.approx(ends(old), **CLOSE)
        assert new.n == old.trials


def test_newcombe() -> None:
    for (a, n), (b, m) in zip(counts(100), counts(100), strict=True):
        old = intervals.difference(intervals.rate_of(a, n), intervals.rate_of(b, m))
        assert ends(stats.newcombe(stats.wilson(a, n), stats.wilson(b, m))) == ends(old)
        only = int(RNG.integers(0, n - a + 1))
        assert ends(stats.newcombe_paired(a, only, n)) == ends(intervals.paired_difference(a, only, n))


def test_clopper_pearson() -> None:
    for hits, n in counts(100):
        exact = binomtest(hits, n).proportion_ci(method="exact")
        found = stats.clopper_pearson(hits, n)
        assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-10)
    assert stats.clopper_pearson(0.3, 20).high == float(beta.ppf(0.975, 1.3, 19.7))


def test_bootstrap_of_audits() -> None:
    for num in (1, 2, 7, 150):
        values, tokens = RNG.normal(size=num).tolist(), RNG.integers(1, 50, num).tolist()
        assert ends(stats.bootstrap_mean(values)) == pytest.approx(tuple(bootstrap.mean(values)), **CLOSE)
        ratio = stats.Resamples.of(np.column_stack([values, tokens])).estimate(
            lambda sums: np.exp(np.minimum(sums[..., 0] / sums[..., 1], 700.0))
        )
        assert ends(ratio) == pytest.approx(tuple(bootstrap.perplexity(values, tokens)), **CLOSE)


def test_bootstrap_of_diagnostics() -> None:
    for clusters in (None, [f"p{number // 3}" for number in range(60)]):
        counts_ = RNG.integers(0, 4, (60, 5)).astype(float)
        old = estimates.Bootstrap.of(counts_, clusters, draws=1000, seed=3)
        new = stats.Resamples.of(counts_, groups=clusters, draws=1000, seed=3)
        assert (new.sums == old.sums).all()
        assert (new.whole == old.whole).all()

        def ratio(sums):
            return sums[..., 0] / sums[..., 1]

        assert new.interval(ratio) == pytest.approx(old.interval(ratio), **CLOSE)


def test_resampled_rows() -> None:
    groups = RNG.integers(0, 12, 50)
    rng, members = np.random.default_rng(0), [np.flatnonzero(groups == group) for group in np.unique(groups)]
    for rows in stats.resampled_rows(groups, draws=30, seed=0):
        old = np.concatenate([members[number] for number in rng.integers(len(members), size=len(members))])
        assert (rows == old).all()


def test_exact_differences() -> None:
    for _ in range(60):
        num = int(RNG.integers(1, 40))
        ours, theirs = digits(3, num), digits(3, num)
        cells = [
            Cell("a", defence, seed, "j", outcomes={"asr": row})
            for defence, rows in (("x", ours), ("y", theirs))
            for seed, row in enumerate(rows)
        ]
        old = real.difference(cells, ("a", "x"), ("a", "y"), "asr")
        assert ends(stats.difference_of_repeats(hits_of(ours), hits_of(theirs))) == ends(old)


def test_kappa() -> None:
    draw = random.Random(3)
    for again in (False, True):
        for _ in range(25):
            num = draw.randint(2, 30)
            first = [draw.choice("ab?") for _ in range(num)]
            second = [label if draw.random() < 0.7 else draw.choice("ab?") for label in first]
            asked = list(range(num)) if again else None
            if again:
                first, second, asked = first * 3, second * 2 + first, [*range(num)] * 3
            old = agreement.agreement("s", ("x", "y"), first, second, asked=asked)
            new = stats.cohen_kappa(first, second, groups=asked)
            kept = tuple(stats.finite_or_none(each) for each in ends(new))
            assert kept == pytest.approx((old.kappa, old.low, old.high), **CLOSE)
