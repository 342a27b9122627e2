"""A judged rate corrected by labels: by hand, in its limits, and in simulations of judges that err."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.random import Generator

from holdfast.config import InputError
from holdfast.stats import Estimate, corrected_share, wilson


def test_by_hand() -> None:
    """Judge: 6 of 10. Of 4 labelled, the judge says 1, 1, 0, 0 and the labels 1, 0, 0, 0: 0.6 + (0 - 1 + 0 + 0) / 4 = 0.35."""
    judged = [1.0] * 6 + [0.0] * 4
    labelled = [(1.0, 1.0), (1.0, 0.0), (0.0, 0.0), (0.0, 0.0)]
    assert corrected_share(judged, labelled).value == pytest.approx(0.35, abs=1e-15)


def test_probabilities_are_taken_as_they_are() -> None:
    """0.5 + mean(1 - 0.7, 0 - 0.3) = 0.5."""
    assert corrected_share([0.7, 0.3], [(0.7, 1.0), (0.3, 0.0)]).value == pytest.approx(0.5, abs=1e-15)


def test_with_every_case_labelled_it_is_the_share_of_the_labels() -> None:
    labelled = [(1.0, 1.0)] * 30 + [(1.0, 0.0)] * 20 + [(0.0, 1.0)] * 10 + [(0.0, 0.0)] * 40
    corrected, plain = corrected_share([judge for judge, _ in labelled], labelled), wilson(40, 100)
    assert corrected.value == pytest.approx(plain.value, abs=1e-12)
    assert corrected.low == pytest.approx(plain.low, abs=0.02)
    assert corrected.high == pytest.approx(plain.high, abs=0.02)


def test_a_judge_who_is_always_half_wrong_is_no_error_of_arithmetic() -> None:
    """Judge and labels move together here: rounding leaves the square of the width below 0."""
    labelled = [(1.0, 0.0)] * 13 + [(0.0, 0.0)] * 13
    corrected = corrected_share([judge for judge, _ in labelled], labelled)
    assert corrected.value == pytest.approx(0.0, abs=1e-12)
    assert 0 <= corrected.low <= corrected.high <= 1


def test_a_perfect_judge_on_few_labels_still_leaves_doubt() -> None:
    judged = [1.0] * 50 + [0.0] * 50
    few, many = (corrected_share(judged, [(1.0, 1.0), (0.0, 0.0)] * n, among=False) for n in (5, 500))
    assert few.value == many.value == 0.5
    assert few.high - few.low > 1.5 * (wilson(50, 100).high - wilson(50, 100).low)
    assert many.high - many.low < few.high - few.low


def test_value_and_ends_stay_between_0_and_1() -> None:
    corrected = corrected_share([0.0] * 20, [(1.0, 0.0), (0.0, 0.0)])
    assert corrected.value == 0.0
    assert 0 <= corrected.low <= corrected.high <= 1


def _draws(rng: Generator, num: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Judge and truth: 30 % are true. A judge that errs one way in 20 % of the false ones, or says probabilities."""
    truth = (rng.random(num) < 0.3).astype(float)
    if kind == "hard":
        return np.where((truth == 0) & (rng.random(num) < 0.2), 1.0, truth), truth
    return np.clip(0.25 + 0.5 * truth + 0.15 * rng.standard_normal(num), 0, 1), truth


@pytest.mark.parametrize("kind", ["hard", "soft"])
@pytest.mark.parametrize("among", [True, False])
def test_in_a_simulation_it_has_no_bias_and_its_interval_covers_the_truth(kind: str, among: bool) -> None:
    """2,000 audits of 300 replies with 60 labels. The judge alone says 44 % (or 40 %) where 30 % is true."""
    rng = np.random.default_rng(7)
    estimates: list[Estimate] = []
    judge_alone = []
    for _ in range(2000):
        judge, truth = _draws(rng, 360, kind)
        labelled = list(zip(judge[:60].tolist(), truth[:60].tolist(), strict=True))
        judged = judge[:300] if among else judge[60:]
        judge_alone.append(float(judged.mean()))
        estimates.append(corrected_share(judged.tolist(), labelled, among=among))
    values = np.array([estimate.value for estimate in estimates])
    assert abs(np.mean(judge_alone) - 0.3) > 0.08
    assert abs(values.mean() - 0.3) < 4 * values.std() / math.sqrt(len(values))
    coverage = np.mean([estimate.contains(0.3) for estimate in estimates])
    assert 0.93 <= coverage <= 0.995


def test_a_good_judge_makes_the_interval_narrower_than_the_labels_alone() -> None:
    rng = np.random.default_rng(3)
    truth = (rng.random(1000) < 0.3).astype(float)
    judge = np.where(rng.random(1000) < 0.05, 1 - truth, truth)
    corrected = corrected_share(judge.tolist(), list(zip(judge[:80].tolist(), truth[:80].tolist(), strict=True)))
    alone = wilson(truth[:80].sum(), 80)
    assert corrected.high - corrected.low < 0.8 * (alone.high - alone.low)


@pytest.mark.parametrize(("judged", "labelled"), [([], [(1.0, 1.0)]), ([1.0], []), ([2.0], [(1.0, 1.0)])])
def test_bad_input_is_refused(judged: list[float], labelled: list[tuple[float, float]]) -> None:
    with pytest.raises(InputError, match="corrected share"):
        corrected_share(judged, labelled)
