"""What the builders find wrong to say."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from holdfast.config import InputError
from holdfast.data import read_traces
from holdfast.records import Role, Trace, answer, context
from holdfast.tokens import apply_undo, find_undo_id, tokenize_all
from holdfast.traces import (
    Budget,
    Error,
    Perturb,
    RightAnswer,
    Uniform,
    WrongStart,
    choose_builder,
    departures,
    make_traces,
    with_errors,
    write_made,
)
from holdfast.worlds import world_traces
from holdfast.worlds.tokenizer import build_tokenizer
from holdfast_studies.worlds.arithmetic import ArithmeticWorld
from holdfast_studies.worlds.arithmetic_tokenizer import arithmetic_tokenizer

ONE = Budget((1, 1), (1, 1))


def reference(text: str, request: str = "ask") -> RightAnswer:
    return RightAnswer(Trace((context("user", request), answer(text))))


def wrong_words(trace: Trace) -> list[str]:
    return [segment.text for segment in trace.turns[-1].segments if segment.role is Role.ERROR]


def test_an_error_is_written_before_its_place_with_the_space_that_stands_there() -> None:
    trace = with_errors(reference("a b\nc d"), [Error(0, ("x",)), Error(2, ("y", "z"))])
    assert [(part.role.label, part.text) for part in trace.turns[-1].segments] == [
        ("error", "x"), ("undo", ""), ("correction", "a b"), ("error", "\ny z"), ("undo", ""), ("correction", "\nc d"),
    ]  # fmt: skip


def test_an_answer_without_errors_is_a_plain_response() -> None:
    assert with_errors(reference("a b"), []).turns[-1] == answer("a b")


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("a x c d", [Error(1, ("x",))]),  # replaced
        ("a b x y c d", [Error(2, ("x", "y"))]),  # put in
        ("a c d", [Error(1, ("c",))]),  # left out: what follows comes too early
        ("a b c", []),  # merely too short
        ("a b c d x", [Error(4, ("x",))]),
        ("x b c y", [Error(0, ("x",)), Error(3, ("y",))]),
    ],
)
def test_departures_of_a_sample(written: str, found: list[Error]) -> None:
    assert departures("a b c d".split(), written.split(), Budget((1, 9), (3, 3)), random.Random(0)) == found


def test_a_departure_is_cut_to_the_length_of_an_error() -> None:
    assert departures(["a"], "b c d e".split(), Budget((1, 1), (2, 2)), random.Random(0)) == [Error(0, ("b", "c"))]


@pytest.mark.parametrize(
    ("text", "request_", "at", "expected"),
    [
        ("it costs 24 coins", "", 2, {"14", "23", "25", "34", "42"}),
        ("5 + 3", "", 1, {"-", "*", "/"}),
        ("SELECT MAX(age)", "", 1, {"MIN(age)", "AVG(age)", "SUM(age)", "COUNT(age)"}),
        ("river stone", "copy : river stone", 0, {"stone"}),
        ("SELECT Player_ID", "CREATE TABLE t (Player_ID, Coach_ID)", 1, {"Coach_ID"}),
        ("nothing here", "", 0, set()),
    ],
)
def test_plausible_words(text: str, request_: str, at: int, expected: set[str]) -> None:
    own = reference(text, request_)
    assert set(Perturb([own]).alternatives(own, at)) == expected


def test_digits_without_end_are_no_number_to_get_wrong() -> None:
    long = reference("7" * 5000 + " and 5")
    assert Perturb([long]).places(long) == [2]


def test_a_conversation_without_an_answer_is_named() -> None:
    with pytest.raises(InputError, match="that which begins 'hello' does not"):
        RightAnswer(Trace((context("user", "hello"),)))


def test_values_of_a_template_are_found_from_the_other_answers() -> None:
    rows = [reference(f"take {stuff} and {tool}") for stuff, tool in (("oskel", "hask"), ("pelm", "glim"))]
    builder = Perturb(rows)
    assert [builder.alternatives(rows[0], at) for at in range(4)] == [[], ["pelm"], [], ["glim"]]


def test_a_word_that_the_vocabulary_lacks_is_no_error() -> None:
    """In base 5 a step's value stays below 25: 'a0.3:25' would be the token for the unknown."""
    tokenizer = arithmetic_tokenizer(ArithmeticWorld())
    row = reference("a0.2:4 a0.3:24 stop", "x0:1")
    free, heeding = (choose_builder("perturb", [row.trace], tokenizer=each) for each in (None, tokenizer))
    assert isinstance(free, Perturb)
    assert isinstance(heeding, Perturb)
    assert {"a0.3:25", "a0.3:34", "a0.3:23"} <= set(free.alternatives(row, 1))
    assert set(heeding.alternatives(row, 1)) == {"a0.2:24", "a0.4:24", "a0.3:14", "a0.3:23"}
    assert heeding.places(row) == [0, 1]


def test_an_error_is_never_the_right_word() -> None:
    rows = [RightAnswer(row) for row in world_traces("world:safety/tune/recipe", limit=60).traces]
    for builder in (Perturb(rows), Uniform(build_tokenizer())):
        for number, row in enumerate(rows):
            for error in builder(row, Budget((1, 3), (1, 3)), random.Random(number)):
                assert error.words[0] != (row.words[error.at] if error.at < len(row.words) else None)


def test_random_words_are_single_tokens_of_the_vocabulary() -> None:
    tokenizer = build_tokenizer()
    words = Uniform(tokenizer).words
    assert len(words) > 250
    assert all(len(tokenizer(word, add_special_tokens=False)["input_ids"]) == 1 for word in words)
    assert not set(words) & set(tokenizer.all_special_tokens)


def test_a_refusal_begins_wrongly_and_is_then_given_whole() -> None:
    made = make_traces([reference("i will not").trace] * 20, WrongStart(["take oskel and", "i will"]), clean=0)
    for trace in made.traces:
        first, undo, correction = trace.turns[-1].segments
        assert (first.role, undo.role, correction.role) == (Role.ERROR, Role.UNDO, Role.CORRECTION)
        assert "take oskel and".startswith(first.text)
        assert correction.text == "i will not"


def test_shares_and_numbers_are_those_asked_for() -> None:
    rows = list(world_traces("world:safety/tune/recipe", limit=300).traces)
    builder = Perturb([RightAnswer(row) for row in rows])
    made = make_traces(rows, builder, budget=Budget((2, 3), (2, 2)), clean=0.25, seed=1)
    assert 50 <= made.num_kept_clean <= 100
    assert made.num_without_place == 0
    for trace in made.traces:
        errors = wrong_words(trace)
        assert len(errors) in (0, 2, 3)
        assert all(len(error.split()) == 2 for error in errors)
    assert made == make_traces(rows, builder, budget=Budget((2, 3), (2, 2)), clean=0.25, seed=1)
    assert made.traces != make_traces(rows, builder, budget=Budget((2, 3), (2, 2)), clean=0.25, seed=2).traces


def test_traces_undo_to_the_reference_token_by_token() -> None:
    rows = list(world_traces("world:safety/tune/recipe", limit=40).traces)
    made = make_traces(rows, Perturb([RightAnswer(row) for row in rows]), clean=0)
    tokenizer = build_tokenizer()
    tokenizer.add_tokens(["<UNDO>"], special_tokens=True)
    undo = find_undo_id(tokenizer)
    assert undo is not None
    (traced, _), (plain, _) = tokenize_all(made.traces, tokenizer), tokenize_all(rows, tokenizer)
    assert all(undo in row.ids for row in traced)
    assert [apply_undo(row.ids, undo) for row in traced] == [row.ids for row in plain]


@pytest.mark.parametrize("budget", [((0, 1), (1, 1)), ((2, 1), (1, 1)), ((1, 1), (0, 0))])
def test_impossible_budgets(budget: tuple[tuple[int, int], tuple[int, int]]) -> None:
    with pytest.raises(InputError, match="expected MIN-MAX"):
        Budget(*budget)


def test_an_answer_without_a_word_is_no_reference() -> None:
    with pytest.raises(InputError, match="that to 'why' is empty"):
        RightAnswer(Trace((context("user", "why"), answer(" "))))


def test_a_conversation_with_an_answer_of_weight_0_is_written(tmp_path: Path) -> None:
    """In a trace all that comes before the last answer is context anyway; its weight kept the file from being written."""
    earlier = (context("user", "1 + 1 ?"), context("assistant", "3", {"weight": 0, "reasoning_content": "hm"}))
    row = Trace((*earlier, context("user", "2 + 3 ?"), answer("it is 5 .")))
    made = make_traces([row], Perturb([RightAnswer(row)]), clean=0.0)
    write_made(tmp_path / "traces.jsonl", made)
    (read,) = read_traces(tmp_path / "traces.jsonl").traces
    assert read == made.traces[0]
    assert read.turns[1].other_fields == {"reasoning_content": "hm"}
