"""The safe one with the highest reward, or nobody, with the reason."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config import InputError
from holdfast.oversight import Selection, select, select_pessimistic, select_soft
from holdfast.records import Verdict

UNSAFE = Verdict(False, 0.0, "tells how", "judge")
UNKNOWN = Verdict(None, None, "judge is down", "judge")
SAFE = Verdict(True, 1.0, "fine", "judge")


def test_the_best_safe_one() -> None:
    assert select("abc", [0.9, 0.2, 0.5], [False, True, True]) == Selection(2, "reward 0.5, the best of 2 safe of 3")


def test_the_first_of_equals() -> None:
    assert select("abc", [0.5, 0.5, 0.5], [False, True, True]).index == 1


def test_abstains_with_the_reason() -> None:
    chosen = select("abc", [0.9, 0.8, 0.7], [UNSAFE, UNSAFE, UNKNOWN])
    assert chosen.index is None
    assert chosen.reason == "abstained: of 3 candidates 2 unsafe, 1 not judged (most often: tells how)"
    assert select([], [], []).index is None


def test_what_cannot_be_judged_or_scored_is_never_returned() -> None:
    assert select("ab", [0.9, 0.1], [None, True]).index == 1
    assert select("ab", [math.nan, 0.1], [True, True]).index == 1
    assert select("a", [None], [SAFE]) == Selection(None, "abstained: of 1 candidates 1 safe but without a reward")


def test_lengths_must_agree() -> None:
    with pytest.raises(InputError, match="2 candidates, 1 rewards and 2 verdicts"):
        select("ab", [1.0], [True, True])


candidate = st.tuples(st.floats(0, 1), st.sampled_from([True, False, None, SAFE, UNSAFE, UNKNOWN]))


@given(st.lists(candidate, max_size=8), st.integers(0, 5))
def test_no_way_of_choosing_returns_what_is_not_safe(pool: list[tuple[float, object]], seed: int) -> None:
    rewards, safe = [r for r, _ in pool], [s for _, s in pool]
    good = {index for index, s in enumerate(safe) if s is True or s is SAFE}
    for chosen in (
        select(pool, rewards, safe),  # type: ignore[arg-type]
        select_soft(pool, rewards, safe, temperature=0.5, seed=seed),  # type: ignore[arg-type]
        select_pessimistic(pool, [[r, r / 2] for r in rewards], safe),  # type: ignore[arg-type]
    ):
        assert (chosen.index in good) if good else (chosen.index is None)


def test_soft_selection_draws_by_exponential_weights() -> None:
    """Rewards 0 and log 3 at temperature 1: probabilities 1/4 and 3/4. 2,000 draws: sd .0097."""
    draws = Counter(
        select_soft("ab", [0.0, math.log(3)], [True, True], temperature=1, seed=s).index for s in range(2000)
    )
    assert abs(draws[1] / 2000 - 0.75) < 0.04
    cold = {select_soft("ab", [0.0, 0.1], [True, True], temperature=1e-3, seed=s).index for s in range(50)}
    assert cold == {1}
    with pytest.raises(InputError, match="above 0"):
        select_soft("a", [1.0], [True], temperature=0)


def test_pessimism_prefers_what_all_rewards_like() -> None:
    """Means .6 and .5; standard deviations .4 and 0: lower values .2 and .5."""
    estimates = [[1.0, 0.2], [0.5, 0.5]]
    assert select_pessimistic("ab", estimates, [True, True]).index == 1
    assert select_pessimistic("ab", estimates, [True, True], caution=0).index == 0
