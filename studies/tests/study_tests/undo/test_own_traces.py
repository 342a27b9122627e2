"""Traces of own wrong attempts: the first wrong step of a task with a known point of no return, and the controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from holdfast.config import InputError
from holdfast.records import Role, Trace, answer, context
from holdfast_studies.undo.answer_tasks import AnswerTask, lines, sentences, words
from holdfast_studies.undo.draws import Drawn
from holdfast_studies.undo.first_wrong import Attempts, sample_attempts
from holdfast_studies.undo.own_traces import OwnTraces
from holdfast_studies.undo.safety_gap_config import OwnSettings, TraceSettings


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split()]


def sums_to(row: Trace, text: str) -> bool:
    return sum(numbers(text)) == int(row.turns[0].visible)


class Adder:
    """Is asked for positive numbers of a given sum. A beginning that exceeds the sum is lost, and no other is.

    Of its continuations only the last is right: a search that gives up after fewer than all of them is found out.
    """

    def __init__(self, attempts: Mapping[str, Sequence[str]]) -> None:
        self.attempts = attempts
        self.asked: list[tuple[str, str]] = []

    def __call__(self, beginnings: Sequence[tuple[Trace, str]], num: int) -> list[list[Drawn]]:
        pools = []
        for row, begun in beginnings:
            wanted = row.turns[0].visible
            self.asked.append((wanted, begun))
            if not begun:
                assert num == len(self.attempts[wanted])
                rests = list(self.attempts[wanted])
            else:
                missing = int(wanted) - sum(numbers(begun))
                rests = [" 99"] * (num - 1) + [f" {missing}" if missing > 0 else " 1"]
            pools.append([Drawn(begun + rest, rest, 1, ended=True) for rest in rests])
        return pools


HOW = OwnSettings(num_attempts=4, num_rollouts=8, num_wrong=2)
ATTEMPTS = {
    "10": ("4 5 3 2", "4 6", "11", "1 2 7"),  # lost with its third word, right, lost at once, right
    "20": ("15 3", "20", "5 15", "20"),  # wrong only because it ended
    "30": ("31", "32", "33", "34"),  # never right: nothing is known of these
    "40": ("40", "39 1", "40", "20 20"),  # always right
}


def adder_task() -> AnswerTask:
    rows = tuple(Trace((context("user", wanted), answer("?"))) for wanted in ATTEMPTS)
    return AnswerTask(rows, sums_to, words)


@pytest.fixture
def own() -> OwnTraces:
    settings = TraceSettings(builder="own", clean=0.4, copies=20, own=HOW)
    return OwnTraces(adder_task(), sample_attempts(adder_task(), Adder(ATTEMPTS), HOW), settings)


def test_the_first_wrong_step_is_where_no_continuation_is_right_any_more(own: OwnTraces) -> None:
    ten, twenty, thirty, forty = own.attempts
    later, at_once = ten.wrong
    assert later.steps == ("4", " 5", " 3")
    assert later.successes == (2, 1, 1, 0), "of 4 attempts, then of 8 continuations each"
    assert later.right == (" 1",), "written after '4 5'"
    assert at_once.steps == ("11",)
    assert at_once.right == ("4 6", "1 2 7")
    assert ten.right == ("4 6", "1 2 7")
    assert (twenty.wrong, twenty.num_never_lost) == ((), 1)
    assert (thirty.right, thirty.wrong) == ((), ())
    assert (len(forty.right), forty.wrong) == (4, ())
    assert [Attempts.of_row(each.as_row()) for each in own.attempts] == own.attempts


def test_nothing_is_drawn_beyond_the_first_wrong_step() -> None:
    draw = Adder(ATTEMPTS)
    sample_attempts(adder_task(), draw, HOW)
    begun = [(wanted, text) for wanted, text in draw.asked if text]
    assert begun == [("10", "4"), ("10", "11"), ("20", "15"), ("10", "4 5"), ("20", "15 3"), ("10", "4 5 3")]


def test_an_undone_trace_is_a_right_answer_and_its_error_the_wrong_step(own: OwnTraces) -> None:
    made = own.made("masked_sft", seed=0)
    assert len(made.traces) == 20, "one usable request"
    errors = set()
    for trace in made.traces:
        assert sums_to(trace, trace.turns[-1].visible)
        segments = trace.turns[-1].segments
        errors |= {(segments[0].text, segment.text) for segment in segments if segment.role is Role.ERROR}
    assert errors == {("4 5", " 3"), ("11", "11")}
    assert 0 < made.num_kept_clean < 20


def test_controls_have_the_same_requests_and_as_many_undos(own: OwnTraces) -> None:
    traces = own.made("masked_sft", seed=3)
    undone = [len(trace.turns[-1].segments) > 1 for trace in traces.traces]
    plain = own.made("plain", seed=3)
    assert [trace.turns[-1].visible for trace in plain.traces] == [each.turns[-1].visible for each in traces.traces]
    assert plain.num_errors == own.made("own", seed=3).num_errors == 0
    random_undo = own.made("random_undo", seed=3)
    assert [len(trace.turns[-1].segments) > 1 for trace in random_undo.traces] == undone
    for name in ("plain", "own", "random_undo", "perturbed"):
        assert [trace.prompt for trace in own.made(name, 3).traces] == [trace.prompt for trace in traces.traces]
    assert own.made("random_undo", seed=4).traces != random_undo.traces


def test_random_undos_stand_at_right_steps_only(own: OwnTraces) -> None:
    """What is written before the undo is the beginning of a right attempt, so some continuation of it is right."""
    right = own.usable[0].right
    seen = set()
    for seed in range(5):
        for trace in own.made("random_undo", seed).traces:
            segments = trace.turns[-1].segments
            assert trace.turns[-1].visible in right
            if len(segments) > 1:
                (error,) = [segment.text for segment in segments if segment.role is Role.ERROR]
                before = segments[0].text if segments[0].role is Role.PREFIX else ""
                assert any(text.startswith(before + error) for text in right)
                assert error in [step for text in right for step in words(text)]
                seen.add(before + error)
    assert seen == {"4", "4 6", "1", "1 2", "1 2 7"}, "every right step has its turn"


def test_without_a_wrong_and_a_right_attempt_there_is_nothing_to_train_on(own: OwnTraces) -> None:
    with pytest.raises(InputError, match="no request has both"):
        OwnTraces(own.task, own.attempts[1:], own.settings).made("masked_sft", 0)


def test_steps_joined_are_the_answer() -> None:
    text = "First, 3 + 4 = 7. Then 7 * 2 = 14.\n\nSo it costs $1.50 more.\n#### 14"
    assert sentences(text) == ["First, 3 + 4 = 7.", " Then 7 * 2 = 14.\n\n", "So it costs $1.50 more.\n", "#### 14"]
    code = "```python\ndef f(x):\n\n    return x\n```"
    assert lines(code) == ["```python\n", "def f(x):\n\n", "    return x\n", "```"]
    assert words("SELECT a\n FROM t ") == ["SELECT", " a", "\n FROM", " t "]
    for cut in (sentences, lines, words):
        assert "".join(cut(text)) == text
        assert cut("") == []
