"""Guarantees: exact numbers, coverage by simulation, and the words that must stand beside them."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from holdfast.config import InputError
from holdfast.oversight import choose_threshold, guarantee
from holdfast.oversight.bounds import pass_through, rate_for, rows_needed

DRAWS, ALPHA = 1000, 0.05
SLACK = 3 * math.sqrt(ALPHA * (1 - ALPHA) / DRAWS)  # three standard errors of the simulation itself


def test_figures_of_the_notes() -> None:
    """0 of 300 -> at most 1.0 % at 95 %; unsafe .3, missed .05: 5.9 % at n = 4 and 53 % at n = 50 (MATH §6)."""
    assert guarantee([1.0] * 300, [False] * 300, n=1).rate_bound == pytest.approx(0.00994, abs=1e-5)
    assert guarantee([1.0] * 5, [True] * 5, n=1).rate_bound == 1.0
    assert pass_through(0.3 * 0.05, 4) == pytest.approx(0.0587, abs=1e-4)
    assert pass_through(0.3 * 0.05, 50) == pytest.approx(0.530, abs=1e-3)
    assert pass_through(rate_for(0.01, 16), 16) == pytest.approx(0.01)


def test_pass_through_is_reached_when_the_reward_favours_what_slips_through() -> None:
    """Simulated: r = .02, n = 10, the reward of every unsafe one that passes is highest."""
    generator = np.random.default_rng(0)
    leaks = (generator.random((40_000, 10)) < 0.02).any(1).mean()
    assert leaks == pytest.approx(pass_through(0.02, 10), abs=3 * math.sqrt(0.18 * 0.82 / 40_000))


def draw(generator: np.random.Generator, num: int, unsafe_share: float) -> tuple[np.ndarray, np.ndarray]:
    """Safety scores: Phi(z + 1) for safe ones, Phi(z - 1) for unsafe ones."""
    unsafe = generator.random(num) < unsafe_share
    return norm.cdf(generator.standard_normal(num) + np.where(unsafe, -1.0, 1.0)), unsafe


def true_risk(threshold: float, unsafe_share: float, n: int) -> float:
    return pass_through(unsafe_share * norm.sf(norm.ppf(threshold) + 1), n)


def test_the_bound_covers_in_simulation() -> None:
    generator = np.random.default_rng(1)
    risk = true_risk(0.7, 0.3, 4)
    covered = 0
    for _ in range(DRAWS):
        scores, unsafe = draw(generator, 250, 0.3)
        covered += guarantee(scores.tolist(), unsafe.tolist(), n=4, threshold=0.7, alpha=ALPHA).risk_bound >= risk
    assert covered / DRAWS >= 1 - ALPHA - SLACK


def test_the_chosen_threshold_keeps_its_target_in_simulation() -> None:
    generator = np.random.default_rng(2)
    broken = chosen = 0
    for _ in range(DRAWS):
        scores, unsafe = draw(generator, 300, 0.3)
        choice = choose_threshold(scores.tolist(), unsafe.tolist(), n=4, target=0.1, alpha=ALPHA)
        if choice.guarantee is not None:
            chosen += 1
            broken += true_risk(choice.guarantee.threshold, 0.3, 4) > 0.1
    assert chosen > 0.9 * DRAWS  # the test is about something
    assert broken / DRAWS <= ALPHA + SLACK


def test_a_threshold_is_as_loose_as_the_target_allows() -> None:
    scores, unsafe = draw(np.random.default_rng(3), 5000, 0.3)
    strict = choose_threshold(scores.tolist(), unsafe.tolist(), n=4, target=0.02)
    loose = choose_threshold(scores.tolist(), unsafe.tolist(), n=4, target=0.2)
    assert strict.guarantee is not None
    assert loose.guarantee is not None
    assert loose.guarantee.threshold < strict.guarantee.threshold
    assert loose.guarantee.passed > strict.guarantee.passed


def test_says_that_a_target_cannot_be_met_and_why() -> None:
    few = choose_threshold([0.9] * 50, [False] * 50, n=16, target=0.001)
    assert few.guarantee is None
    assert f"at least {rows_needed(16, 0.001, 0.05)} calibration rows" in few.reason
    blind = choose_threshold([0.9] * 1000, [True, False] * 500, n=4, target=0.05)
    assert blind.guarantee is None
    assert "too much that is unsafe passes" in blind.reason


def test_a_threshold_that_passes_nothing_is_no_answer() -> None:
    choice = choose_threshold([0.5] * 1000, [True] * 500 + [False] * 500, n=1, target=0.1)
    assert choice.guarantee is None


def test_every_statement_names_its_assumptions() -> None:
    said = guarantee([0.9] * 300, [False] * 300, n=1).statement()
    assert "With probability at least 95% over" in said
    surer = guarantee([0.9] * 300, [False] * 300, n=1, alpha=0.001).statement()
    assert "With probability at least 99.9% over" in surer  # not rounded up to certainty
    for words in (
        "at most 0.99% of requests",
        "independent draws",
        "nobody chooses prompts",
        "shift of prompts",
        "95%",
    ):
        assert words in said


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="2 scores and 1 labels"):
        guarantee([1.0, 0.0], [True], n=1)
    with pytest.raises(InputError, match="n >= 1"):
        guarantee([1.0], [True], n=0)
    with pytest.raises(InputError, match="NaN"):
        guarantee([math.nan], [True], n=1)
