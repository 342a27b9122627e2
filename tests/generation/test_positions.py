"""Models with a table of learned positions: an answer ends with the table, and not in an index error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, GPTNeoConfig, GPTNeoForCausalLM, OPTConfig, OPTForCausalLM

from generation.undo_models import UNDO, VOCAB, small_llama
from holdfast.config import InputError
from holdfast.generation import UndoDecoder, UndoDecoding, generate
from holdfast.generation.conversations import turns_of
from holdfast.generation.graphs import Decoding, GraphDecoder
from holdfast.models.positions import num_learned_positions
from holdfast.tokens import prompt_ids
from holdfast.worlds.tokenizer import build_tokenizer

ROOM = 24
TOKENIZER = build_tokenizer()
ASKED = ["copy : sun", "copy : sun leaf boat sun", "copy : " + "bell " * 14, "copy : leaf"]
LENGTHS = [len(prompt_ids(turns_of(text), TOKENIZER)) for text in ASKED]


def gpt2(vocabulary: int) -> Any:
    sizes = {"n_positions": ROOM, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.3}
    return GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, eos_token_id=2, **sizes))


def gpt_neo(vocabulary: int) -> Any:
    sizes = {"max_position_embeddings": ROOM, "hidden_size": 16, "num_heads": 2, "initializer_range": 0.3}
    layers = {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 8}
    return GPTNeoForCausalLM(GPTNeoConfig(vocab_size=vocabulary, eos_token_id=2, **sizes, **layers))


def opt(vocabulary: int) -> Any:
    sizes = {"max_position_embeddings": ROOM, "hidden_size": 16, "word_embed_proj_dim": 16, "ffn_dim": 16}
    layers = {"num_hidden_layers": 2, "num_attention_heads": 2, "init_std": 0.3, "eos_token_id": 2}
    return OPTForCausalLM(OPTConfig(vocab_size=vocabulary, **sizes, **layers))


def made(shape: Callable[[int], Any], vocabulary: int = VOCAB) -> Any:
    torch.manual_seed(0)
    return shape(vocabulary).eval()


@torch.no_grad()
def greedy(model: Any, prompt: Sequence[int], stops: Sequence[int]) -> list[int]:
    """A plain forward for every token, as long as there is a position for it."""
    ids = list(prompt)
    while len(ids) < ROOM and ids[-1] not in stops:
        ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt) :]


@pytest.mark.parametrize("shape", [gpt2, gpt_neo, opt])
def test_answers_end_with_the_positions(shape: Callable[[int], Any]) -> None:
    """Prompts of different lengths in one batch: each answer takes the positions that its own prompt leaves."""
    model = made(shape, len(TOKENIZER))
    assert num_learned_positions(model.config) == ROOM
    found = generate(model, TOKENIZER, ASKED, max_new_tokens=50)
    expected = [greedy(model, prompt_ids(turns_of(text), TOKENIZER), [2, TOKENIZER.eos_token_id]) for text in ASKED]
    assert [list(each.token_ids) for each in found] == expected
    assert [each.finish_reason for each in found] == ["length"] * len(ASKED)
    assert [length + len(each.token_ids) for length, each in zip(LENGTHS, found, strict=True)] == [ROOM] * len(ASKED)
    few = generate(model, TOKENIZER, ASKED, max_new_tokens=5)
    assert [list(each.token_ids) for each in few] == [ids[:5] for ids in expected]


def test_a_row_that_has_ended_is_not_gone_on_with() -> None:
    """The token that the first answer writes in the middle ends a text: of the answers, some end and some are cut off."""
    model = made(gpt2, len(TOKENIZER))
    model.generation_config.eos_token_id = generate(model, TOKENIZER, ASKED[:1], max_new_tokens=50)[0].token_ids[4]
    together = generate(model, TOKENIZER, ASKED, max_new_tokens=50)
    assert together == [generate(model, TOKENIZER, [text], max_new_tokens=50)[0] for text in ASKED]
    assert {each.finish_reason for each in together} == {"stop", "length"}


def test_a_prompt_that_does_not_fit_is_named() -> None:
    with pytest.raises(InputError, match=r"request 2 has 36 tokens, but this model reads 24"):
        generate(made(gpt2, len(TOKENIZER)), TOKENIZER, ["copy : sun", "sun " * 32], max_new_tokens=4)


def test_the_step_of_a_graph_stays_within_the_positions() -> None:
    """Run as it is on a CPU. Rows go on to the end of the batch; what they write within their positions is right."""
    model, prompts = made(gpt2), [[1, 5, 6, 7, 8], [1, 9], [1, 11, 12] * 5]
    written = GraphDecoder(model, Decoding(40, [2], 0), num_rows=3)(prompts).ids
    expected = [greedy(model, prompt, [2]) for prompt in prompts]
    assert [ids[: ROOM - len(prompt)] for ids, prompt in zip(written, prompts, strict=True)] == expected


@pytest.mark.parametrize("context", ["soft", "hard"])
def test_undoing_ends_with_the_positions(context: str) -> None:
    """In soft context all that was written takes a position, in hard context only what is left."""
    prompts = [[1, 5, 6, 7, 8], [1, 9]]
    script = [7, UNDO] * 12 + [8] * 60
    decoding = UndoDecoding(80, context)  # type: ignore[arg-type]
    for model in (made(gpt2), made(lambda _: small_llama("sdpa", torch.float32))):
        model.config.max_position_embeddings = ROOM
        steps = UndoDecoder(model, UNDO, (2,), 0, decoding).steps(prompts, [script, script])
        answers = {step.row: step.answer for step in steps if step.finished}
        for row, prompt in enumerate(prompts):
            assert len(prompt) + len(answers[row].written if context == "soft" else answers[row].visible) == ROOM
