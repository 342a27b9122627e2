"""A real instruct model of 135 million parameters: trained for a few steps, saved, reloaded.

It needs a folder with SmolLM2-135M-Instruct in Hugging Face's format, named by HOLDFAST_SMOLLM2.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from holdfast.data import read_traces
from holdfast.generation import generate
from holdfast.models import load
from holdfast.records import Role, Trace
from holdfast.tokens import pad, tokenize_all
from training.runs import config, run, steps

FOLDER = os.environ.get("HOLDFAST_SMOLLM2", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER, reason="set HOLDFAST_SMOLLM2 to a folder with SmolLM2-135M-Instruct"),
]

CAPITALS = {"France": "Paris", "Italy": "Rome", "Japan": "Tokyo", "Kenya": "Nairobi", "Peru": "Lima", "Egypt": "Cairo"}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "capitals.jsonl"
    with path.open("w") as file:
        for country, capital in CAPITALS.items():
            answer = f"The capital of {country} is {capital}."
            messages = [
                {"role": "user", "content": f"What is the capital of {country}?"},
                {"role": "assistant", "content": answer},
            ]
            file.write(json.dumps({"messages": messages}) + "\n")
    return path


def mean_nll(model: Any, tokenizer: Any, traces: Sequence[Trace]) -> float:
    """Of all target tokens, by transformers' own logits."""
    batch = pad(tokenize_all(traces, tokenizer)[0], 0)
    with torch.no_grad():
        logp = model(**batch.model_inputs()).logits[:, :-1].log_softmax(-1)
    target = batch.roles[:, 1:] != Role.PROMPT
    return -logp.gather(-1, batch.ids[:, 1:, None]).squeeze(-1)[target].mean().item()


def test_lora_csft_pa_on_a_real_model(tmp_path: Path, rows: Path) -> None:
    settings = config(
        tmp_path / "run",
        FOLDER,
        streams=[{"data": str(rows), "objective": "csft_pa", "name": "task"}],
        lora={"r": 8, "merge": True},
        training={"batch_size": 6, "micro_batch": 6, "max_steps": 12, "lr": 2e-3},
    )
    said: list[str] = []
    result = run(settings, said)
    log = steps(tmp_path / "run")
    assert "anchor: the model itself with its adapters off" in said
    assert log[0]["streams"]["task"]["kl"] == pytest.approx(0, abs=1e-6)
    assert log[-1]["nll"] < 0.6 * log[0]["nll"]
    assert log[-1]["streams"]["task"]["w"] < 1
    plain = AutoModelForCausalLM.from_pretrained(result.model, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(result.model)
    assert sum(parameter.numel() for parameter in plain.parameters()) > 130e6
    before = load(FOLDER, dtype="float32", device="cpu").model
    traces = read_traces(rows).traces
    assert mean_nll(before, tokenizer, traces) == pytest.approx(log[0]["nll"], rel=1e-4)
    assert mean_nll(plain, tokenizer, traces) < 0.1 * log[0]["nll"]
    assert generate(plain, tokenizer, ["What is the capital of Italy?"], max_new_tokens=16)[0].text.strip()
