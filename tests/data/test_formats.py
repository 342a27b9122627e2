"""Each shape of row, what becomes of it, and what is said when it is not right."""

import json

import pytest

from holdfast.data import DataError, read_traces
from holdfast.records import Role, Segment, Trace, Turn, answer, context

TRACE = {
    "prompt": "2+2?",
    "segments": [
        {"role": "prefix", "text": "it is "},
        {"role": "error", "text": "5"},
        {"role": "undo"},
        {"role": "correction", "text": "4"},
    ],
}


@pytest.fixture
def read(tmp_path):
    def go(*rows, **options):
        path = tmp_path / "data.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return read_traces(path, **options)

    return go


def refused(read, *rows):
    with pytest.raises(DataError) as caught:
        read(*rows)
    return [(problem.line, problem.field, problem.message) for problem in caught.value.problems]


def message(role, content, **more):
    return {"role": role, "content": content, **more}


USER, REPLY = message("user", "hi"), message("assistant", "hello")
ASKED, SAID = context("user", "hi"), answer("hello")


def test_messages_train_every_assistant_turn(read):
    row = {"messages": [message("system", "be kind"), USER, REPLY, message("tool", "42"), message("assistant", "bye")]}
    data = read(row)
    assert data.traces == (Trace((context("system", "be kind"), ASKED, SAID, context("tool", "42"), answer("bye"))),)
    assert data.format == "messages"
    assert "every assistant turn is trained" in data.sentence


def test_a_developer_speaks_as_the_system(read):
    assert read({"messages": [message("developer", ""), REPLY]}).traces[0].turns[0] == context("system", "")


def test_plain_prompt_and_completion_become_two_turns_and_the_sentence_says_so(read):
    data = read({"prompt": "hi", "completion": "hello"})
    assert data.traces == (Trace((ASKED, SAID)),)
    assert data.format == "prompt-completion"
    assert "a chat template is applied (TRL would feed the two as raw text)" in data.sentence


def test_conversational_prompt_and_completion_train_the_completion_only(read):
    data = read({"prompt": [USER, REPLY, USER], "completion": [message("assistant", "again"), USER]})
    assert data.format == "prompt-completion-chat"
    assert data.traces == (Trace((ASKED, context("assistant", "hello"), ASKED, answer("again"), ASKED)),)


@pytest.mark.parametrize("more", [{}, {"input": ""}, {"input": None}])
def test_alpaca_without_an_input(read, more):
    data = read({"instruction": "hi", "output": "hello", **more})
    assert data.traces == (Trace((ASKED, SAID)),)
    assert data.format == "alpaca"
    assert "ignored" not in data.sentence


def test_alpaca_with_an_input(read):
    data = read({"instruction": "add", "input": "2 2", "output": "hello"})
    assert data.traces == (Trace((context("user", "add\n\n2 2"), SAID)),)


@pytest.mark.parametrize(
    ("request_column", "answer_column"),
    [("prompt", "response"), ("question", "answer"), ("query", "response"), ("input", "output"), ("prompt", "answer")],
)
def test_a_request_and_an_answer_by_other_names(read, request_column, answer_column):
    data = read({request_column: "hi", answer_column: "hello", "id": 7, "context": ""})
    assert data.traces == (Trace((ASKED, SAID)),)
    assert data.format == f"{request_column}-{answer_column}"
    assert f"'{request_column}' is the user turn, '{answer_column}' is the trained answer" in data.sentence
    assert data.sentence.endswith("; other columns ignored: id, context")


def test_an_instruction_whose_answer_is_called_response_has_alpacas_input_and_history(read):
    data = read({"instruction": "add", "input": "2 2", "response": "hello", "history": [["hi", "hello"]]})
    assert data.traces == (Trace((ASKED, SAID, context("user", "add\n\n2 2"), SAID)),)
    assert data.format == "instruction-response"
    assert "ignored" not in data.sentence


def test_the_columns_of_trl_and_alpaca_come_before_other_names(read):
    assert read({"prompt": "hi", "completion": "hello", "answer": "4"}).format == "prompt-completion"
    assert read({"instruction": "hi", "output": "hello", "response": "4"}).format == "alpaca"
    assert read({"question": "hi", "answer": "hello", "text": "all"}).format == "text"


def test_text_is_one_document(read):
    data = read({"text": "once upon a time"})
    assert data.traces == (Trace((Turn("text", (Segment(Role.RESPONSE, "once upon a time"),)),)),)
    assert data.format == "text"
    assert "without a chat template" in data.sentence


@pytest.mark.parametrize("undo", [{}, {"text": ""}, {"text": None}])
def test_our_trace_form(read, undo):
    segments = [*TRACE["segments"][:2], {"role": "undo", **undo}, TRACE["segments"][3]]
    data = read({"prompt": "2+2?", "segments": segments})
    expected = (
        Segment(Role.PREFIX, "it is "),
        Segment(Role.ERROR, "5"),
        Segment(Role.UNDO),
        Segment(Role.CORRECTION, "4"),
    )
    assert data.traces == (Trace((context("user", "2+2?"), Turn("assistant", expected))),)
    assert data.traces[0].turns[-1].visible == "it is 4"
    assert data.format == "trace"


def test_the_prompt_of_a_trace_may_be_a_conversation_or_a_string_in_the_same_file(read):
    data = read(TRACE, {**TRACE, "prompt": [USER, REPLY, USER]})
    assert data.traces[1].turns[:3] == (ASKED, context("assistant", "hello"), ASKED)


@pytest.mark.parametrize(
    ("row", "name", "unused"),
    [
        ({"messages": [USER, REPLY], "prompt": "hi", "prompt_id": 7}, "messages", "prompt, prompt_id"),
        ({"instruction": "hi", "output": "hello", "text": "all"}, "alpaca", "text"),
        (
            {"messages": [{**USER, "name": "Ann"}, {**REPLY, "mood": 0}]},
            "messages",
            "messages[].name, messages[].mood",
        ),
        ({"prompt": "hi", "segments": [{"role": "response", "text": "a", "id": 1}]}, "trace", "segments[].id"),
        ({"text": "a", **{f"c{i}": i for i in range(10)}}, "text", "c0, c1, c2, c3, c4, c5, c6, c7 and 2 more"),
        ({"text": "a", "odd\nname": 1}, "text", "odd\\nname"),
        ({"text": "a", "x" * 100: 1}, "text", "x" * 57 + "..."),
    ],
)
def test_columns_that_are_not_read_are_named(read, row, name, unused):
    data = read(row)
    assert data.format == name
    assert data.sentence.endswith(f"; other columns ignored: {unused}")


def test_columns_of_nulls_are_not_worth_naming(read):
    assert "ignored" not in read({"text": "a", "source": None, "messages": None}).sentence
    assert "ignored" not in read({"messages": [{**USER, "name": None}, {**REPLY, "tool_calls": None}]}).sentence


def test_the_format_is_that_of_all_rows_and_a_row_that_fits_none_is_a_bad_row_of_it(read):
    problems = refused(
        read, {}, {"prompt": "a", "completion": "b"}, {"prompt": "a"}, {"prompt": "a", "completion": None}
    )
    assert problems == [
        (1, "prompt", "expected a non-empty string, got nothing"),
        (3, "completion", "expected a non-empty string, got nothing"),
        (4, "completion", "expected a non-empty string, got null"),
    ]


def test_a_mixed_file_names_the_formats_and_the_lines(read):
    rows = [{"text": "a"}] * 10 + [{"messages": [USER, REPLY]}, {"text": "b"}, {"prompt": "a", "completion": "b"}]
    [(line, field, text)] = refused(read, *rows)
    assert (line, field) == (None, None)
    assert text == (
        "expected one format per file, got 'text' (line 1, 2, 3, 4, 5, 6, 7, 8 and 3 more)"
        " and 'messages' (line 11) and 'prompt-completion' (line 13)"
    )


def test_plain_and_conversational_pairs_do_not_mix_and_no_skip_bad_excuses_it(read):
    rows = [{"prompt": "a", "completion": "b"}, {"prompt": [USER], "completion": [REPLY]}]
    with pytest.raises(DataError, match=r"'prompt-completion' \(line 1\) and 'prompt-completion-chat' \(line 2\)"):
        read(*rows, skip_bad=5)


@pytest.mark.parametrize(
    ("rows", "got"),
    [
        ([{"mesages": []}], "got mesages; did you mean 'messages'?"),
        (
            [{"prompt": "a", "chosen": "b"}, {"rejected": "c"}],
            "got prompt, chosen, rejected; pairs of a preferred and a rejected answer are not trained: to train the"
            " preferred one rename 'chosen'",
        ),
        (
            [{"Prompt": "a", "Response": "b"}],
            "got Prompt, Response; rename 'Prompt' to 'prompt' and 'Response' to 'response'",
        ),
        (
            [{"user": "a", "assistant": "b"}],
            "got user, assistant; rename 'user' to 'prompt' and 'assistant' to 'completion'",
        ),
        ([{"data": [{"text": "a"}]}], "got data; if 'data' is the list of rows, write a file of that list alone"),
        ([{"hello": "a", "world": 1}], "got hello, world"),
        ([{}], "got no columns"),
    ],
)
def test_unknown_columns(read, rows, got):
    [(line, _, text)] = refused(read, *rows)
    assert line is None
    assert text.startswith(
        "expected the columns of one format: a request (prompt, instruction, question, query, input) and an answer"
        " (completion, response, answer, output), or one of messages, conversations, text, or prompt and segments; got"
    )
    assert text.endswith(got)


def trace(*segments):
    return {"prompt": "2+2?", "segments": list(segments)}


ERROR, UNDO, OTHER = {"role": "error", "text": "5"}, {"role": "undo"}, {"role": "prefix", "text": "a"}


@pytest.mark.parametrize(
    ("row", "field", "text"),
    [
        # messages
        ({"messages": "hi"}, "messages", "expected a non-empty list of messages, got a string"),
        ({"messages": []}, "messages", "expected a non-empty list of messages, got an empty list"),
        ({"messages": ["hi"]}, "messages[0]", "expected an object with 'role' and 'content', got a string"),
        ({"messages": [USER]}, "messages", "expected at least one assistant turn, got user"),
        ({"messages": [{"content": "a"}]}, "messages[0].role", "expected a string, got nothing"),
        (
            {"messages": [USER, {"role": "assistant"}]},
            "messages[1].content",
            "expected a non-empty string, got nothing",
        ),
        ({"messages": [message("user", 3), REPLY]}, "messages[0].content", "expected a string, got a number"),
        ({"messages": [message("user", None), REPLY]}, "messages[0].content", "expected a string, got null"),
        (
            {"messages": [message("user", [{}]), REPLY]},
            "messages[0].content[0].type",
            "expected 'text' (only text can be trained), got null",
        ),
        ({"messages": [message("user", {}), REPLY]}, "messages[0].content", "expected a string, got an object"),
        ({"messages": [message("user", True), REPLY]}, "messages[0].content", "expected a string, got a boolean"),
        (
            {"messages": [USER, message("assistant", ""), REPLY]},
            "messages[1].content",
            "expected a non-empty string, got an empty string",
        ),
        (
            {"messages": [USER, message("assistant", " \n")]},
            "messages[1].content",
            "expected a non-empty string, got only whitespace",
        ),
        (
            {"messages": [USER, message("asistant", "a")]},
            "messages[1].role",
            "expected system, user, assistant or tool, got 'asistant'; did you mean 'assistant'?",
        ),
        (
            {"messages": [message("User", "a"), REPLY]},
            "messages[0].role",
            "expected system, user, assistant or tool, got 'User'; did you mean 'user'?",
        ),
        (
            {"messages": [message("q" * 10**6, "a"), REPLY]},
            "messages[0].role",
            f"expected system, user, assistant or tool, got '{'q' * 57}...'",
        ),
        (
            {"messages": [USER, message("assistant", None, tool_calls=[{"name": "f"}])]},
            "messages",
            "expected at least one answer to train, got only answers of weight 0 or that call tools",
        ),
        (
            {"messages": [REPLY, USER, REPLY]},
            "messages[0]",
            "expected a user turn before the first answer, got an answer",
        ),
        # ShareGPT
        (
            {"conversations": [{"from": "humn", "value": "a"}, {"from": "gpt", "value": "b"}]},
            "conversations[0].from",
            "expected system, human, gpt, function_call or observation, got 'humn'; did you mean 'human'?",
        ),
        (
            {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": ""}]},
            "conversations[1].value",
            "expected a non-empty string, got an empty string",
        ),
        # pairs, Alpaca, text
        ({"prompt": 1, "completion": "a"}, "prompt", "expected a non-empty string, got a number"),
        ({"prompt": "", "completion": "a"}, "prompt", "expected a non-empty string, got an empty string"),
        ({"prompt": "a", "completion": ""}, "completion", "expected a non-empty string, got an empty string"),
        ({"prompt": "a", "completion": [REPLY]}, "completion", "expected a non-empty string, got a list"),
        ({"prompt": [USER], "completion": "a"}, "completion", "expected a non-empty list of messages, got a string"),
        ({"prompt": [], "completion": [REPLY]}, "prompt", "expected a non-empty list of messages, got an empty list"),
        ({"prompt": [USER], "completion": [USER]}, "completion", "expected at least one assistant turn, got user"),
        ({"instruction": "a", "output": " "}, "output", "expected a non-empty string, got only whitespace"),
        ({"instruction": "a", "output": "b", "input": 3}, "input", "expected a string, got a number"),
        ({"question": "a", "answer": ""}, "answer", "expected a non-empty string, got an empty string"),
        ({"prompt": [USER], "response": "b"}, "prompt", "expected a non-empty string, got a list"),
        ({"text": ""}, "text", "expected a non-empty string, got an empty string"),
        ({"text": 1.5}, "text", "expected a non-empty string, got a number"),
        # traces
        ({"prompt": 3, "segments": [OTHER]}, "prompt", "expected a non-empty string, got a number"),
        ({"prompt": [{}], "segments": [OTHER]}, "prompt[0].role", "expected a string, got nothing"),
        (trace(), "segments", "expected a non-empty list of segments, got an empty list"),
        (trace("a"), "segments[0]", "expected an object with 'role' and 'text', got a string"),
        (trace({"text": "a"}), "segments[0].role", "expected a string, got nothing"),
        (trace({"role": "prefix"}), "segments[0].text", "expected a non-empty string, got nothing"),
        (trace({"role": "prefix", "text": ""}), "segments[0].text", "expected a non-empty string, got an empty string"),
        (
            trace({"role": "error", "text": ""}, UNDO),
            "segments[0].text",
            "expected a non-empty string, got an empty string",
        ),
        (trace({"role": "prefix", "text": 1}), "segments[0].text", "expected a non-empty string, got a number"),
        (
            trace(OTHER, {"role": "corection", "text": "a"}),
            "segments[1].role",
            "expected one of response, prefix, error, undo, correction, sample, decision, got 'corection'"
            "; did you mean 'correction'?",
        ),
        (
            trace({"role": "prompt", "text": "a"}),
            "segments[0].role",
            "expected a role of the answer (context goes into 'prompt'), got 'prompt'",
        ),
        (
            trace({"role": "prompt"}, OTHER),
            "segments[0]",
            "expected 'prompt' without text to be the last of several segments, got another place",
        ),
        (
            trace(ERROR, {"role": "undo", "text": "5"}),
            "segments[1].text",
            "expected no text in an 'undo' segment, got a string",
        ),
        (trace(UNDO), "segments[0]", "expected an 'error' directly before this 'undo', got the start"),
        (trace(OTHER, UNDO), "segments[1]", "expected an 'error' directly before this 'undo', got 'prefix'"),
        (trace(ERROR, UNDO, UNDO), "segments[2]", "expected an 'error' directly before this 'undo', got 'undo'"),
        (trace(OTHER, ERROR), "segments[1]", "expected an 'undo' directly after this 'error', got the end"),
        (trace(ERROR, OTHER, UNDO), "segments[0]", "expected an 'undo' directly after this 'error', got 'prefix'"),
        (trace(ERROR, ERROR, UNDO), "segments[0]", "expected an 'undo' directly after this 'error', got 'error'"),
    ],
)
def test_a_bad_row_says_field_expectation_and_finding(read, row, field, text):
    good = {"messages": [USER, REPLY]} if "messages" in row else None
    rows = [row] if good is None else [good, row]
    assert refused(read, *rows)[0] == (len(rows), field, text)


def test_blanks_between_words_are_a_segment(read):
    assert read(trace(OTHER, {"role": "response", "text": "\n "})).traces[0].turns[1].visible == "a\n "


def test_values_that_only_parquet_has_are_described_by_their_type(tmp_path):
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"text": [b"raw"]}), tmp_path / "a.parquet")
    with pytest.raises(
        DataError, match=r"a.parquet:1: field 'text': expected a non-empty string, got a value of type bytes"
    ):
        read_traces(tmp_path / "a.parquet")


def test_sharegpt_is_a_conversation_under_other_names(read):
    turns = [("system", "be kind"), ("human", "hi"), ("gpt", "hello"), ("human", "bye"), ("gpt", "so long")]
    theirs = read({"conversations": [{"from": who, "value": text} for who, text in turns]})
    names = {"human": "user", "gpt": "assistant"}
    ours = [message(names.get(who, who), text) for who, text in turns]
    assert theirs.format == "sharegpt"
    assert theirs.traces == read({"messages": ours}).traces == read({"conversations": ours}).traces
    extra = read({"conversations": [{"from": "human", "value": "a", "mood": 0}, {"from": "gpt", "value": "b"}]})
    assert extra.sentence.endswith("; other columns ignored: conversations[].mood")
