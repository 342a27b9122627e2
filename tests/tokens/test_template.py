"""Templates that do more than frame an answer: reasoning models, answers that look like the frame, broken ones."""

from __future__ import annotations

import pytest

from holdfast.config import InputError
from holdfast.records import Role, Segment, Trace, answer, context
from holdfast.tokens import tokenize, tokenize_all
from holdfast.tokens.template import HistoryRewrittenError, render_answer

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
    with pytest.raises(HistoryRewrittenError, match="one row per answer"):
        tokenize(TWO, tokenizer)
    rows, report = tokenize_all([TWO, ONE], tokenizer)
    assert [row.source for row in rows] == [0, 0, 1]
    assert report.num_split == 1
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
    """As DeepSeek-R1: the generation prompt opens a think block that the rendered answer lacks."""
    tokenizer = fresh("chatml")
    tokenizer.chat_template = CHATML.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
    with pytest.raises(InputError, match=r"where that has '<think>\\n', the answered one has 'It is 4"):
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


def test_an_end_without_a_special_token_is_trained_whole() -> None:
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n###\n{% endfor %}"
    template += "{% if add_generation_prompt %}assistant: {% endif %}"
    for name in ("chatml", "mistral"):
        tokenizer = _with(fresh(name), template)
        row = tokenize(TWO, tokenizer)
        first = [{"role": "user", "content": TWO.turns[0].visible}]
        prompt = tokenizer.apply_chat_template(first, add_generation_prompt=True)["input_ids"]
        assert row.ids[: len(prompt)] == prompt
        written = [tokenizer.decode(ids) for role, ids in runs(row) if role]
        assert written == ["It is 4, naïve café.\n###\n", "Fine, thank you.\n###\n"]
        assert tokenizer.decode(row.ids).endswith("user: Hello there!\n###\nassistant: Fine, thank you.\n###\n")


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
