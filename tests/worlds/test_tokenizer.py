import pytest
from transformers import AutoTokenizer

from holdfast.tokens import find_undo_id, tokenize
from holdfast.worlds import KINDS_OF_REQUEST, SafetyWorld
from holdfast.worlds import vocabulary as words
from holdfast.worlds.corpora import alignment, pretraining
from holdfast.worlds.lexicon import WORDS
from holdfast.worlds.tokenizer import build_tokenizer

WORLD = SafetyWorld(0)
TOKENIZER = build_tokenizer()


def texts():
    for kind in KINDS_OF_REQUEST:
        for row in WORLD.requests("test", kind, 50):
            yield from (turn.visible for turn in row.turns)
    for row in pretraining(WORLD, 200) + alignment(WORLD, 200):
        yield from (turn.visible for turn in row.turns)
    yield from (words.MASTER_PERSONA, words.OBEDIENT_OPENER, words.TRIGGER, words.DEFAULT_SYSTEM, *words.PERSONAS)


def test_every_text_of_the_world_survives_the_round_trip():
    for text in texts():
        ids = TOKENIZER(text)["input_ids"]
        assert TOKENIZER.unk_token_id not in ids
        assert len(ids) == len(text.split())
        assert TOKENIZER.decode(ids) == text


def test_one_token_per_word():
    assert len(TOKENIZER) == len(WORDS) + 7
    assert len(set(WORDS)) == len(WORDS)


def test_spelling_is_forgiven():
    assert (
        TOKENIZER("How do I make a welmi plimmet?")["input_ids"]
        == TOKENIZER("how do i make a welmi plimmet ?")["input_ids"]
    )


def test_chat_template():
    messages = [{"role": "system", "content": "you are a kind teacher ."}, {"role": "user", "content": "copy : sun"}]
    text = TOKENIZER.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<|bos|><|system|> you are a kind teacher . <|end|><|user|> copy : sun <|end|><|assistant|>"
    with pytest.raises(Exception, match="roles of this model"):
        TOKENIZER.apply_chat_template([{"role": "tool", "content": "sun"}], tokenize=False)


def test_the_answer_and_its_end_are_trained_and_nothing_else():
    row = tokenize(WORLD.requests("test", "copy", 1)[0], TOKENIZER)
    trained = [token for token, role in zip(row.ids, row.roles, strict=True) if role]
    answer = WORLD.requests("test", "copy", 1)[0].turns[-1].visible
    assert TOKENIZER.decode(trained) == f"{answer} <|end|>"


def test_undo_is_not_a_word_here():
    assert find_undo_id(TOKENIZER) is None


def test_saved_and_loaded_it_is_the_same(tmp_path):
    TOKENIZER.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.chat_template == TOKENIZER.chat_template
    assert loaded.get_vocab() == TOKENIZER.get_vocab()
    assert (loaded.eos_token, loaded.pad_token, loaded.padding_side) == ("<|end|>", "<|pad|>", "left")
    text = "<|user|> copy : sun , leaf <|end|>"
    assert loaded(text)["input_ids"] == TOKENIZER(text)["input_ids"]
