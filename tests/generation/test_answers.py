"""Limits, ping-pong, and the text that a reader sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from holdfast.config import InputError
from holdfast.generation.answers import Answer, UndoLimits
from holdfast.generation.typewriter import Typewriter
from holdfast.tokens import apply_undo
from holdfast.worlds.tokenizer import build_tokenizer

UNDO = 99
LOOSE = UndoLimits(1000, 1000, 1000)


def written(*tokens: int, limits: UndoLimits = LOOSE) -> Answer:
    answer = Answer(UNDO, limits)
    for token in tokens:
        answer.write(token)
    return answer


@given(st.lists(st.sampled_from([1, 2, 3, UNDO])))
def test_what_is_visible_is_what_apply_undo_leaves(tokens: list[int]) -> None:
    answer = written(*tokens)
    assert answer.visible == apply_undo(tokens, UNDO)
    assert answer.written == tokens


def test_an_undo_at_the_start_does_nothing_and_is_counted() -> None:
    answer = Answer(UNDO, UndoLimits(per_answer=10, per_place=2))
    assert [answer.write(UNDO), answer.write(UNDO)] == ["nothing", "nothing"]
    assert answer.visible == []
    assert answer.barred() == [UNDO]
    answer.write(5)
    assert answer.barred() == []


def test_no_more_undos_than_allowed() -> None:
    answer = written(1, 2, 3, UNDO, UNDO, limits=UndoLimits(per_answer=2))
    assert UNDO in answer.barred()
    assert UNDO in written(1, limits=UndoLimits(per_answer=0)).barred()


def test_no_more_undos_at_a_place_than_allowed() -> None:
    limits = UndoLimits(per_answer=100, per_place=2, same_token=100)
    answer = written(1, 2, UNDO, 3, UNDO, 4, limits=limits)
    assert answer.barred() == [UNDO], "place 1 was undone twice"
    answer.write(5)
    assert answer.barred() == [], "place 2 was not"


def test_a_token_taken_back_twice_at_a_place_is_not_written_there_again() -> None:
    answer = written(1, 7, UNDO, limits=UndoLimits(per_place=9))
    assert answer.barred() == []
    answer.write(7)
    answer.write(UNDO)
    assert answer.barred() == [7]
    answer.write(8)
    assert answer.barred() == [], "elsewhere it may stand"


def test_what_was_taken_back_after_another_word_may_be_right_now() -> None:
    answer = written(1, 7, UNDO, 7, UNDO, UNDO, 2, limits=UndoLimits(per_place=9))
    assert answer.visible == [2]
    assert answer.barred() == []


def test_bad_limits() -> None:
    with pytest.raises(InputError, match="undo limits"):
        UndoLimits(per_answer=-1)


@pytest.fixture(scope="module")
def byte_level() -> PreTrainedTokenizerFast:
    """Every byte a token: characters come in halves."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


@given(text=st.text(st.sampled_from("aé𝄞 \n"), max_size=12), ops=st.lists(st.booleans(), max_size=60))
def test_edits_carried_out_give_the_text(byte_level: PreTrainedTokenizerFast, text: str, ops: list[bool]) -> None:
    check_edits(byte_level, byte_level(text)["input_ids"], ops)


@given(st.lists(st.sampled_from("take oskel , then . it".split()), max_size=12), st.lists(st.booleans(), max_size=40))
def test_words_too(words: list[str], ops: list[bool]) -> None:
    tokenizer = build_tokenizer()
    check_edits(tokenizer, tokenizer(" ".join(words), add_special_tokens=False)["input_ids"], ops)


def check_edits(tokenizer: PreTrainedTokenizerFast, ids: list[int], ops: list[bool]) -> None:
    """Tokens come (True) and go (False); what a reader has is what the tokens say, but for unfinished characters."""
    writer, shown, waiting = Typewriter(tokenizer), "", list(ids)
    for push in ops:
        if push and waiting:
            edit = writer.push(waiting.pop(0))
        elif not push and writer.ids:
            edit = writer.pop()
        else:
            continue
        shown = shown[: len(shown) - edit.num_deleted] + edit.inserted
        assert shown == tokenizer.decode(writer.ids).rstrip("�")
    assert shown + writer.finish() == tokenizer.decode(writer.ids)
