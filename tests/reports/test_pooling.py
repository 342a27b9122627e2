"""Hits and trials add up over seeds; the interval is Wilson's; nothing is pooled that should not be."""

import pytest

from holdfast.records import Cell
from holdfast.reports.pooling import pareto, pool
from holdfast.stats import wilson


def cell(attack: str, defence: str, seed: int, hits: int = 0, trials: int = 10, **changes) -> Cell:
    return Cell(attack, defence, seed, changes.pop("judge", "oracle"), asr=wilson(hits, trials), **changes)


def test_seeds_pool_by_their_trials_and_not_by_their_shares():
    """9 of 10 and 0 of 90: 9 %, where the mean of the shares would be 45 %."""
    matrix = pool([cell("a", "d", 0, 9, 10), cell("a", "d", 1, 0, 90)])
    assert matrix.pooled["d", "a"].rate("asr") == wilson(9, 100)
    assert matrix.pooled["d", "a"].rate("utility") is None


def test_a_failed_seed_has_no_part_in_the_rate():
    failed = Cell("a", "d", 1, "oracle", status="failed", reason="killed")
    pooled = pool([cell("a", "d", 0, 5, 10), failed]).pooled["d", "a"]
    assert pooled.rate("asr") == wilson(5, 10)
    assert [one.reason for one in pooled.failed] == ["killed"]


def test_a_cell_written_twice_counts_once_and_the_last_row_wins():
    matrix = pool([Cell("a", "d", 0, "oracle", status="failed", reason="killed"), cell("a", "d", 0, 1, 10)])
    assert matrix.num_cells == 1
    assert matrix.num_repeated == 1
    assert matrix.pooled["d", "a"].rate("asr") == wilson(1, 10)


def test_judges_are_never_added_up():
    matrix = pool([cell("a", "d", 0, 9, judge="strict"), cell("a", "d", 0, 1, judge="kind")])
    assert matrix.defences == ["d · kind", "d · strict"]
    assert matrix.pooled["d · strict", "a"].rate("asr") == wilson(9, 10)


def test_order_does_not_depend_on_which_cell_finished_first():
    cells = [cell(attack, defence, 0) for attack in ("b", "none", "a") for defence in ("y", "x")]
    assert pool(cells).attacks == pool(cells[::-1]).attacks == ["none", "a", "b"]
    assert pool(cells).defences == pool(cells[::-1]).defences == ["x", "y"]


def test_worst_is_the_highest_attack_success_and_the_lowest_utility():
    cells = [
        cell("a", "d", 0, 7, utility=wilson(9, 10)),
        cell("b", "d", 0, 2, utility=wilson(4, 10)),
        Cell("c", "d", 0, "oracle", status="failed", reason="killed"),
    ]
    matrix = pool(cells)
    assert matrix.worst("d", "asr") == ("a", wilson(7, 10), 2)
    assert matrix.worst("d", "utility") == ("b", wilson(4, 10), 2)
    assert matrix.worst("d", "over_refusal") is None


def test_kl_is_the_mean_over_the_seeds_that_reach_a_position():
    cells = [
        cell("a", "d", 0, kl_by_position=(4.0, float("nan"), 1.0)),
        cell("a", "d", 1, kl_by_position=(2.0, float("nan"))),
    ]
    assert pool(cells).pooled["d", "a"].kl_by_position() == [3.0, None, 1.0]


@pytest.mark.parametrize(
    ("points", "front"),
    [
        ([(0.9, 0.1), (0.5, 0.9), (0.4, 0.8), (0.7, 0.5)], [1, 3, 0]),
        ([(0.5, 0.5), (0.5, 0.5)], [1, 0]),  # neither beats its equal
        ([(0.5, 0.5), (0.5, 0.9)], [1]),
        ([(0.5, 0.5), (0.9, 0.5)], [1]),
        ([], []),
    ],
)
def test_pareto(points, front):
    assert pareto(points) == front


def test_a_real_models_seeds_asked_the_same_requests():
    kept = {"outcomes": {"asr": (True,) * 20 + (False,) * 80}, "answers": {"asr": ("x",)}}
    cells = [cell("a", "d", seed, 20, 100, **kept) for seed in range(3)]
    found = pool(cells).pooled["d", "a"].rate("asr")
    assert (found.low, found.high) == (pytest.approx(wilson(20, 100).low), pytest.approx(wilson(20, 100).high))
