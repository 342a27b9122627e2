"""``train_on_prompt``: every token but the first is a target, once."""

from __future__ import annotations

import pytest
import torch

from holdfast.config import InputError
from holdfast.records import Role, Trace, answer, context
from holdfast.tokens import answer_positions, pack, pad, tokenize, tokenize_all

from .styles import STYLES, Style, make_tokenizer
from .test_endings import OPENERS, made
from .test_rows import BACKTRACK, ONE, TWO, backtrack, messages

every_style = pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)


@every_style
def test_the_ids_are_the_same_and_all_but_the_first_are_targets(style: Style) -> None:
    for trace in (ONE, TWO):
        plain, row = tokenize(trace, style.tokenizer), tokenize(trace, style.tokenizer, train_on_prompt=True)
        assert row.ids == plain.ids == style.tokenizer.apply_chat_template(messages(trace.turns), return_dict=False)
        assert row.roles == [Role.PROMPT, *[Role.RESPONSE] * (len(row) - 1)]
        assert row.num_targets == len(row) - 1


@every_style
def test_roles_of_an_answer_stay_what_they_are(style: Style) -> None:
    plain = tokenize(backtrack(*BACKTRACK), style.tokenizer)
    row = tokenize(backtrack(*BACKTRACK), style.tokenizer, train_on_prompt=True)
    first, *rest = plain.roles
    assert (row.ids, row.roles) == (plain.ids, [first, *(role or Role.RESPONSE for role in rest)])


@every_style
def test_what_follows_the_last_answer_is_trained_too(style: Style) -> None:
    trace = Trace((*ONE.turns, context("user", "Hello there!")))
    row = tokenize(trace, style.tokenizer, train_on_prompt=True)
    assert row.ids == style.tokenizer.apply_chat_template(messages(trace.turns), return_dict=False)


def test_no_prompt_is_trained_twice_where_history_is_rewritten() -> None:
    """One row per answer would hold the first request in both; it is the finished conversation instead, as TRL trains it."""
    tokenizer = make_tokenizer("reasoning")
    assert len(tokenize_all([TWO], tokenizer)[0]) == 2
    rows, report = tokenize_all([TWO], tokenizer, train_on_prompt=True)
    assert [row.ids for row in rows] == [tokenizer.apply_chat_template(messages(TWO.turns), return_dict=False)]
    assert report.split == ()
    last = tokenize(Trace((TWO.turns[0], TWO.turns[1].as_context(), *TWO.turns[2:])), tokenizer)
    assert tokenizer.decode(rows[0].ids) == tokenizer.decode(last.ids)


def test_an_end_by_rule_is_trained_there_too() -> None:
    tokenizer = made(OPENERS)
    for trace in (ONE, TWO):
        row = tokenize(trace, tokenizer, train_on_prompt=True)
        assert row.ids == [
            *tokenizer.apply_chat_template(messages(trace.turns), return_dict=False),
            tokenizer.eos_token_id,
        ]
        assert row.num_targets == len(row) - 1


def test_packed_and_padded_rows_keep_their_first_token_out() -> None:
    rows, _ = tokenize_all([ONE, TWO], make_tokenizer("chatml"), train_on_prompt=True)
    for batch in (pad(rows, 0), pack(rows)):
        assert int((batch.roles != Role.PROMPT).sum()) == sum(len(row) - 1 for row in rows)
    positions = answer_positions(pack(rows).roles)[0]
    assert positions.tolist() == [place - 1 for row in rows for place in range(len(row))]


def test_a_hard_context_is_seen_as_without_it() -> None:
    tokenizer = make_tokenizer("chatml")
    plain = tokenize(backtrack(*BACKTRACK), tokenizer, context="hard")
    row = tokenize(backtrack(*BACKTRACK), tokenizer, context="hard", train_on_prompt=True)
    assert row.positions == plain.positions
    ours, theirs = pad([row], 0).attention, pad([plain], 0).attention
    assert ours is not None
    assert theirs is not None
    assert torch.equal(ours, theirs)


def test_an_answer_of_weight_0_is_refused_and_not_trained_in_silence() -> None:
    trace = Trace((ONE.turns[0], answer("4").as_context(), *ONE.turns))
    assert tokenize(trace, make_tokenizer("chatml"), train_on_prompt=True)
    light = Trace((ONE.turns[0], context("assistant", "4", {"weight": 0}), *ONE.turns))
    with pytest.raises(InputError, match="field 'weight': an answer of weight 0 cannot be left out"):
        tokenize(light, make_tokenizer("chatml"), train_on_prompt=True)
    with pytest.raises(InputError, match="nothing to train on"):
        tokenize(Trace(ONE.turns[:1]), make_tokenizer("chatml"), train_on_prompt=True)
