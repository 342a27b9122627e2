"""Columns that change what a row means: each is honoured, or the row is refused by line and field."""

import json

import pytest

from holdfast.data import DataError, read_traces, write_traces
from holdfast.records import Trace, answer, chat_arguments, chat_messages, context, setup

USER, REPLY = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}
ASKED, SAID = context("user", "hi"), answer("hello")
PAIR = {"prompt": "hi", "completion": "hello"}
ALPACA = {"instruction": "hi", "output": "hello"}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}


@pytest.fixture
def read(tmp_path):
    def go(*rows, **options):
        path = tmp_path / "data.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return read_traces(path, **options)

    return go


def refused(read, row):
    with pytest.raises(DataError) as caught:
        read(row)
    problem = next(problem for problem in caught.value.problems if not problem.fatal)
    assert problem.line == 1
    return problem.field, problem.message


def chat(*messages, **columns):
    return {"messages": [USER, *messages], **columns}


# --- weight ---------------------------------------------------------------------------------------------------------


def test_weight_0_is_context_and_weight_1_is_trained(read):
    data = read(chat({**REPLY, "weight": 0}, USER, {**REPLY, "weight": 1.0}))
    assert [turn.is_target for turn in data.traces[0].turns] == [False, False, False, True]
    assert "assistant turns that are context, not trained: 1 of weight 0" in data.sentence
    assert "ignored" not in data.sentence
    assert chat_messages(data.traces[0].turns)[1] == REPLY  # no template and no server is shown a weight


def test_weights_of_sharegpt_are_the_same(read):
    said = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b", "weight": 0}]
    data = read({"conversations": [*said, *said[:1], {"from": "gpt", "value": "c"}]})
    assert [turn.is_target for turn in data.traces[0].turns] == [False, False, False, True]


@pytest.mark.parametrize(
    ("row", "field", "message"),
    [
        (chat({**REPLY, "weight": 0.5}), "messages[1].weight", "expected 0 (context) or 1 (trained), got 0.5"),
        (chat({**REPLY, "weight": "0"}), "messages[1].weight", "expected 0 (context) or 1 (trained), got a string"),
        (chat({**REPLY, "weight": False}), "messages[1].weight", "expected 0 (context) or 1 (trained), got a boolean"),
        (
            chat({**USER, "weight": 1}, REPLY),
            "messages[1].weight",
            "expected weight 1 on answers only, got it on user, which is context",
        ),
        (
            {"prompt": [USER, {**REPLY, "weight": 1}, USER], "completion": [REPLY]},
            "prompt[1].weight",
            "expected weight 1 on answers only, got it on a turn of the prompt, which is context",
        ),
        (
            chat({**REPLY, "weight": 0}),
            "messages",
            "expected at least one answer to train, got only answers of weight 0 or that call tools",
        ),
    ],
)
def test_other_weights_are_refused(read, row, field, message):
    assert refused(read, row) == (field, message)


# --- what is not text -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["images", "image", "videos", "audios"])
@pytest.mark.parametrize("row", [chat(REPLY), PAIR, ALPACA, {"text": "a"}], ids=["chat", "pair", "alpaca", "text"])
def test_pictures_are_refused_in_every_format(read, row, column):
    expected = (column, "expected nothing here (only text can be trained), got a list")
    assert refused(read, {**row, column: ["a.png"]}) == expected
    for nothing in (None, [], ""):
        assert read({**row, column: nothing}).traces


def test_content_in_parts_of_text_is_their_text(read):
    parts = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    assert read(chat({"role": "assistant", "content": parts})).traces == (Trace((ASKED, SAID)),)
    picture = {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image", "url": "a.png"}]}
    assert refused(read, {"messages": [picture, REPLY]}) == (
        "messages[0].content[1].type",
        "expected 'text' (only text can be trained), got 'image'",
    )
    assert refused(read, chat({"role": "assistant", "content": []}))[0] == "messages[1].content"


# --- system, history ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [chat(REPLY), PAIR, ALPACA], ids=["messages", "pair", "alpaca"])
def test_a_system_column_is_the_system_turn(read, row):
    data = read({**row, "system": "be kind"})
    assert data.traces == (Trace((context("system", "be kind"), ASKED, SAID)),)
    assert data.sentence.endswith("'system' begins the conversation (1 row)")
    for blank in ("", "  "):
        data = read({**row, "system": blank})
        assert data.traces == (Trace((ASKED, SAID)),)
        assert "'system'" not in data.sentence


def test_two_system_prompts_are_refused_and_one_said_twice_is_not(read):
    own = [{"role": "system", "content": "be kind"}, USER, REPLY]
    assert len(read({"messages": own, "system": "be kind"}).traces[0].turns) == 3
    assert refused(read, {"messages": own, "system": "be rude"}) == (
        "system",
        "expected nothing here beside a system turn that says something else, got a string",
    )


def test_history_is_earlier_rounds_whose_answers_are_trained_too(read):
    data = read({**ALPACA, "history": [["a", "b"], ["c", "d"]], "system": "s"})
    turns = (context("user", "a"), answer("b"), context("user", "c"), answer("d"), ASKED, SAID)
    assert data.traces == (Trace((context("system", "s"), *turns)),)
    assert read({**ALPACA, "history": []}).traces == read({**ALPACA, "history": None}).traces
    assert refused(read, {**ALPACA, "history": [["a"]]}) == (
        "history[0]",
        "expected a pair of a request and an answer, got a list of 1",
    )
    assert refused(read, {**ALPACA, "history": [["a", ""]]})[0] == "history[0][1]"


@pytest.mark.parametrize("row", [chat(REPLY), PAIR, {"text": "a"}], ids=["messages", "pair", "text"])
def test_history_elsewhere_is_refused(read, row):
    assert refused(read, {**row, "history": [["a", "b"]]}) == (
        "history",
        "expected no such column in this format, got a list",
    )


# --- tools, arguments of the template -------------------------------------------------------------------------------


@pytest.mark.parametrize("tools", [[TOOL], json.dumps([TOOL])], ids=["list", "json"])
def test_tools_are_kept_for_the_chat_template(read, tools):
    data = read({**PAIR, "tools": tools})
    assert data.traces == (Trace((setup({"tools": [TOOL]}), ASKED, SAID)),)
    assert chat_arguments(data.traces[0].turns) == {"tools": [TOOL]}
    assert chat_messages(data.traces[0].turns) == [USER, REPLY]
    assert data.sentence.endswith("'tools' goes to the chat template (1 row)")


def test_template_arguments_are_kept_and_training_keeps_its_own(read):
    data = read({**PAIR, "chat_template_kwargs": {"enable_thinking": False}})
    assert chat_arguments(data.traces[0].turns) == {"chat_template_kwargs": {"enable_thinking": False}}
    assert refused(read, {**PAIR, "chat_template_kwargs": {"tokenize": True}}) == (
        "chat_template_kwargs.tokenize",
        "expected a variable of the chat template, got one that training sets itself",
    )
    assert refused(read, {**PAIR, "chat_template_kwargs": [1]})[0] == "chat_template_kwargs"


@pytest.mark.parametrize(
    ("tools", "field"), [({"name": "add"}, "tools"), ("[{", "tools"), (["add"], "tools[0]"), ("[1] 2", "tools")]
)
def test_tools_that_are_none_are_refused(read, tools, field):
    assert refused(read, {**PAIR, "tools": tools})[0] == field


@pytest.mark.parametrize(("part", "got"), [("NaN", "got NaN"), (r'"\ud800"', "got a lone surrogate")])
def test_json_in_a_string_is_as_strict_as_a_file(read, part, got):
    for tools in (f'[{{"name": {part}}}]', f"[[{part}]]"):
        field, message = refused(read, {**PAIR, "tools": tools})
        assert field == "tools"
        assert got in message


@pytest.mark.parametrize("column", [{"system": "s"}, {"tools": [TOOL]}, {"chat_template_kwargs": {"a": 1}}])
def test_a_document_has_no_turns_to_put_them_in(read, column):
    [name] = column
    field, message = refused(read, {"text": "a", **column})
    assert field == name
    assert message.startswith("expected nothing here beside 'text' (a document has no turns)")


CALLS = [
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "assistant", "tool_calls": [{"name": "add", "arguments": '{"a": 1}'}]},
    {"role": "assistant", "content": "", "function_call": {"name": "add", "arguments": '{"a": 1}'}},
]


@pytest.mark.parametrize("call", CALLS, ids=["openai", "flat", "legacy"])
def test_tool_calls_and_results_are_context(read, call):
    result = {"role": "tool", "content": "2", "tool_call_id": "x", "name": "add"}
    data = read(chat(call, result, REPLY))
    calling = context("assistant", "", {"tool_calls": [CALL]})
    assert data.traces == (Trace((ASKED, calling, context("tool", "2", {"tool_call_id": "x", "name": "add"}), SAID)),)
    assert data.sentence.endswith("assistant turns that are context, not trained: 1 with tool calls")


def test_llama_factorys_function_calls_are_the_same(read):
    said = [("human", "hi"), ("function_call", '{"name": "add", "arguments": {"a": 1}}'), ("observation", "2")]
    data = read({"conversations": [{"from": who, "value": text} for who, text in [*said, ("gpt", "hello")]]})
    calling = context("assistant", "", {"tool_calls": [CALL]})
    assert data.traces == (Trace((ASKED, calling, context("tool", "2"), SAID)),)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        ({"tool_calls": "x"}, "messages[1].tool_calls"),
        ({"tool_calls": [3]}, "messages[1].tool_calls[0]"),
        ({"tool_calls": [{"function": {"arguments": {}}}]}, "messages[1].tool_calls[0].name"),
        ({"tool_calls": [{"name": "f", "arguments": "{"}]}, "messages[1].tool_calls[0].arguments"),
        ({"tool_calls": [{"name": "f", "arguments": [1]}]}, "messages[1].tool_calls[0].arguments"),
        ({"tool_calls": [CALL], "weight": 1}, "messages[1].weight"),
    ],
)
def test_calls_that_are_none_are_refused(read, call, field):
    assert refused(read, chat({"role": "assistant", "content": "", **call}, REPLY))[0] == field


def test_a_user_calls_no_tools(read):
    assert refused(read, {"messages": [{**USER, "tool_calls": [CALL]}, REPLY]}) == (
        "messages[0].role",
        "expected tool calls in assistant turns only, got 'user'",
    )


# --- thoughts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_thoughts_are_kept_under_one_name(read, name):
    data = read(chat({**REPLY, name: "they greet me"}))
    assert data.traces == (Trace((ASKED, answer("hello", fields={"reasoning_content": "they greet me"}))),)
    assert "ignored" not in data.sentence
    assert read(chat({**REPLY, name: " "})).traces == (Trace((ASKED, SAID)),)


def test_two_thoughts_are_refused(read):
    both = {**REPLY, "reasoning_content": "a", "thinking": "b"}
    assert refused(read, chat(both)) == (
        "messages[1].thinking",
        "expected thoughts under one name, got reasoning_content and thinking",
    )


# --- there and back -------------------------------------------------------------------------------------------------


def test_nothing_of_it_is_lost_in_writing_or_in_the_fingerprint(read, tmp_path):
    thought = {**REPLY, "reasoning_content": "they greet me"}
    rows = [chat({**CALLS[0], "reasoning_content": "sum"}, {"role": "tool", "content": "2"}, thought, tools=[TOOL])]
    rows += [chat({**REPLY, "weight": 0}, USER, REPLY, chat_template_kwargs={"a": 1})]
    data = read(*rows)
    write_traces(tmp_path / "again.jsonl", data.traces)
    again = read_traces(tmp_path / "again.jsonl")
    assert (again.traces, again.fingerprint) == (data.traces, data.fingerprint)
    without = read(chat(REPLY), chat({**REPLY, "weight": 0}, USER, REPLY))
    plain = read(chat(thought), chat({**REPLY, "weight": 0}, USER, REPLY))
    assert without.fingerprint != plain.fingerprint


def test_a_prompt_with_answers_before_a_thoughtful_one_is_written(read, tmp_path):
    data = read({"prompt": [USER, REPLY, USER], "completion": [{**REPLY, "thinking": "they greet me"}]})
    write_traces(tmp_path / "again.jsonl", data.traces)
    assert read_traces(tmp_path / "again.jsonl").traces == data.traces


# --- beside a request and an answer by other names -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "field", "instead"),
    [
        (
            {"question": "a", "answer": "4", "response": "b"},
            "answer",
            "'question' and 'response' (either of 'response' and 'answer' may be meant: rename the one that is not)",
        ),
        (
            {"prompt": "a", "question": "a", "response": "b"},
            "question",
            "'prompt' and 'response' (either of 'prompt' and 'question' may be meant: rename the one that is not)",
        ),
        (
            {"question": "a", "input": "c", "answer": "b"},
            "input",
            "'question' and 'answer' (either of 'question' and 'input' may be meant: rename the one that is not)",
        ),
        (
            {"question": "a", "context": "c", "answer": "b"},
            "context",
            "'question' and 'answer' (write into 'question' what the model is to see)",
        ),
        (
            {"instruction": "a", "context": "c", "response": "b"},
            "context",
            "'instruction' and 'response' (rename it to 'input', which is read behind the instruction)",
        ),
        (
            {"system_prompt": "s", "question": "a", "response": "b"},
            "system_prompt",
            "'question' and 'response' (rename it to 'system', which is read)",
        ),
    ],
)
def test_a_column_that_may_belong_to_the_pair_too_is_refused(read, row, field, instead):
    assert refused(read, row) == (field, f"expected nothing beside {instead}, got a string")
    assert len(read({**row, field: None}).traces) == 1
