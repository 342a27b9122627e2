"""Captured steps on a GPU: the tokens of the same steps uncaptured, and of transformers."""

import warnings

import pytest
import torch

from generation.test_graphs import PAD, check_against_transformers, sampled, some_prompts
from generation.undo_models import small_llama
from holdfast.generation import generate
from holdfast.generation.graphs import Decoding, GraphDecoder, why_not_graphs
from holdfast.models import load
from holdfast.worlds import SafetyWorld

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_greedy_tokens_are_those_of_transformers(attention):
    model = small_llama(attention, torch.float32).cuda()
    assert why_not_graphs(model) is None
    check_against_transformers(model)


def test_sampled_tokens_are_those_of_the_cpu():
    """Luck is drawn before: captured or not, on this device or that, the same tokens."""
    prompts = some_prompts(6, seed=7)
    uniform = torch.rand(6, 24, dtype=torch.float64)
    (on_cpu,) = sampled(small_llama("sdpa"), prompts, uniform, 6)
    (on_gpu,) = sampled(small_llama("sdpa").cuda(), prompts, uniform, 6)
    assert on_gpu.ids == on_cpu.ids
    for found, right in zip(on_gpu.logps, on_cpu.logps, strict=True):
        assert found == pytest.approx(right, abs=1e-5)


def test_the_graph_is_captured_and_used_again():
    decoder = GraphDecoder(small_llama("sdpa").cuda(), Decoding(8, [2], PAD), 4)
    decoder(some_prompts(4, seed=8))
    assert decoder._batch is not None
    graph = decoder._batch.graph
    assert graph is not None
    decoder(some_prompts(3, seed=9))
    assert decoder._batch.graph is graph


def test_generate_takes_graphs_by_itself():
    """Greedy as on the CPU, sampling repeatable whatever the batches, and not a word of warning."""
    rows = [row for kind in ("copy", "recipe", "colour") for row in SafetyWorld(0).requests("test", kind, 8)]
    cpu, gpu = (load("tiny:base", device=device) for device in ("cpu", "cuda"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answers = generate(gpu.model, gpu.tokenizer, rows, max_new_tokens=20)
        first, second = (
            generate(gpu.model, gpu.tokenizer, rows, max_new_tokens=20, temperature=2.0, seed=1, batch_size=size)
            for size in (24, 7)
        )
    assert answers == generate(cpu.model, cpu.tokenizer, rows, max_new_tokens=20)
    assert first == second != answers


def test_generate_falls_back_with_a_reason():
    loaded = load("tiny:base", device="cuda")
    expected = generate(loaded.model, loaded.tokenizer, ["copy : sun leaf"], max_new_tokens=6)
    loaded.model.hf_device_map = {"": 0, "elsewhere": 1}
    with pytest.warns(UserWarning, match="without CUDA graphs.*several devices"):
        found = generate(loaded.model, loaded.tokenizer, ["copy : sun leaf"], max_new_tokens=6)
    assert found == expected
