import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from holdfast.config import InputError
from holdfast.models import add_tokens
from holdfast.worlds.tokenizer import build_tokenizer


def small(tied, extra_rows=0, dtype=torch.float32):
    tokenizer = build_tokenizer()
    config = LlamaConfig(vocab_size=len(tokenizer) + extra_rows, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                         num_attention_heads=2, tie_word_embeddings=tied)  # fmt: skip
    torch.manual_seed(0)
    return LlamaForCausalLM(config).to(dtype).eval(), tokenizer


def matrices(model):
    return [model.get_input_embeddings().weight, model.get_output_embeddings().weight]


def expected_row(weight, tokenizer, init):
    """Worked the long way: rows of the words, averaged."""
    words = {
        "mean": [tokenizer.get_vocab().keys()],
        "description": [["take", "it", "back"][:2]],  # 'back' is not a word of this tokenizer
        "related": [["no", "not", "never"]],
        "mixed": [["take", "it"], ["no", "not", "never"]],
    }[init]
    groups = [torch.stack([weight[tokenizer.get_vocab()[word]] for word in group]) for group in words]
    return torch.stack([group.mean(0) for group in groups]).mean(0)


@pytest.mark.parametrize("init", ["mean", "description", "related", "mixed"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_new_row_begins_as_asked_and_old_rows_stay(tied, init):
    model, tokenizer = small(tied)
    before = [weight.detach().clone() for weight in matrices(model)]
    expected = [expected_row(weight, tokenizer, init) for weight in before]
    (new,) = add_tokens(model, tokenizer, init=init, description="take it back", related=["no", "not", "never"])
    assert new == len(before[0]) == len(tokenizer) - 1
    assert (matrices(model)[0].data_ptr() == matrices(model)[1].data_ptr()) is tied
    for weight, old, row in zip(matrices(model), before, expected, strict=True):
        assert len(weight) == len(tokenizer)
        assert torch.equal(weight[:new], old)
        torch.testing.assert_close(weight[new], row, rtol=1e-6, atol=1e-7)
    assert model.config.vocab_size == len(tokenizer)
    assert model(torch.tensor([[1, new]])).logits.shape[-1] == len(tokenizer)


@pytest.mark.parametrize("tied", [True, False])
def test_no_random_numbers_are_drawn_into_the_rows(tied):
    rows = []
    for seed in (1, 2):
        model, tokenizer = small(tied)
        torch.manual_seed(seed)
        ids = add_tokens(model, tokenizer, ["<UNDO>", "<SECOND>"])
        rows.append([weight[ids].clone() for weight in matrices(model)])
    for first, second in zip(*rows, strict=True):
        assert torch.equal(first, second)


def test_twice_is_once():
    model, tokenizer = small(tied=False)
    first = add_tokens(model, tokenizer)
    with torch.no_grad():
        matrices(model)[0][first] = 7.0
    assert add_tokens(model, tokenizer, init="related") == first
    assert (matrices(model)[0][first] == 7).all()
    assert len(tokenizer) == len(matrices(model)[0])


def test_a_padded_vocabulary_is_filled_before_it_grows_and_never_shrinks():
    model, tokenizer = small(tied=False, extra_rows=2)
    num_words = len(tokenizer)
    before = matrices(model)[0].detach().clone()
    assert add_tokens(model, tokenizer) == [num_words]
    assert len(matrices(model)[0]) == num_words + 2
    for weight in matrices(model):
        assert torch.equal(weight[num_words], weight[:num_words].mean(0))
    assert torch.equal(matrices(model)[0][num_words + 1], before[num_words + 1])
    assert add_tokens(model, tokenizer, ["<A>", "<B>"]) == [num_words + 1, num_words + 2]
    assert len(matrices(model)[0]) == num_words + 3


def test_the_token_is_special_and_never_split(tmp_path):
    model, tokenizer = small(tied=True)
    (undo,) = add_tokens(model, tokenizer)
    words = tokenizer("sun<UNDO>leaf <UNDO> <UNDO>")["input_ids"]
    assert words.count(undo) == 3
    assert len(words) == 5
    assert tokenizer.decode(words, skip_special_tokens=True) == "sun leaf"
    assert {"<|user|>", "<|assistant|>", "<|system|>"} < set(tokenizer.all_special_tokens)


def test_the_other_tokens_keep_their_say():
    """Logits of the old words do not move when a token is added."""
    model, tokenizer = small(tied=True)
    ids = torch.arange(12)[None]
    before = model(ids).logits
    add_tokens(model, tokenizer)
    torch.testing.assert_close(model(ids).logits[..., :-1], before)


def test_half_precision_means_are_taken_in_float32():
    model, tokenizer = small(tied=True, dtype=torch.bfloat16)
    expected = matrices(model)[0].float().mean(0).bfloat16()
    (new,) = add_tokens(model, tokenizer)
    assert torch.equal(matrices(model)[0][new], expected)


def test_mistakes_are_named():
    model, tokenizer = small(tied=True)
    with pytest.raises(InputError, match="related: the tokenizer knows none of the words of 'zebra quagga'"):
        add_tokens(model, tokenizer, init="related", related=["zebra", "quagga"])
    with pytest.raises(InputError, match="init 'zeros': expected mean, description, related or mixed"):
        add_tokens(model, tokenizer, init="zeros")
    assert "<UNDO>" not in tokenizer.get_vocab()
