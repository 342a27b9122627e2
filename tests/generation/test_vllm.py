"""Through vLLM's protocol, with a real small model behind a stub: what it says is what the model here says."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from generation.vllm_stub import serving_vllm
from holdfast.config import InputError
from holdfast.generation import (
    EndpointSampler,
    UndoDecoding,
    UndoLimits,
    generate_with_undo,
)
from holdfast.generation.endpoint_undo import RemoteUndo, stops_of
from invariants.launching import run_cli
from tokens.styles import fresh

pytest.importorskip("httpx", reason='pip install "holdfast[serve]"')
PROMPTS = ["Polish the lamp", "Where is the shelf ?", "Say nothing"]


@pytest.fixture(scope="module")
def served() -> tuple[Any, Any]:
    """A model that undoes often: its row of the head is the mean of the others'."""
    tokenizer = fresh("chatml", undo=True)
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        initializer_range=0.6,
        max_position_embeddings=512,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).double().eval()
    undo = tokenizer.convert_tokens_to_ids("<UNDO>")
    with torch.no_grad():
        model.lm_head.weight[undo] += 3.0 * model.lm_head.weight.std() * torch.randn(16, dtype=torch.float64)
    return model, tokenizer


@pytest.mark.parametrize("context", ["hard", "soft"])
@pytest.mark.parametrize("limits", [UndoLimits(), UndoLimits(per_answer=3, per_place=1, same_token=1)])
def test_undo_by_restarting_is_the_undo_decoder(served: tuple[Any, Any], context: Any, limits: UndoLimits) -> None:
    model, tokenizer = served
    how = UndoDecoding(max_new_tokens=24, context=context, limits=limits)
    here = generate_with_undo(model, tokenizer, PROMPTS, how)
    with serving_vllm(model, tokenizer) as (address, bodies):
        sampler = EndpointSampler(address, "served")
        there = RemoteUndo(sampler, tokenizer, (tokenizer.eos_token_id,), how)(PROMPTS)
    assert [answer.token_ids for answer in there] == [answer.token_ids for answer in here]
    assert [(a.text, a.num_undos, a.finish_reason) for a in there] == [
        (a.text, a.num_undos, a.finish_reason) for a in here
    ]
    assert sum(answer.num_undos for answer in here) >= 3, "nothing was undone: this shows nothing"
    undo = tokenizer.convert_tokens_to_ids("<UNDO>")
    inside = [body["prompt"][:-1].count(undo) for body in bodies]
    assert (sum(inside) == 0) == (context == "hard"), "hard: no undo stands in a prefix, but for the last token"


def test_an_undo_answer_that_never_comes_is_told_and_costs_no_other(served: tuple[Any, Any]) -> None:
    model, tokenizer = served
    how, told = UndoDecoding(max_new_tokens=24), list[str]()
    prompts = [PROMPTS[0], "Polish the lamp " * 60]
    with serving_vllm(model, tokenizer, room=64) as (address, _):
        sampler = EndpointSampler(address, "served", say=told.append)
        remote = RemoteUndo(sampler, tokenizer, (tokenizer.eos_token_id,), how)
        first, second = remote(prompts)
        with pytest.raises(InputError, match=r"not one of 1 answers came: HTTP 400 \(1\)"):
            remote(prompts[1:])
    (here,) = generate_with_undo(model, tokenizer, prompts[:1], how)
    assert first.token_ids == here.token_ids
    assert (second.text, second.finish_reason) == ("", "error")
    assert told == [f"{address}: 1 of 2 answers never came: HTTP 400 (1)"]


def test_n_is_one_request_and_its_answers_differ(served: tuple[Any, Any]) -> None:
    model, tokenizer = served
    prompts = [prompt for prompt in PROMPTS for _ in range(4)]
    with serving_vllm(model, tokenizer) as (address, bodies):
        sampler = EndpointSampler(address, "served", logprobs=True)
        first = sampler(prompts, max_new_tokens=6, temperature=1.0, seed=3)
        again = sampler(prompts, max_new_tokens=6, temperature=1.0, seed=3)
        greedy = sampler(prompts, max_new_tokens=6, seed=3)
    assert [body.get("n") for body in bodies[:3]] == [4, 4, 4]
    assert first == again, "a seed repeats the answers"
    assert len({answer.text for answer in first[:4]}) > 1
    assert all(answer.logp is not None and answer.logp < 0 for answer in first)
    assert all(answer.finish_reason != "error" for answer in greedy), "greedy answers are asked for one by one"


def test_the_command_line(
    served: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    model, tokenizer = served
    tokenizer.save_pretrained(tmp_path / "served")
    model.save_pretrained(tmp_path / "served")
    assert stops_of(str(tmp_path / "served"), tokenizer) == (tokenizer.eos_token_id,)
    short = ["--model-name", "served", "--max-new-tokens", "8"]
    with serving_vllm(model, tokenizer) as (address, bodies):
        undo = ["--undo", "--context", "hard", "--tokenizer", str(tmp_path / "served")]
        assert run_cli("generate", address, PROMPTS[0], *short, *undo, monkeypatch=monkeypatch) == 0
        best = ["--n", "3", "--temperature", "1", "--json", str(tmp_path / "best.json")]
        assert run_cli("generate", address, PROMPTS[0], *short, *best, monkeypatch=monkeypatch) == 0
        assert (bodies[-1]["n"], bodies[-1]["logprobs"]) == (3, True)
        (row,) = json.loads((tmp_path / "best.json").read_text())
        drawn = EndpointSampler(address, "served", logprobs=True)(
            [PROMPTS[0]] * 3, max_new_tokens=8, temperature=1.0, seed=0
        )
        likelihoods = [math.exp(answer.logp or 0.0) for answer in drawn]
        assert row["rewards"] == pytest.approx(likelihoods)
        assert row["text"] == drawn[likelihoods.index(max(likelihoods))].text
        safe = ["--temperature", "1", "--safe", "--judge", "refusal_phrases"]
        assert run_cli("generate", address, PROMPTS[0], *short, *safe, monkeypatch=monkeypatch) == 0
        assert "logprobs" not in bodies[-1], "with one candidate there is nothing to choose"
        assert run_cli("generate", address, PROMPTS[0], monkeypatch=monkeypatch) == 2
        assert run_cli("generate", address, PROMPTS[0], *short, "--undo", monkeypatch=monkeypatch) == 2
    told = capsys.readouterr().err
    assert "say which of its models with --model-name" in told
    assert "give --tokenizer" in told
