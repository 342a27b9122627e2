"""Which rows make up which step."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.training.plan import PlanSampler, StepPlan


def plan(
    lengths: list[list[int]], shares: list[float], batch_size: int, epochs: float = 1.0, seed: int = 0
) -> StepPlan:
    return StepPlan.make(lengths, batch_size=batch_size, shares=shares, epochs=epochs, max_steps=None, seed=seed)


@given(st.integers(1, 40), st.integers(1, 10), st.integers(1, 3), st.integers(0, 5), st.data())
@settings(max_examples=60)
def test_an_epoch_sees_every_row_of_the_first_stream_once(
    num_rows: int, batch_size: int, epochs: int, seed: int, data: st.DataObject
) -> None:
    lengths = data.draw(st.lists(st.integers(1, 9), min_size=num_rows * batch_size, max_size=num_rows * batch_size))
    made = plan([lengths], [1.0], batch_size, epochs, seed)
    seen = Counter(row for step in range(made.num_steps) for row in made.rows_of_step(step))
    assert made.num_steps == num_rows * epochs
    assert set(seen.values()) == {epochs}
    assert len(seen) == len(lengths)


def test_streams_keep_their_share_of_every_step_and_cycle_on_their_own() -> None:
    made = plan([[5] * 30, [5] * 4], [3.0, 1.0], 8, epochs=2)
    assert made.rows == (6, 2)
    for step in range(made.num_steps):
        rows = made.rows_of_step(step)
        assert sum(row < 30 for row in rows) == 6
        assert sum(row >= 30 for row in rows) == 2
    second = Counter(row for step in range(made.num_steps) for row in made.rows_of_step(step) if row >= 30)
    assert set(second.values()) == {made.num_steps * 2 // 4}


def test_rows_of_a_step_lie_stream_by_stream_short_to_long() -> None:
    made = plan([[9, 1, 5, 3], [2, 1]], [2.0, 1.0], 6)
    assert made.rows_of_step(0) == [1, 3, 2, 0, 5, 4]


def test_a_step_depends_on_its_number_and_the_seed_only() -> None:
    one, other = plan([[1] * 50], [1.0], 10, 3), plan([[1] * 50], [1.0], 10, 3)
    assert one.rows_of_step(13) == other.rows_of_step(13)
    assert set(one.rows_of_step(0)) != set(plan([[1] * 50], [1.0], 10, 3, seed=1).rows_of_step(0))
    assert set(one.rows_of_step(0)) != set(one.rows_of_step(5))  # passes are shuffled anew


@pytest.mark.parametrize("micro_batch", [1, 2, 4, 8])
def test_micro_batches_cut_the_same_step_differently(micro_batch: int) -> None:
    made = plan([[1] * 24], [1.0], 8)
    batches = list(PlanSampler(made, micro_batch))
    assert len(batches) == len(PlanSampler(made, micro_batch)) == 24 // micro_batch
    assert [row for batch in batches for row in batch] == [row for step in range(3) for row in made.rows_of_step(step)]


def test_epochs_are_counted_on_the_first_stream() -> None:
    made = plan([[1] * 20, [1] * 100], [1.0, 1.0], 8, epochs=2)
    assert made.num_steps == 10
    assert made.epoch_at(5) == 1.0
    assert made.num_epochs == 2.0
