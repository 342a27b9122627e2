"""What RL needs to know of ``<UNDO>``: rollouts that take back, a reward for what is left, and hard context in the loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from trl import GRPOTrainer

from holdfast.config import InputError
from holdfast.config.rl import GrpoSettings
from holdfast.generation import UndoDecoder, UndoDecoding, UndoLimits
from holdfast.models.eval_mode import eval_mode
from holdfast.records import Reply, Role, context
from holdfast.tokens import (
    UNDO_TOKEN,
    Context,
    additive_mask,
    apply_undo,
    find_undo_id,
    hard_mask,
    prompt_ids,
    stack_context,
)
from holdfast.training.rl.sampling import seed_of_step

Score = Callable[[Sequence[Reply]], list[float]]
"""A reward that has a number for every reply."""


def replies_of(
    prompts: Sequence[Any], texts: Sequence[str], ended: Sequence[bool], answers: Sequence[str]
) -> list[Reply]:
    """What TRL hands to a reward function, as replies. ``texts``: what is left of each response after its undos."""
    return [
        Reply(
            tuple(context(turn["role"], turn["content"]) for turn in prompt),
            text,
            "stop" if end else "length",
            reference=answer,
        )
        for prompt, text, end, answer in zip(prompts, texts, ended, answers, strict=True)
    ]


@dataclass(frozen=True)
class UndoRl:
    """GRPO for a model that takes back. The cost of an undo moves the optimum: report accuracy over several costs."""

    cost: float = 0.0  # subtracted from the reward for every undo
    context: Context = "soft"
    limits: UndoLimits = field(default_factory=UndoLimits)

    def rollouts(self, tokenizer: Any, settings: GrpoSettings) -> Any:
        """TRL's ``rollout_func``: the decoder that users get. A typed ``<UNDO>`` in a prompt stays text."""

        def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
            ids = [
                prompt_ids([context(turn["role"], turn["content"]) for turn in messages], tokenizer)
                for messages in prompts
            ]
            policy = trainer.accelerator.unwrap_model(trainer.model)
            seed = seed_of_step(settings.seed, trainer)
            temperature = settings.temperature
            how = UndoDecoding(settings.max_new_tokens, self.context, temperature, seed=seed, limits=self.limits)
            with eval_mode(policy):
                steps = UndoDecoder.of(policy, tokenizer, how).steps(ids)
                written = {step.row: step.answer.written for step in steps if step.finished}
            return {
                "prompt_ids": ids,
                "completion_ids": [written[row] for row in range(len(ids))],
                "logprobs": None,  # TRL computes them itself: without a sampler of other weights nothing needs correcting
            }

        return rollout

    def reward_function(self, score: Score, tokenizer: Any) -> Any:
        """TRL's calling convention: right final answers, less the cost of the undos on the way."""
        undo_id = _undo_id(tokenizer)

        def final_answer(
            prompts: list[Any], completion_ids: list[list[int]], answer: list[str], **_: Any
        ) -> list[float]:
            ended = [ids[-1:] == [tokenizer.eos_token_id] for ids in completion_ids]
            left = [tokenizer.decode(apply_undo(ids, undo_id), skip_special_tokens=True) for ids in completion_ids]
            rewards = score(replies_of(prompts, left, ended, answer))
            return [got - self.cost * ids.count(undo_id) for got, ids in zip(rewards, completion_ids, strict=True)]

        return final_answer

    def trainer_class(self, tokenizer: Any, base: type[GRPOTrainer] = GRPOTrainer) -> Any:
        """``base`` as it is for soft context; for hard context it computes log-probabilities under our mask."""
        if self.context == "soft":
            return base
        return type("HardContextTrainer", (_HardContext, base), {"undo_id": _undo_id(tokenizer)})


def _undo_id(tokenizer: Any) -> int:
    undo_id = find_undo_id(tokenizer)
    if undo_id is None:
        raise InputError(f"rl: this model's vocabulary has no {UNDO_TOKEN}: train one first (holdfast train undo)")
    return undo_id


class _HardContext(GRPOTrainer):
    undo_id: int

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Tensor, attention_mask: Tensor, logits_to_keep: int, *args: Any, **kwargs: Any
    ) -> Any:
        seen = _HardView(model, self.undo_id, input_ids.shape[1] - logits_to_keep)
        return super()._get_per_token_logps_and_entropies(
            seen, input_ids, attention_mask, logits_to_keep, *args, **kwargs
        )


class _HardView:
    """The model, fed with the mask and positions of hard context in the place of a 2-D mask."""

    def __init__(self, model: Any, undo_id: int, num_prompt: int) -> None:
        self._model, self._undo_id, self._num_prompt = model, undo_id, num_prompt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, *, input_ids: Tensor, attention_mask: Tensor, **rest: Any) -> Any:
        mask, positions = hard_inputs(input_ids, attention_mask, self._num_prompt, self._undo_id)
        if self._model.config._attn_implementation == "eager":
            mask = additive_mask(mask)
        return self._model(input_ids=input_ids, attention_mask=mask, position_ids=positions, **rest)


def hard_inputs(ids: Tensor, given: Tensor, num_prompt: int, undo_id: int) -> tuple[Tensor, Tensor]:
    """Mask [B, 1, T, T] and positions [B, T] of prompts padded on the left with completions padded on the right.

    Padding sees itself and is seen by nothing else.
    """
    width = ids.shape[1]
    until = torch.arange(1, width + 1).repeat(len(ids), 1)
    positions = torch.zeros_like(until)
    for row, (tokens, real) in enumerate(zip(ids.tolist(), given.tolist(), strict=True)):
        indices = [index for index in range(width) if real[index]]
        roles = [_role(tokens[index], index < num_prompt, undo_id) for index in indices]
        stack = stack_context(roles)
        ends = [indices[end] if end < len(indices) else width for end in stack.until]
        until[row, indices] = torch.tensor(ends)
        positions[row, indices] = torch.tensor(stack.positions)
    return hard_mask(until.to(ids.device)), positions.to(ids.device)


def _role(token: int, in_prompt: bool, undo_id: int) -> int:
    return int(Role.PROMPT if in_prompt else Role.UNDO if token == undo_id else Role.RESPONSE)
