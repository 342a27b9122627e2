"""The token that ends an answer: always trained, the template's own or one given by rule, and the rule is said."""

from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerFast

from holdfast.config import InputError
from holdfast.generation.conversations import stop_ids
from holdfast.records import Role, Segment, Trace, Turn, answer, context
from holdfast.tokens import prompt_ids, tokenize, tokenize_all
from holdfast.tokens.endings import stop_id

from .styles import fresh
from .test_rows import BACKTRACK, ONE, TWO, backtrack, runs

# As GLM-4: a turn is ended by the opener of the next one, which no template writes after the last.
OPENERS = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PLAIN = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n###\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def made(template: str, *, eos: str | None = "<|endoftext|>", name: str = "chatml") -> PreTrainedTokenizerFast:
    tokenizer = fresh(name)
    tokenizer.chat_template = template
    tokenizer.eos_token = eos
    return tokenizer


def trained(row, tokenizer) -> list[str]:  # type: ignore[no-untyped-def]
    return [tokenizer.decode(ids) for role, ids in runs(row) if role]


def test_a_template_without_an_end_gets_the_tokenizers_eos() -> None:
    tokenizer = made(OPENERS)
    row = tokenize(ONE, tokenizer)
    assert trained(row, tokenizer) == ["It is 4, naïve café.<|endoftext|>"]
    assert row.ids[-1] == tokenizer.eos_token_id
    assert row.ids[:-1] == tokenizer.apply_chat_template(
        [{"role": turn.speaker, "content": turn.visible} for turn in ONE.turns], return_dict=False
    )
    assert stop_id(tokenizer) == tokenizer.eos_token_id


def test_every_answer_gets_a_row_of_its_own_so_that_no_template_is_contradicted() -> None:
    """Between turns the template writes no EOS: it would be one at inference that the model never sees."""
    tokenizer = made(OPENERS)
    rows, report = tokenize_all([TWO, ONE], tokenizer)
    assert [row.source for row in rows] == [0, 0, 1]
    assert all(row.ids.count(tokenizer.eos_token_id) == 1 for row in rows)
    first, second = rows[:2]
    assert trained(first, tokenizer) == ["It is 4, naïve café.<|endoftext|>"]
    assert trained(second, tokenizer) == ["Fine, thank you.<|endoftext|>"]
    assert second.ids[: second.roles.index(Role.RESPONSE)] == prompt_ids(TWO.turns[:3], tokenizer)
    assert report.sentence == (
        "2 conversations -> 3 rows; 1 became one row per answer, since the chat template writes no end-of-turn token; "
        "the chat template writes no end-of-turn token: '<|endoftext|>' (the tokenizer's EOS) is trained as one"
    )


def test_without_an_eos_it_is_the_opener_of_the_next_turn() -> None:
    tokenizer = made(OPENERS, eos=None)
    row = tokenize(ONE, tokenizer)
    assert trained(row, tokenizer) == ["It is 4, naïve café.<|im_start|>"]
    assert "'<|im_start|>' (it opens the next turn) is trained as one" in tokenize_all([ONE], tokenizer)[1].sentence
    assert stop_id(tokenizer) == row.ids[-1]


def test_generation_stops_where_training_ended() -> None:
    class Model:
        generation_config = None

    tokenizer = made(OPENERS, eos=None)
    assert stop_ids(Model(), tokenizer) == [tokenizer.convert_tokens_to_ids("<|im_start|>")]  # type: ignore[arg-type]
    with pytest.raises(InputError, match="neither the model nor its tokenizer says which token ends a text"):
        stop_ids(Model(), made(PLAIN, eos=None))  # type: ignore[arg-type]


def test_without_either_it_is_an_error() -> None:
    with pytest.raises(InputError, match=r"^row 0: no token can end an answer: .*; set tokenizer\.eos_token$"):
        tokenize_all([ONE], made(PLAIN, eos=None))


@pytest.mark.parametrize(("name", "eos"), [("chatml", "<|endoftext|>"), ("mistral", "</s>")])
def test_words_that_end_a_turn_are_trained_and_the_eos_after_them(name: str, eos: str) -> None:
    tokenizer = made(PLAIN, eos=eos, name=name)
    rows, _ = tokenize_all([TWO], tokenizer)
    assert [trained(row, tokenizer) for row in rows] == [
        [f"It is 4, naïve café.\n###\n{eos}"],
        [f"Fine, thank you.\n###\n{eos}"],
    ]


def test_a_newline_alone_ends_nothing() -> None:
    tokenizer = made(OPENERS.replace("{{ m['content'] }}", "{{ m['content'] }}\n"))
    assert trained(tokenize(ONE, tokenizer), tokenizer) == ["It is 4, naïve café.<|endoftext|>"]


def test_tokens_that_end_the_answer_and_then_the_turn_are_both_trained() -> None:
    """As Cohere's <|END_RESPONSE|><|END_OF_TURN_TOKEN|>: the model stops at the second."""
    template = OPENERS.replace("{{ m['content'] }}", "{{ m['content'] }}<|im_end|><|endoftext|>\n")
    tokenizer = made(template)
    row, report = tokenize_all([TWO], tokenizer)
    ends = "<|im_end|><|endoftext|>"
    assert trained(row[0], tokenizer) == [f"It is 4, naïve café.{ends}", f"Fine, thank you.{ends}"]
    assert report.stops == ()


def test_an_undo_before_a_given_end() -> None:
    tokenizer = made(OPENERS)
    row = tokenize(backtrack(*BACKTRACK), tokenizer)
    assert (row.ids[-1], row.roles[-1]) == (tokenizer.eos_token_id, Role.CORRECTION)


# --- documents ------------------------------------------------------------------------------------------------------


def document(text: str) -> Trace:
    return Trace((Turn("text", (Segment(Role.RESPONSE, text),)),))


@pytest.mark.parametrize("name", ["chatml", "llama3", "mistral"])
def test_a_document_that_ends_in_eos_gets_no_second_one(name: str) -> None:
    tokenizer = fresh(name)
    plain = tokenize(document("The capital is Paris."), tokenizer)
    own = tokenize(document("The capital is Paris." + tokenizer.eos_token), tokenizer)
    assert own.ids.count(tokenizer.eos_token_id) == plain.ids.count(tokenizer.eos_token_id) == 1
    assert (own.ids, own.roles) == (plain.ids, plain.roles)


def test_a_document_that_begins_with_bos_gets_no_second_one() -> None:
    tokenizer = fresh("llama3")
    plain = tokenize(document("Hello there!"), tokenizer)
    own = tokenize(document(tokenizer.bos_token + "Hello there!"), tokenizer)
    assert (own.ids, own.roles) == (plain.ids, plain.roles)
    assert own.ids.count(tokenizer.bos_token_id) == 1


def test_an_answer_that_ends_a_conversation_with_context_after_it() -> None:
    tokenizer = made(OPENERS)
    row = tokenize(Trace((*ONE.turns, context("user", "Bye"))), tokenizer)
    assert row.ids == tokenize(ONE, tokenizer).ids
    assert trained(tokenize(Trace((*ONE.turns[:1], answer("4"))), tokenizer), tokenizer) == ["4<|endoftext|>"]
