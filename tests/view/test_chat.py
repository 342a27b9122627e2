"""Try it: an answer that was begun for the model comes back whole, in every way of asking."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from holdfast.models import LoadedModel, load
from holdfast.view.chat import Ask, _answered
from tokens.styles import fresh

ASKED = ({"role": "user", "content": "copy : sun river stone"},)


@pytest.fixture(scope="module")
def byte_level() -> LoadedModel:
    """Untrained: it writes whatever it writes, without a space where none is."""
    torch.manual_seed(0)
    tokenizer = fresh("llama3")
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        eos_token_id=tokenizer.eos_token_id,
    )
    return LoadedModel(LlamaForCausalLM(config), tokenizer, "bytes", torch.float32, torch.device("cpu"), "")


def said(loaded: LoadedModel, **asked: object) -> list[dict]:
    return list(_answered(Ask(model=loaded.name, messages=ASKED, max_new_tokens=6, **asked), loaded))


def test_tokens_that_bring_their_own_spaces_are_not_given_more(byte_level: LoadedModel) -> None:
    (_, told) = said(byte_level, prefill="The ans")
    plain = byte_level.tokenizer.apply_chat_template(list(ASKED), tokenize=False, add_generation_prompt=True)
    ids = byte_level.tokenizer(plain + "The ans", add_special_tokens=False, return_tensors="pt")["input_ids"]
    written = byte_level.model.generate(ids, max_new_tokens=6, do_sample=False)[0, ids.shape[1] :]
    assert told["text"] == "The ans" + byte_level.tokenizer.decode(written, skip_special_tokens=True)


@pytest.mark.parametrize("mode", ["plain", "overseen"])
def test_the_words_it_began_with_are_part_of_the_answer(mode: str) -> None:
    told = said(load("tiny:aligned"), prefill="sun river", mode=mode, n=2, temperature=0.1, judge="world")
    assert told[-1]["text"] == "sun river stone"
    for candidate in told[0].get("candidates", ()):
        assert candidate["text"] == "sun river stone"
