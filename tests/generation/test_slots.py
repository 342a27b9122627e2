"""Cached decoding = a fresh forward over what is visible = the mask of training: at every step, in both contexts."""

from __future__ import annotations

import pytest
import torch

from generation.undo_models import UNDO, fresh_logits, scripts, small_llama, training_logits
from holdfast.config import InputError
from holdfast.generation.slots import SlotCache, check_context

PROMPTS = [[1, 5, 6, 7, 8], [1, 9], [1, 11, 12]]
NUM_STEPS = 24
# transformers' eager attention takes its softmax in float32, and is NaN for padded batches in float64
DTYPE, TOLERANCE = {"sdpa": torch.float64, "eager": torch.float32}, {"sdpa": 1e-12, "eager": 5e-5}
attentions = pytest.mark.parametrize("attention", ["sdpa", "eager"])
contexts = pytest.mark.parametrize("context", ["soft", "hard"])


def run(slots: SlotCache, answers: list[list[int]]) -> list[list[torch.Tensor]]:
    """The logits after every token of every row."""
    slots.start(PROMPTS, 0)
    found = []
    for tokens in zip(*answers, strict=True):
        logits = slots.feed(tokens, [token == UNDO for token in tokens], [False] * len(tokens))
        found.append(list(logits))
    return [list(row) for row in zip(*found, strict=True)]


@attentions
@contexts
def test_every_step_is_a_fresh_forward_and_the_training_mask(attention: str, context: str) -> None:
    model, answers = small_llama(attention, DTYPE[attention]), scripts(len(PROMPTS), NUM_STEPS, seed=3)
    slots = SlotCache(model, context=context)  # type: ignore[arg-type]
    for prompt, answer, logits in zip(PROMPTS, answers, run(slots, answers), strict=True):
        trained = training_logits(model, prompt, answer, context)
        for step, here in enumerate(logits):
            fresh = fresh_logits(model, prompt, answer[: step + 1], context)
            assert (here - fresh).abs().max() < TOLERANCE[attention], f"step {step}"
            assert (here - trained[step]).abs().max() < TOLERANCE[attention], f"step {step}"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("attention", "dtype", "tolerance"),
    [("sdpa", torch.float64, 1e-12), ("sdpa", torch.float32, 2e-4), ("eager", torch.float32, 2e-4)],
)
def test_much_undoing_and_compaction(attention: str, dtype: torch.dtype, tolerance: float, seed: int) -> None:
    """Long enough for the cache to be compacted."""
    model, answers = small_llama(attention, dtype), scripts(len(PROMPTS), 150, seed, undo_rate=0.5)
    slots = SlotCache(model, context="hard")
    for prompt, answer, logits in zip(PROMPTS, answers, run(slots, answers), strict=True):
        trained = training_logits(model, prompt, answer, "hard")
        assert (torch.stack(logits) - trained).abs().max() < tolerance
    assert slots.used < 150, "it was compacted"


def test_soft_and_hard_differ() -> None:
    model, answers = small_llama("sdpa"), scripts(len(PROMPTS), NUM_STEPS, seed=3)
    soft, hard = (run(SlotCache(model, context=context), answers) for context in ("soft", "hard"))  # type: ignore[arg-type]
    assert (soft[0][-1] - hard[0][-1]).abs().max() > 1e-3


@contexts
def test_rows_that_have_ended_leave_the_others_alone(context: str) -> None:
    model, answers = small_llama("sdpa"), scripts(len(PROMPTS), NUM_STEPS, seed=5)
    slots = SlotCache(model, context=context)  # type: ignore[arg-type]
    slots.start(PROMPTS, 0)
    for step, tokens in enumerate(zip(*answers, strict=True)):
        done = [False, step >= 4, step >= 9]
        fed = [0 if ended else token for token, ended in zip(tokens, done, strict=True)]
        logits = slots.feed(fed, [token == UNDO for token in fed], done)
        fresh = fresh_logits(model, PROMPTS[0], answers[0][: step + 1], context)
        assert (logits[0] - fresh).abs().max() < 1e-12


def test_hard_context_is_refused_where_our_mask_would_be_lost() -> None:
    model = small_llama("sdpa")
    model.config.sliding_window = 16
    check_context(model, "soft", 100)
    check_context(model, "hard", 16)
    with pytest.raises(InputError, match="sliding window of 16"):
        check_context(model, "hard", 17)
    model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(InputError, match="flash_attention_2"):
        check_context(model, "hard", 4)
