"""Which rows make up which step."""

from collections import Counter
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config import InputError
from holdfast.training.plan import PlanSampler, StepPlan


def plan(
    lengths: list[list[int]], shares: list[float], batch_size: int, epochs: float = 1.0, seed: int = 0
) -> StepPlan:
    return StepPlan.make(lengths, batch_size=batch_size, shares=shares, epochs=epochs, max_steps=None, seed=seed)


def times_seen(made: StepPlan) -> Counter[int]:
    return Counter(row for step in range(made.num_steps) for row in made.rows_of_step(step))


@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 4), st.integers(0, 5))
@settings(max_examples=80)
def test_after_so_many_epochs_every_row_of_the_first_stream_was_seen_so_often(
    num_rows: int, batch_size: int, epochs: int, seed: int
) -> None:
    made = plan([[1] * num_rows], [1.0], batch_size, epochs, seed)
    assert times_seen(made) == dict.fromkeys(range(num_rows), epochs)
    per_epoch = ceil(num_rows / batch_size)
    assert made.num_steps == epochs * per_epoch
    for epoch in range(epochs):  # each epoch by itself: no step reaches into the next one
        steps = range(epoch * per_epoch, (epoch + 1) * per_epoch)
        assert sorted(row for step in steps for row in made.rows_of_step(step)) == list(range(num_rows))
        assert made.epoch_at(steps.stop) == epoch + 1


@pytest.mark.parametrize(
    ("num_rows", "sizes", "said"),
    [
        (1, [1], "task: 1 row, each seen once, in 1 step of 1 row"),
        (10, [10], "task: 10 rows, each seen once, in 1 step of 10 rows"),
        (32, [32], "task: 32 rows, each seen once, in 1 step of 32 rows"),
        (47, [32, 15], "task: 47 rows, each seen once, in 2 steps of 32 rows; the last step of an epoch has 15"),
    ],
)
def test_the_last_step_of_an_epoch_is_smaller(num_rows: int, sizes: list[int], said: str) -> None:
    made = plan([[1] * num_rows], [1.0], 32)
    assert [len(made.rows_of_step(step)) for step in range(made.num_steps)] == sizes
    assert made.sentence(0, "task") == said


@pytest.mark.parametrize(
    ("epochs", "num_rows", "sizes"),
    [
        (2.5, 47, [32, 15, 32, 15, 24]),  # half of 47 is 23.5: 24
        (0.5, 47, [24]),
        (0.01, 47, [1]),
        (0.1, 30, [3]),  # 0.1 * 30 is a little more than 3 in floating point
        (1.5, 100, [32, 32, 32, 4, 32, 18]),
    ],
)
def test_part_of_an_epoch_is_rounded_up_to_a_row(epochs: float, num_rows: int, sizes: list[int]) -> None:
    made = plan([[1] * num_rows], [1.0], 32, epochs)
    assert [len(made.rows_of_step(step)) for step in range(made.num_steps)] == sizes
    assert made.num_epochs == made.epoch_at(made.num_steps) == sum(sizes) / num_rows
    assert set(times_seen(made).values()) <= {int(epochs), int(epochs) + 1}


def test_max_steps_cuts_the_same_plan() -> None:
    whole = plan([[1] * 47], [1.0], 32, 3)
    cut = StepPlan.make([[1] * 47], batch_size=32, shares=[1.0], epochs=1.0, max_steps=3, seed=0)
    assert cut.num_steps == 3
    assert [cut.rows_of_step(step) for step in range(3)] == [whole.rows_of_step(step) for step in range(3)]
    assert cut.num_epochs == (47 + 32) / 47
    assert cut.sentence(0, "task").startswith("task: 47 rows, 32 seen twice, 15 seen once, in 3 steps of 32 rows")


def test_other_streams_keep_their_rows_in_a_small_step_and_say_how_often_theirs_are_seen() -> None:
    made = plan([[1] * 9, [1] * 5], [3.0, 1.0], 8, epochs=2)
    assert made.rows == (6, 2)
    sizes = [(sum(row < 9 for row in rows), sum(row >= 9 for row in rows)) for rows in map(made.rows_of_step, range(4))]
    assert sizes == [(6, 2), (3, 2), (6, 2), (3, 2)]
    assert made.times_seen(1) == [(3, 2), (2, 1)]
    seen = times_seen(made)
    assert sorted(seen[row] for row in range(9, 14)) == [1, 1, 2, 2, 2]
    assert made.sentence(1, "keep") == "keep: 5 rows, 3 seen twice, 2 seen once, in 4 steps of 2 rows"


def test_streams_keep_their_share_of_every_step_and_cycle_on_their_own() -> None:
    made = plan([[5] * 30, [5] * 4], [3.0, 1.0], 8, epochs=2)
    assert made.rows == (6, 2)
    for step in range(made.num_steps):
        rows = made.rows_of_step(step)
        assert sum(row < 30 for row in rows) == 6
        assert sum(row >= 30 for row in rows) == 2
    second = Counter(row for step in range(made.num_steps) for row in made.rows_of_step(step) if row >= 30)
    assert set(second.values()) == {made.num_steps * 2 // 4}


def test_a_stream_in_every_third_step_goes_through_its_rows_as_one_in_every_step_does() -> None:
    lengths, sizes = [[1] * 60, [1] * 5], {"batch_size": 8, "shares": [3.0, 1.0], "epochs": 1.0, "seed": 0}
    often = StepPlan.make(lengths, max_steps=10, **sizes)
    seldom = StepPlan.make(lengths, max_steps=10, every=[1, 3], **sizes)
    own = [[row for row in seldom.rows_of_step(step) if row >= 60] for step in range(10)]
    assert [len(rows) for rows in own] == [0, 0, 2, 0, 0, 2, 0, 0, 2, 0]
    assert own[2::3] == [[row for row in often.rows_of_step(step) if row >= 60] for step in range(3)]
    assert seldom.times_seen(1) == [(1, 2), (4, 1)]
    assert seldom.sentence(1, "keep") == "keep: 5 rows, 1 seen twice, 4 seen once, in 3 steps of 2 rows"
    with pytest.raises(InputError, match=r"streams\.1\.hold\.every': 11, and the run has 10 steps"):
        StepPlan.make(lengths, max_steps=10, every=[1, 11], **sizes)


def test_the_example_in_the_documentation() -> None:
    made = plan([[1] * 47, [1] * 100], [1.0, 1.0], 64)
    assert made.sentence(0, "task") == (
        "task: 47 rows, each seen once, in 2 steps of 32 rows; the last step of an epoch has 15"
    )
    assert made.sentence(1, "keep") == "keep: 100 rows, 64 seen once, 36 never seen, in 2 steps of 32 rows"


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


@pytest.mark.parametrize("num_rows", [1, 3, 10, 47])
@pytest.mark.parametrize("micro_batch", [1, 2, 8, 16])
def test_a_small_step_has_as_many_micro_batches_as_any_other(num_rows: int, micro_batch: int) -> None:
    made = plan([[1] * num_rows], [1.0], 16, epochs=2)
    batches = list(PlanSampler(made, micro_batch))
    assert len(batches) == len(PlanSampler(made, micro_batch)) == made.num_steps * 16 // micro_batch
    per_step = 16 // micro_batch
    for step in range(made.num_steps):
        cut = batches[step * per_step : (step + 1) * per_step]
        assert [row for batch in cut for row in batch] == made.rows_of_step(step)
        assert max(map(len, cut)) - min(map(len, cut)) <= 1
        assert max(map(len, cut)) <= micro_batch


def test_epochs_are_counted_on_the_first_stream() -> None:
    made = plan([[1] * 20, [1] * 100], [1.0, 1.0], 8, epochs=2)
    assert made.num_steps == 10
    assert made.epoch_at(5) == 1.0
    assert made.num_epochs == 2.0
