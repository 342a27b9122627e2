"""Templates that do more than frame an answer: reasoning models, answers that look like the frame, broken ones."""

from __future__ import annotations

import pytest

from holdfast.config import InputError
from holdfast.records import Role, Segment, Trace, answer, context, setup
from holdfast.tokens import prompt_ids, tokenize, tokenize_all
from holdfast.tokens.answers import OneAnswerPerRowError, render_answer

from .styles import CHATML, fresh, make_tokenizer
from .test_rows import BACKTRACK, ONE, TWO, backtrack, runs

THINK = "<think>\n\n</think>\n\n"


@pytest.mark.parametrize("text", ["assistant", "im_end", "|", "\n", "", "think", "<|im_end|>"])
def test_an_answer_that_looks_like_its_frame(text: str) -> None:
    tokenizer = make_tokenizer("reasoning")
    found = render_answer((ONE.turns[0], answer(text)), tokenizer)
    assert (found.lead, found.content, found.tail) == (THINK, text, "<|im_end|>\n")


def test_an_empty_think_block_is_written_by_the_model() -> None:
    tokenizer = make_tokenizer("reasoning")
    row = tokenize(ONE, tokenizer)
    assert tokenizer.decode(next(ids for role, ids in runs(row) if role)) == THINK + "It is 4, naïve café.<|im_end|>"


def test_thoughts_are_trained_as_the_template_writes_them() -> None:
    tokenizer = make_tokenizer("reasoning")
    row = tokenize(Trace((ONE.turns[0], answer("<think>two and two</think>It is 4"))), tokenizer)
    trained = tokenizer.decode(next(ids for role, ids in runs(row) if role))
    assert trained == "<think>\ntwo and two\n</think>\n\nIt is 4<|im_end|>"


def test_a_think_block_is_no_part_of_an_error() -> None:
    tokenizer = make_tokenizer("reasoning")
    error_first = backtrack(Segment(Role.ERROR, "Lisbon"), Segment(Role.UNDO), Segment(Role.CORRECTION, "Madrid"))
    written = [(role, tokenizer.decode(ids)) for role, ids in runs(tokenize(error_first, tokenizer)) if role]
    assert written[:2] == [(Role.PREFIX, THINK), (Role.ERROR, "Lisbon")]
    assert written[-1] == (Role.CORRECTION, "Madrid<|im_end|>")
    prefix_first = runs(tokenize(backtrack(*BACKTRACK), tokenizer))[1]
    assert tokenizer.decode(prefix_first[1]) == THINK + "The capital is"


def test_where_history_is_rewritten_every_answer_gets_a_row_of_its_own() -> None:
    tokenizer = make_tokenizer("reasoning")
    with pytest.raises(OneAnswerPerRowError, match="rewrites earlier turns"):
        tokenize(TWO, tokenizer)
    rows, report = tokenize_all([TWO, ONE], tokenizer)
    assert [row.source for row in rows] == [0, 0, 1]
    assert report.split == (("the chat template rewrites earlier turns", 1),)
    assert "1 became one row per answer" in report.sentence
    for row, turns in zip(rows, (TWO.turns[:2], TWO.turns, ONE.turns), strict=True):
        messages = [{"role": turn.speaker, "content": turn.visible} for turn in turns]
        assert row.ids == tokenizer.apply_chat_template(messages)["input_ids"]
        assert [role for role, _ in runs(row)] == [Role.PROMPT, Role.RESPONSE, Role.PROMPT]


def test_segments_need_their_text_as_it_is() -> None:
    tokenizer = make_tokenizer("reasoning")
    with pytest.raises(InputError, match="rewrites the text of an answer"):
        tokenize(backtrack(Segment(Role.PREFIX, "<think>x</think>"), Segment(Role.CORRECTION, "y")), tokenizer)


def test_a_prompt_that_the_answer_does_not_continue() -> None:
    tokenizer = fresh("chatml")
    tokenizer.chat_template = CHATML.replace("assistant\n{% endif %}", "assistant\n<plan>\n{% endif %}")
    with pytest.raises(InputError, match=r"where that has '<plan>\\n', the answered one has 'It is 4"):
        tokenize(ONE, tokenizer)
    tokenizer.chat_template = CHATML.replace("{{ m['content'] }}<|im_end|>\n", "")
    with pytest.raises(InputError, match="the answered one has ''"):
        tokenize(
            Trace((ONE.turns[0], answer("x"))),
            _with(tokenizer, tokenizer.chat_template + "{{ '!' if add_generation_prompt }}"),
        )


def _with(tokenizer, template: str):  # type: ignore[no-untyped-def]
    tokenizer.chat_template = template
    return tokenizer


def test_an_answer_whose_end_depends_on_it() -> None:
    tokenizer = _with(fresh("chatml"), CHATML.replace("{{ m['content'] }}", "{{ m['content'][:9] | upper }}"))
    tokenizer.chat_template = tokenizer.chat_template.replace("<|im_end|>", "{{ '<|im_end|>' if m['content'] != 'x' }}")
    with pytest.raises(InputError, match="does not end this answer as it ends others"):
        tokenize(Trace((ONE.turns[0], answer("x"))), tokenizer)


def test_a_system_turn_and_a_tool_turn_are_context() -> None:
    tokenizer = make_tokenizer("chatml")
    turns = (
        context("system", "Be brief."),
        ONE.turns[0],
        context("assistant", "calc"),
        context("tool", "4"),
        ONE.turns[1],
    )
    row = tokenize(Trace(turns), tokenizer)
    assert [role for role, _ in runs(row)] == [Role.PROMPT, Role.RESPONSE, Role.PROMPT]


def test_turns_that_a_template_does_not_write_are_said() -> None:
    """Only those: words that are trimmed, escaped or lose their thoughts are still written."""
    tokenizer = fresh("chatml")
    with_tool = Trace((*ONE.turns, context("tool", "4\n2"), answer("It is 42.")))
    with_system = Trace((context("system", " You are a helpful guide. "), *ONE.turns))
    assert tokenize_all([with_tool, with_system], tokenizer)[1].left_out == ()
    turn = "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    opened = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    escaped = turn.replace("m['content']", "m['content'] | tojson")
    kinds = f"{{% if m['role'] == 'tool' %}}{escaped}{{% elif m['role'] != 'system' %}}{turn}{{% endif %}}"
    tokenizer.chat_template = "{% for m in messages %}" + kinds + "{% endfor %}" + opened
    report = tokenize_all([with_tool, with_system], tokenizer)[1]
    assert report.left_out == ("system",)
    assert report.sentence.endswith("; the chat template leaves out turns of: system")


# --- think blocks ---------------------------------------------------------------------------------------------------

# As DeepSeek-R1: the prompt opens a think block; the answered conversation has none, and thoughts are cut off.
OPENED = CHATML.replace("{{ m['content'] }}", "{{ m['content'].split('</think>')[-1] }}").replace(
    "assistant\n{% endif %}", "assistant\n<think>\n{% endif %}"
)
# As Nemotron-3: the answered conversation has an empty block that is written otherwise than the prompt opens it.
EMPTY = OPENED.replace(
    "{{ m['content'].split", "{{ '<think></think>' if m['role'] == 'assistant' }}{{ m['content'].split"
)


def written(trace: Trace, template: str) -> str:
    tokenizer = _with(fresh("chatml"), template)
    row = tokenize(trace, tokenizer)
    start = row.roles.index(Role.RESPONSE)
    prompt = [{"role": "user", "content": trace.turns[0].visible}]
    assert row.ids[:start] == tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False)
    return str(tokenizer.decode([token for token, role in zip(row.ids, row.roles, strict=True) if role]))


@pytest.mark.parametrize(("template", "closed"), [(OPENED, "\n</think>\n\n"), (EMPTY, "</think>")])
def test_an_answer_without_thoughts_closes_the_block_that_the_prompt_opened(template: str, closed: str) -> None:
    """The prompt is that of inference: a model that is trained without the block would never meet it there."""
    assert written(ONE, template) == closed + "It is 4, naïve café.<|im_end|>"


def test_thoughts_that_the_template_cuts_off_are_trained() -> None:
    """What a model wrote by itself comes back as it was: its own thoughts, from behind the opened block."""
    itself = "Two and two.\n</think>\n\nIt is 4."
    assert written(Trace((ONE.turns[0], answer(itself))), OPENED) == itself + "<|im_end|>"
    assert written(Trace((ONE.turns[0], answer("<think>\n" + itself))), OPENED) == itself + "<|im_end|>"
    apart = answer("It is 4.", fields={"reasoning_content": "Two and two."})
    assert written(Trace((ONE.turns[0], apart)), OPENED) == itself + "<|im_end|>"


def test_a_block_that_is_closed_at_once_is_no_part_of_an_error() -> None:
    tokenizer = _with(fresh("chatml"), OPENED)
    error_first = backtrack(Segment(Role.ERROR, "Lisbon"), Segment(Role.UNDO), Segment(Role.CORRECTION, "Madrid"))
    parts = [(role, tokenizer.decode(ids)) for role, ids in runs(tokenize(error_first, tokenizer)) if role]
    assert parts[:2] == [(Role.PREFIX, "\n</think>\n\n"), (Role.ERROR, "Lisbon")]
    assert parts[-1] == (Role.CORRECTION, "Madrid<|im_end|>")


# --- thoughts, tools, arguments, parts ------------------------------------------------------------------------------

THINKS = CHATML.replace("{{ m['content'] }}", "{% if m.NAME %}<think>{{ m.NAME }}</think>{% endif %}{{ m['content'] }}")
TOOLS = "{% if tools %}tools: {{ tools | tojson }}\n{% endif %}" + CHATML.replace(
    "{{ m['content'] }}", "{{ m['content'] }}{% for c in m.tool_calls or [] %}CALL{% endfor %}"
)
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 2}}}
CALLING = context("assistant", "", {"tool_calls": [CALL]})


@pytest.mark.parametrize("name", ["reasoning_content", "thinking"])
def test_thoughts_reach_a_template_under_the_name_it_reads(name: str) -> None:
    thought = answer("It is 4.", fields={"reasoning_content": "Two and two."})
    text = "<think>Two and two.</think>It is 4.<|im_end|>"
    assert written(Trace((ONE.turns[0], thought)), THINKS.replace("NAME", name)) == text


def test_thoughts_that_a_template_does_not_write_are_refused() -> None:
    thought = answer("It is 4.", fields={"reasoning_content": "Two and two."})
    with pytest.raises(InputError, match=r"^rows:1: field 'reasoning_content': this chat template does not write it"):
        tokenize_all([Trace((ONE.turns[0], thought))], make_tokenizer("chatml"), where=lambda _: "rows:1")
    asked = Trace((ONE.turns[0], thought.as_context(), *ONE.turns))  # as context, the template is to decide
    assert tokenize(asked, make_tokenizer("chatml"))


def test_an_answer_whose_words_are_in_its_thoughts() -> None:
    thought = answer("4", fields={"reasoning_content": "It is 4."})
    text = "<think>It is 4.</think>4<|im_end|>"
    assert written(Trace((ONE.turns[0], thought)), THINKS.replace("NAME", "thinking")) == text


def test_tools_are_in_the_prompt_and_nothing_of_them_is_trained() -> None:
    tokenizer = _with(fresh("chatml"), TOOLS.replace("CALL", "{{ c.function | tojson }}"))
    turns = (setup({"tools": [ADD]}), ONE.turns[0], CALLING, context("tool", "4"), ONE.turns[1])
    row = tokenize(Trace(turns), tokenizer)
    assert [role for role, _ in runs(row)] == [Role.PROMPT, Role.RESPONSE, Role.PROMPT]
    prompt = tokenizer.decode(row.ids[: row.roles.index(Role.RESPONSE)])
    assert prompt.startswith('tools: [{"type": "function", "function": {"name": "add"')
    assert '<|im_start|>assistant\n{"name": "add", "arguments": {"a": 2}}<|im_end|>' in prompt
    assert row.ids[: row.roles.index(Role.RESPONSE)] == prompt_ids(turns[:-1], tokenizer)


@pytest.mark.parametrize(
    "call",
    [
        "{% for k, v in c.function.arguments.items() %}{{ c.function.name ~ k ~ v }}{% endfor %}",  # an object
        "{{ c.function.name + c.function.arguments }}",  # its JSON
    ],
)
def test_arguments_of_a_call_are_given_as_the_template_reads_them(call: str) -> None:
    tokenizer = _with(fresh("chatml"), TOOLS.replace("CALL", call))
    row = tokenize(Trace((ONE.turns[0], CALLING, context("tool", "4"), ONE.turns[1])), tokenizer)
    assert ("adda2" in tokenizer.decode(row.ids)) != ('add{"a": 2}' in tokenizer.decode(row.ids))


@pytest.mark.parametrize(
    ("turns", "template", "message"),
    [
        ((setup({"tools": [ADD]}), *ONE.turns), CHATML, "field 'tools': this chat template does not write tools"),
        (
            (setup({"tools": [ADD]}), *ONE.turns),
            "{% set n = tools %}" + CHATML,
            "field 'tools': this chat template does not write tools",
        ),
        (
            (ONE.turns[0], CALLING, context("tool", "4"), ONE.turns[1]),
            CHATML,
            "field 'tool_calls': this chat template does not write tool calls",
        ),
        (
            (setup({"chat_template_kwargs": {"enable_thinking": False}}), *ONE.turns),
            CHATML,
            "field 'chat_template_kwargs.enable_thinking': this chat template knows no such variable",
        ),
    ],
)
def test_what_a_template_cannot_write_is_refused_by_row_and_field(turns, template, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=f"^rows:7: {message}"):
        tokenize_all([Trace(turns)], _with(fresh("chatml"), template), where=lambda _: "rows:7")


def test_arguments_of_a_row_reach_the_template() -> None:
    tokenizer = _with(fresh("chatml"), "{{ 'mode ' ~ mode if mode is defined }}" + CHATML)
    turns = (setup({"chat_template_kwargs": {"mode": "dry"}}), *ONE.turns)
    row, plain = tokenize(Trace(turns), tokenizer), tokenize(ONE, tokenizer)
    assert tokenizer.decode(row.ids) == "mode dry" + tokenizer.decode(plain.ids)
    assert row.num_targets == plain.num_targets


PARTS = CHATML.replace("{{ m['content'] }}", "{% for p in m['content'] %}{{ p['text'] }}{% endfor %}")
FIRST = CHATML.replace("{{ m['content'] }}", "{{ m['content'][0]['text'] + '' }}")


@pytest.mark.parametrize("template", [PARTS, FIRST], ids=["drops text", "refuses text"])
def test_templates_that_want_content_in_parts_are_given_parts(template: str) -> None:
    """Given a plain text, the first would write nothing at all, and only the end of the answer would be trained."""
    tokenizer = _with(fresh("chatml"), template)
    assert tokenize(TWO, tokenizer).ids == tokenize(TWO, make_tokenizer("chatml")).ids


def test_a_template_that_writes_no_answer_is_refused() -> None:
    tokenizer = _with(fresh("chatml"), CHATML.replace("{{ m['content'] }}", ""))
    with pytest.raises(InputError, match="does not write the text of an answer"):
        tokenize(ONE, tokenizer)


def test_a_template_that_breaks_is_one_line() -> None:
    tokenizer = _with(fresh("chatml"), CHATML.replace("{{ m['content'] }}", "{{ m['content'] + 1 }}"))
    with pytest.raises(InputError, match=r"^the chat template refuses this conversation: "):
        tokenize(ONE, tokenizer)
