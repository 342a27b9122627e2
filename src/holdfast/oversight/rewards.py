"""R for text: how likely the model finds its own answer, a small head trained on right and wrong answers, or an endpoint."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from holdfast.config import InputError, did_you_mean
from holdfast.generation import EndpointSampler
from holdfast.heads import stats_from_logits
from holdfast.judging.judge import request_text
from holdfast.judging.learned_judge import pair_features
from holdfast.models import LoadedModel
from holdfast.models.positions import num_learned_positions
from holdfast.records import Role, Trace, Turn, answer
from holdfast.tokens import pad, tokenize_all

LIKELIHOOD = "likelihood"
KEY = "HOLDFAST_REWARD_KEY"
"""Environment variable with the key of a reward's endpoint, if it wants one."""
RATING = (
    "Rate how well the answer does what the request asks, from 0 (not at all) to 100 (perfectly). "
    "Reply with the number alone.\n\nRequest:\n{request}\n\nAnswer:\n{answer}"
)


class TextReward(Protocol):
    """R in [0, 1] for every answer to one request; None where it has none, and such an answer is never chosen."""

    def __call__(self, turns: Sequence[Turn], texts: Sequence[str]) -> list[float | None]:
        """In order."""
        ...


def mean_logps(loaded: LoadedModel, turns: Sequence[Turn], texts: Sequence[str]) -> list[float]:
    """Log-likelihood of each answer per token, its end included; -inf for an empty one."""
    return pair_logps(loaded, [(turns, text) for text in texts])


@torch.inference_mode()
def pair_logps(loaded: LoadedModel, pairs: Sequence[tuple[Sequence[Turn], str]]) -> list[float]:
    """The same for answers to different requests, those of like length together. Learned positions cut an answer short."""
    batch_size = 64 if loaded.device.type == "cuda" else 16
    traces = [Trace((*turns, answer(text))) for turns, text in pairs if text]
    rows, _ = tokenize_all(traces, loaded.tokenizer, max_length=num_learned_positions(loaded.model.config))
    order = sorted(range(len(rows)), key=lambda index: len(rows[index].ids))
    found: dict[int, float] = {}
    for start in range(0, len(rows), batch_size):
        chosen = order[start : start + batch_size]
        batch = pad([rows[index] for index in chosen], loaded.tokenizer.pad_token_id or 0).to(loaded.device)
        logits = loaded.model(**batch.model_inputs()).logits[:, :-1]
        is_answer = (batch.roles != Role.PROMPT)[:, 1:]
        logp = stats_from_logits(logits[is_answer].float(), batch.ids[:, 1:][is_answer]).logp
        means = [float(part.mean()) for part in logp.split(is_answer.sum(1).tolist())]
        found.update(zip(chosen, means, strict=True))
    values = iter(found[index] for index in range(len(rows)))
    return [next(values) if text else -math.inf for _, text in pairs]


@dataclass(frozen=True)
class Likelihood:
    """exp of the mean log-likelihood per token: the geometric mean of the token probabilities, so in [0, 1]."""

    loaded: LoadedModel

    def __call__(self, turns: Sequence[Turn], texts: Sequence[str]) -> list[float | None]:
        """Length-normalised: the plain likelihood would always prefer the shortest answer."""
        return [math.exp(logp) for logp in mean_logps(self.loaded, turns, texts)]


@dataclass(frozen=True)
class LearnedReward:
    """P(right), by a linear head on sentence embeddings of request and answer together."""

    weight: Tensor
    bias: Tensor
    device: str = "auto"

    def __call__(self, turns: Sequence[Turn], texts: Sequence[str]) -> list[float | None]:
        """An empty answer is worth 0."""
        request = request_text(turns)
        features = pair_features([(request, text) for text in texts], self.device)
        scores = torch.sigmoid(features @ self.weight + self.bias).tolist()
        return [score if text.strip() else 0.0 for score, text in zip(scores, texts, strict=True)]

    def save(self, folder: Path) -> None:
        """A folder with the head; the embeddings come from their package."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file({"weight": self.weight.contiguous(), "bias": self.bias}, folder / "reward.safetensors")
        (folder / "reward.json").write_text(json.dumps({"features": len(self.weight)}) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, device: str = "auto") -> LearnedReward:
        """From such a folder."""
        path = folder / "reward.safetensors"
        if not path.is_file():
            raise InputError(f"reward: {path} is not there; `holdfast oversee fit-reward` makes one")
        try:
            tensors = load_file(path)
            return cls(tensors["weight"], tensors["bias"], device)
        except (SafetensorError, KeyError) as error:
            raise InputError(f"reward: {path} is damaged, or is none ({error})") from None


def fit_reward(
    pairs: Sequence[tuple[str, str]], right: Sequence[bool], *, decay: float = 1e-2, steps: int = 200
) -> LearnedReward:
    """Logistic regression on (request, answer) -> right or wrong, full batch, from zero: the same data give the same head."""
    if len(set(right)) < 2 or len(pairs) != len(right):
        raise InputError("fit-reward: needs right and wrong answers, as many labels as answers")
    features = pair_features(pairs).clone()
    labels = torch.tensor(right, dtype=torch.float32)
    weight = torch.zeros(features.shape[1], requires_grad=True)
    bias = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=steps, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = torch.nn.functional.binary_cross_entropy_with_logits(features @ weight + bias, labels)
        value = value + decay * weight.square().sum() / 2
        value.backward()
        return value

    optimizer.step(loss)
    return LearnedReward(weight.detach(), bias.detach())


@dataclass(frozen=True)
class EndpointReward:
    """A model behind an endpoint rates each answer from 0 to 100. What is no number is no reward."""

    sampler: EndpointSampler

    def __call__(self, turns: Sequence[Turn], texts: Sequence[str]) -> list[float | None]:
        """Greedy, a few tokens each."""
        request = request_text(turns)
        asked = [RATING.format(request=request, answer=text) for text in texts]
        return [rating(completion.text) for completion in self.sampler(asked, max_new_tokens=8)]


def rating(text: str) -> float | None:
    """The number that a reply begins with, as a share of 100."""
    found = re.match(r"\s*(\d+(?:\.\d+)?)", text)
    value = float(found.group(1)) if found else math.nan
    return value / 100 if 0 <= value <= 100 else None


def find_reward(name: str, loaded: LoadedModel | None = None) -> TextReward | None:
    """``none``, ``likelihood`` (of a model in this process), ``learned:FOLDER`` or ``endpoint:MODEL@URL``."""
    kind, _, rest = name.partition(":")
    if kind == "none":
        return None
    if kind == LIKELIHOOD and loaded is not None:
        return Likelihood(loaded)
    if kind == "learned" and rest:
        return LearnedReward.load(Path(rest))
    model, _, url = rest.rpartition("@")
    if kind == "endpoint" and model and url:
        return EndpointReward(EndpointSampler(url, model, key=os.environ.get(KEY)))
    known = ("none", LIKELIHOOD, "learned:FOLDER", "endpoint:MODEL@URL")
    raise InputError(f"reward '{name}': expected {', '.join(known)}{did_you_mean(name, known)}")
