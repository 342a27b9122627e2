"""A reward learned from right and wrong answers: a linear head on sentence embeddings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from holdfast.config import InputError
from holdfast.data import atomic_text
from holdfast.judging.judge import request_text
from holdfast.judging.learned_judge import pair_features
from holdfast.records import Reply

DECAY = 1e-2  # of the squared weights
MAX_STEPS = 200


@dataclass(frozen=True)
class LearnedReward:
    """P(right), by a linear head on sentence embeddings of request and answer together."""

    weight: Tensor
    bias: Tensor

    def __call__(self, replies: Sequence[Reply]) -> list[float | None]:
        """An empty answer is worth 0."""
        features = pair_features([(request_text(reply.turns), reply.text) for reply in replies])
        scores = torch.sigmoid(features @ self.weight + self.bias).tolist()
        return [score if reply.text.strip() else 0.0 for score, reply in zip(scores, replies, strict=True)]

    def save(self, folder: Path) -> None:
        """A folder with the head, whole or none; the embeddings come from their package."""
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / ".reward.safetensors"
        try:
            partial.write_bytes(save({"weight": self.weight.contiguous(), "bias": self.bias}))
            with atomic_text(folder / "reward.json") as file:
                file.write(json.dumps({"features": len(self.weight)}) + "\n")
            partial.replace(folder / "reward.safetensors")
        except OSError as error:
            raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
        finally:
            partial.unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: Path) -> LearnedReward:
        """The reward that ``save`` wrote to a folder."""
        path = folder / "reward.safetensors"
        if not path.is_file():
            raise InputError(f"reward: {path} is not there; `holdfast oversee fit-reward` makes one")
        try:
            tensors = load_file(path)
            return cls(tensors["weight"], tensors["bias"])
        except (SafetensorError, KeyError) as error:
            raise InputError(f"reward: {path} is damaged, or is none ({error})") from None


def fit_reward(pairs: Sequence[tuple[str, str]], right: Sequence[bool]) -> LearnedReward:
    """Logistic regression on (request, answer) -> right or wrong, full batch, from zero: the same data give the same head."""
    if len(set(right)) < 2 or len(pairs) != len(right):
        raise InputError("fit-reward: needs right and wrong answers, as many labels as answers")
    features = pair_features(pairs).clone()
    labels = torch.tensor(right, dtype=torch.float32)
    weight = torch.zeros(features.shape[1], requires_grad=True)
    bias = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=MAX_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = torch.nn.functional.binary_cross_entropy_with_logits(features @ weight + bias, labels)
        value = value + DECAY * weight.square().sum() / 2
        value.backward()
        return value

    optimizer.step(loss)
    return LearnedReward(weight.detach(), bias.detach())
