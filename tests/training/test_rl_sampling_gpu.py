"""Rollouts on a GPU: by CUDA graphs, and the same as the loop that serves everywhere."""

import pytest
import torch

from generation.test_graphs import some_prompts
from generation.undo_models import small_llama
from holdfast.training.rl import sample

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
HOW = {"max_new_tokens": 24, "end_id": 2, "pad_id": 0}


def test_greedy_rollouts_are_those_of_the_cpu():
    prompts = some_prompts(9, seed=1)
    right = sample(small_llama("sdpa"), prompts, temperature=0.0, **HOW)
    found = sample(small_llama("sdpa").cuda(), prompts, temperature=0.0, **HOW)
    assert [each.ids for each in found] == [each.ids for each in right]
    assert [each.ended for each in found] == [each.ended for each in right]
    for one, other in zip(found, right, strict=True):
        assert one.logps == pytest.approx(other.logps, abs=1e-5)


def test_sampled_rollouts_are_seeded_and_carry_their_log_probabilities():
    model = small_llama("sdpa").cuda().train()
    prompts = some_prompts(9, seed=2)
    first, again, other = (sample(model, prompts, temperature=0.8, seed=seed, **HOW) for seed in (1, 1, 2))
    assert first == again != other
    assert model.training
    for prompt, rollout in zip(prompts, first, strict=True):
        logits = model(torch.tensor([prompt + rollout.ids], device="cuda")).logits[0, len(prompt) - 1 : -1]
        chosen = torch.tensor(rollout.ids, device="cuda")[:, None]
        right = (logits.float() / 0.8).log_softmax(-1).gather(1, chosen).squeeze(1)
        assert rollout.logps == pytest.approx(right.tolist(), abs=1e-4)
        assert rollout.own == [True] * len(rollout.ids)
