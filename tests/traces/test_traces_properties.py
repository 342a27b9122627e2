"""Whatever is written into an answer, undoing it gives the answer back: for any text and any errors."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.data import read_traces
from holdfast.records import Role, Trace, answer, context
from holdfast.traces import (
    Align,
    Budget,
    Builder,
    Error,
    Made,
    Perturb,
    RightAnswer,
    make_traces,
    with_errors,
    write_made,
)

texts = st.text(st.sampled_from("ab 1+\n\tÄ𝄞.,"), min_size=1, max_size=30).filter(lambda text: text.strip() != "")
budgets = st.builds(Budget, st.sampled_from([(1, 1), (1, 3), (2, 5)]), st.sampled_from([(1, 1), (1, 4)]))


def reference(text: str) -> RightAnswer:
    return RightAnswer(Trace((context("user", "a b 1"), answer(text))))


class Drawn:
    """Any error at any place."""

    def places(self, reference: RightAnswer) -> range:
        return range(len(reference.pieces) + 1)

    def __call__(self, reference: RightAnswer, budget: Budget, rng: random.Random) -> list[Error]:
        places = budget.places(self.places(reference), rng)
        return [Error(at, tuple(rng.choices(["x", "a", "<UNDO>", "é"], k=budget.num_words(rng)))) for at in places]


@given(texts, texts, budgets, st.integers(0, 99), st.sampled_from(["drawn", "perturb", "align"]))
def test_undone_it_is_the_reference(text: str, other: str, budget: Budget, seed: int, name: str) -> None:
    rows = [reference(text), reference(other)]
    assert ["".join(row.pieces) for row in rows] == [text, other]
    builders: dict[str, Builder] = {
        "drawn": Drawn(),
        "perturb": Perturb(rows),
        "align": Align(dict(zip(rows, [other, text], strict=True))),
    }
    made = make_traces([row.trace for row in rows], builders[name], budget=budget, clean=0.3, seed=seed)
    for trace, row in zip(made.traces, rows, strict=True):
        assert trace.turns[-1].visible == row.text
        segments = trace.turns[-1].segments
        for here, after in zip(segments, [*segments[1:], None], strict=True):
            assert (here.role is Role.ERROR) == (after is not None and after.role is Role.UNDO)


@given(texts, budgets, st.integers(0, 99))
def test_what_is_written_reads_back(
    tmp_path_factory: pytest.TempPathFactory, text: str, budget: Budget, seed: int
) -> None:
    path = tmp_path_factory.mktemp("traces") / "traces.jsonl"
    made = make_traces([reference(text).trace] * 3, Drawn(), budget=budget, clean=0.3, seed=seed)
    write_made(path, made)
    assert read_traces(path).traces == made.traces


def test_a_trace_that_does_not_undo_is_never_written(tmp_path: Path) -> None:
    right, wrong = reference("a b"), reference("a c")
    made = Made((with_errors(wrong, [Error(1, ("x",))]),), (right,), 0, 0)
    with pytest.raises(AssertionError, match="trace 0"):
        write_made(tmp_path / "out.jsonl", made)
    assert not list(tmp_path.iterdir())
