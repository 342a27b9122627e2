"""Pieces of text that continue other text, on tokenizers that would rather begin one."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers

from holdfast.config import InputError
from holdfast.records import context
from holdfast.tokens import find_undo_id, prompt_ids
from holdfast.tokens.encoding import Encoder
from holdfast.tokens.endings import ending

from .styles import fresh, make_tokenizer


@pytest.mark.parametrize("name", ["mistral", "mistral-always", "gemma", "llama3"])
@pytest.mark.parametrize("piece", ["Paris", " Paris", "\n\nParis", "ünknown", "1.5", ".\n", "  ", "a"])
def test_a_continuation_has_no_space_of_its_own(name: str, piece: str) -> None:
    encoder = Encoder(make_tokenizer(name))
    begun = encoder.whole("The capital is:")
    assert encoder.decode(begun + encoder.continuation(piece)) == "The capital is:" + piece


def test_sentinels_are_tried_until_one_does_not_merge() -> None:
    """This vocabulary merges a newline, an 'a' and a full stop with the 'b' after them, and begins texts with '_'."""
    letters = ["_", "\n", "a", ".", "1", "é", "b"]
    merged = ["\nb", "ab", ".b"]
    vocabulary = {token: i for i, token in enumerate([*letters, *merged])}
    merges = [("\n", "b"), ("a", "b"), (".", "b")]
    encoder = Encoder(_begins_with_underscore(vocabulary, merges))
    assert encoder.continuation("b") == [vocabulary["b"]]
    more = {**vocabulary, "1b": 10, "éb": 11}
    stubborn = Encoder(_begins_with_underscore(more, [*merges, ("1", "b"), ("é", "b")]))
    with pytest.raises(InputError, match="cannot continue a text with 'b'"):
        stubborn.continuation("b")


def _begins_with_underscore(vocabulary: dict[str, int], merges: list[tuple[str, str]]):  # type: ignore[no-untyped-def]
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.normalizer = normalizers.Prepend("_")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def test_the_unknown_token_is_not_the_undo_token() -> None:
    assert find_undo_id(fresh("words", undo=False)) is None
    assert find_undo_id(fresh("chatml", undo=False)) is None


def test_without_the_token_a_typed_undo_needs_no_care() -> None:
    tokenizer = fresh("chatml", undo=False)
    assert Encoder(tokenizer).whole("a <UNDO> b") == tokenizer.encode("a <UNDO> b")


def test_a_prompt_does_not_go_through_the_added_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gemma 3 has more than 6,200 of them, with which every prompt of an audit took 20 ms."""
    tokenizer = make_tokenizer("chatml")
    asked = context("user", "a?")
    expected = prompt_ids([asked], tokenizer)
    monkeypatch.delattr(type(tokenizer), "added_tokens_decoder")
    assert prompt_ids([asked], tokenizer) == expected


def test_a_text_that_turns_into_the_undo_token_by_normalisation_is_refused() -> None:
    tokenizer = fresh("gemma", undo=False)
    tokenizer.backend_tokenizer.normalizer = normalizers.NFKC()
    tokenizer.add_tokens([AddedToken("<UNDO>", normalized=True)])
    encoder = Encoder(tokenizer)
    assert encoder.undo_id not in encoder.whole("<UNDO>")
    with pytest.raises(InputError, match="reads as <UNDO>"):
        encoder.whole("＜UNDO＞")


def test_a_stop_token_that_is_only_one_between_spaces() -> None:
    tokenizer = fresh("chatml")
    tokenizer.add_tokens([AddedToken("stop", single_word=True, normalized=False)])
    encoder = Encoder(tokenizer)
    assert encoder.after("stop", "page") == encoder.continuation("page")
    assert encoder.after("stop", " page") == encoder.continuation(" page")


def test_an_end_token_that_the_text_writes_differently() -> None:
    """The special token is found by its id; where its name is not in the text, the whole tail counts as written."""
    tokenizer = fresh("gemma")
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.add_tokens([AddedToken("<END>", normalized=True, special=True)])
    encoder = Encoder(tokenizer)
    end = ending("<End>\n", [], encoder)
    assert tokenizer.convert_ids_to_tokens(end.ids) == [end.stop] == ["<end>"]
    assert end.text == "<End>\n"


def test_an_added_run_of_newlines_does_not_end_a_turn() -> None:
    tokenizer = fresh("chatml")
    tokenizer.add_tokens(["\n\n", "<|stop|>"])  # added, but not special
    end = ending("\n\n<|stop|>\n", [], Encoder(tokenizer))
    assert tokenizer.convert_ids_to_tokens(end.ids) == ["\n\n", "<|stop|>"]
    assert (end.text, end.stop) == ("\n\n<|stop|>", "<|stop|>")
