"""A batched sampler with an environment in the loop, for rollouts and for evaluation.

transformers' ``generate`` cannot say which tokens an environment has changed, and on small models spends more time around
the model than in it. Here: one key-value cache, rows that have ended leave the batch, log-probabilities come along.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from holdfast.generation.graphs import Decoding, graphs_for
from holdfast.generation.reading import next_logits, padded_left, positions_of
from holdfast.models.eval_mode import eval_mode
from holdfast.training.rl.task import Environment

BATCH = 512  # responses written together on a GPU


@dataclass(frozen=True, slots=True)
class Rollout:
    """One response. ``own[t]`` is False where the environment has put another token than the sampled one."""

    ids: list[int]
    logps: list[float]  # of the tokens that stand there
    own: list[bool]
    ended: bool


def seed_of_step(seed: int, trainer: Any) -> int:
    """The seed for the rollouts of one step on one process. With one seed for all, every process would draw the same."""
    step, process = int(trainer.state.global_step), int(trainer.accelerator.process_index)
    return seed * 1_000_003 + step + 40_503_007 * process


@torch.no_grad()
def sample(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    end_id: int,
    pad_id: int,
    temperature: float = 1.0,
    seed: int = 0,
    environment: Environment | None = None,
) -> list[Rollout]:
    """One response per prompt, the end token included; temperature 0 is greedy. The model's mode is left as it was.

    On a GPU, without an environment, by CUDA graphs where the model allows it.
    """
    if environment is None and model.device.type == "cuda":
        how = Decoding(max_new_tokens, [end_id], pad_id, temperature, keep_logps=True)
        replayed = _replayed(model, prompts, how, seed)
        if replayed is not None:
            return replayed
    generator = torch.Generator(device=model.device).manual_seed(seed)
    state = _State(prompts, pad_id, model.device)
    if environment:
        environment.start(len(prompts), model.device)
    with eval_mode(model):
        for _ in range(max_new_tokens):
            logits = state.forward(model).float()
            logp = (logits / (temperature or 1.0)).log_softmax(-1)
            drawn = torch.multinomial(logp.exp(), 1, generator=generator).squeeze(1)
            chosen = drawn if temperature > 0 else logp.argmax(-1)
            written = environment(state.rows, chosen, generator) if environment else chosen
            state.append(written, logp.gather(1, written[:, None]).squeeze(1), written == chosen, end_id)
            if not len(state.rows):
                break
    return state.rollouts(end_id)


def _replayed(model: Any, prompts: Sequence[Sequence[int]], how: Decoding, seed: int) -> list[Rollout] | None:
    """Longest prompts first, in batches; the luck of a response is its own, however they are batched."""
    decoder = graphs_for(model, how, min(len(prompts), BATCH))
    if decoder is None:
        return None
    luck = torch.rand(
        len(prompts), how.max_new_tokens, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    order = sorted(range(len(prompts)), key=lambda index: -len(prompts[index]))
    rollouts: dict[int, Rollout] = {}
    with eval_mode(model):
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            written = decoder.attempt([prompts[index] for index in batch], luck[batch])
            if written is None:
                return None
            for index, ids, logps in zip(batch, written.ids, written.logps, strict=True):
                rollouts[index] = Rollout(ids, logps, [True] * len(ids), ids[-1] in how.stops)
    return [rollouts[index] for index in range(len(prompts))]


class _State:
    """The rows still being written: cache, mask and last token; and what all rows have so far."""

    def __init__(self, prompts: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> None:
        line_of = {prompt: line for line, prompt in enumerate(dict.fromkeys(map(tuple, prompts)))}
        self.fed, given = padded_left(list(line_of), pad_id, device)
        self.mask, self.position = given.long(), positions_of(given)
        self.cache = DynamicCache()
        self.rows = torch.arange(len(prompts), device=device)  # which response each line of the batch is
        self.steps: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        self.num = len(prompts)
        self.prompt_lines = torch.tensor([line_of[tuple(prompt)] for prompt in prompts], device=device)

    def forward(self, model: Any) -> Tensor:
        logits = next_logits(model, self.fed, self.mask, self.position, self.cache)
        if self.steps or len(self.fed) == self.num:
            return logits
        # A prompt is read once for all of its responses (a group has the same); from here each has a line of its own.
        lines = self.prompt_lines
        self.cache.batch_select_indices(lines)
        self.mask, self.position = self.mask[lines], self.position[lines]
        return logits[lines]

    def append(self, written: Tensor, logp: Tensor, own: Tensor, end_id: int) -> None:
        self.steps.append((self.rows, written, logp, own))
        self.position = self.position[:, -1:] + 1
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(written), 1)], 1)
        going_on = (written != end_id).nonzero().squeeze(1)
        if len(going_on) < len(written):
            self.cache.batch_select_indices(going_on)
            self.rows, written = self.rows[going_on], written[going_on]
            self.position, self.mask = self.position[going_on], self.mask[going_on]
        self.fed = written[:, None]

    def rollouts(self, end_id: int) -> list[Rollout]:
        rows, *columns = (torch.cat(column) for column in zip(*self.steps, strict=True))
        order = rows.argsort(stable=True)  # by response, and in each in the order of writing
        lengths = rows.bincount(minlength=self.num).tolist()
        texts = zip(*(_parts(column[order].tolist(), lengths) for column in columns), strict=True)
        return [Rollout(ids, logps, owns, ids[-1:] == [end_id]) for ids, logps, owns in texts]


def _parts(values: list[Any], lengths: Sequence[int]) -> Iterator[list[Any]]:
    """A list cut into lists of these lengths."""
    left = iter(values)
    return (list(islice(left, length)) for length in lengths)
