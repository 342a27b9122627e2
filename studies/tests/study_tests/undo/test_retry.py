"""Plain retry with a budget of tokens, worked by hand."""

from __future__ import annotations

import random

from holdfast_studies.undo.own_figures import budget_of
from holdfast_studies.undo.retry import Retried, Try, retry


def test_retries_write_exactly_the_budget() -> None:
    """First answers: 10 + 20 = 30 tokens. Whoever comes first in the order answers again."""
    tries = [
        [Try(False, 10, mean_logp=-2.0), Try(True, 6, mean_logp=-1.0), Try(True, 9, mean_logp=-9.0)],
        [Try(True, 20, mean_logp=-1.0), Try(False, 8, mean_logp=-0.5), Try(False, 9, mean_logp=-9.0)],
    ]
    order = [0, 1]
    random.Random("retry/0").shuffle(order)
    first = order[0]
    only_first = retry(tries, 30, 0)
    assert only_first == Retried((False, True), (False, True), spent=30, num_retries=0)
    one_more = retry(tries, 38, 0)
    assert one_more.spent == 38
    assert one_more.num_retries == 1, "the second further answer is cut off, or just fits"
    assert one_more.chosen == ((True, True) if first == 0 else (False, False)), "the likelier answer is returned"
    both = retry(tries, 44, 0)
    assert (both.chosen, both.any_right, both.spent, both.num_retries) == ((True, False), (True, True), 44, 2)
    cut = retry(tries, 45, 0)
    assert (cut.spent, cut.num_retries) == (45, 2), "one token of a third answer is paid for, and thrown away"


def test_first_answers_are_never_cut_and_tries_may_run_out() -> None:
    tries = [[Try(True, 10, mean_logp=0.0), Try(False, 5, mean_logp=-1.0)]]
    assert retry(tries, 3, 0).spent == 10
    assert retry(tries, 1000, 0) == Retried((True,), (True,), spent=15, num_retries=1)


def test_every_budget_between_the_first_answers_and_all_of_them_is_met() -> None:
    rng = random.Random(0)
    tries = [[Try(False, rng.randint(1, 30), mean_logp=-1.0) for _ in range(4)] for _ in range(12)]
    first, all_of_them = (
        sum(each[0].num_tokens for each in tries),
        sum(one.num_tokens for each in tries for one in each),
    )
    for seed in range(3):
        assert all(retry(tries, budget, seed).spent == budget for budget in range(first, all_of_them + 1))


def test_the_budget_is_that_of_one_answer_to_every_request() -> None:
    """Undos and what they took back are counted: (10 + 20) / 2 + (4 + 5) / 2 = 19.5."""
    tries = [[Try(True, 10, 3), Try(False, 20, 8)], [Try(True, 4), Try(True, 5)]]
    assert budget_of(tries) == 20
