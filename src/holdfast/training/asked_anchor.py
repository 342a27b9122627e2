"""The anchor, asked before a run begins. Answers that another run got under the same settings are used again.

All answers of one call are kept together, under everything that decides them: all of its prompts, in order, included. Single
answers are not kept: in another batch rounding may decide a near tie otherwise, and a run's rows would depend on what
was asked before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import torch

from holdfast.generation import generate
from holdfast.generation.conversations import ready_to_read, stop_ids
from holdfast.generation.prompts import Prompt
from holdfast.models import LoadedModel
from holdfast.models.identity import config_hash, hash_of, tokenizer_hash, weights_hash
from holdfast.training.kept_answers import KeptAnswers, Text, answers_folder
from holdfast.training.processes import Alive, Say, ignore

FORMAT = 1
LIBRARIES = ("torch", "transformers", "tokenizers")
PACKAGE = Path(__file__).parents[1]
DECIDE = ("data", "generation", "judging", "models", "records", "tokens", "worlds")
"""Packages of ours whose code has a part in an answer or in its verdict."""


@dataclass(frozen=True)
class Asking:
    """How to answer: greedily, or as many times as there are seeds."""

    max_new_tokens: int
    batch_size: int = 64
    temperature: float = 0.0
    seeds: tuple[int, ...] = (0,)


class Filter(NamedTuple):
    """Puts None in the place of some answers. What is left may be kept for other runs if ``is_kept``."""

    name: str
    apply: Callable[[Sequence[str]], Sequence[Text]]
    is_kept: bool


class Counts(NamedTuple):
    """How many answers were asked for, and how many of these an earlier run had kept."""

    asked: int
    kept: int


class AskedAnchor:
    """A model that answers. Its weights are hashed once: they must not change while it is asked."""

    def __init__(self, loaded: LoadedModel, say: Say = ignore, alive: Alive = ignore) -> None:
        self.loaded = loaded
        self.counts = Counts(0, 0)
        folder = answers_folder()
        self._kept = None if folder is None else KeptAnswers(folder, say, alive)

    def ask(
        self, prompts: Sequence[Prompt], how: Asking, *, only: Filter | None = None, on_progress: Alive = ignore
    ) -> list[Text]:
        """Every prompt's answer under the first seed, then under the next. Those that ``only`` leaves out are None."""
        num = len(prompts) * len(how.seeds)

        def make() -> Sequence[Text]:
            said: list[str] = []
            for seed in how.seeds:
                before = len(said)
                said += written(
                    self.loaded, prompts, how, seed, lambda done, _, before=before: on_progress(before + done, num)
                )
            return said if only is None else only.apply(said)

        if self._kept is None or (only is not None and not only.is_kept):
            texts, is_kept = list(make()), False
        else:
            texts, is_kept = self._kept.read_or_make(self._key(prompts, how, only.name if only else ""), num, make)
        self.counts = Counts(self.counts.asked + num, self.counts.kept + num * is_kept)
        return texts

    def _key(self, prompts: Sequence[Prompt], how: Asking, rule: str) -> str:
        """The name of a call's answers. Beside the turns, which a judge reads, it holds ids: a template may write the date."""
        conversations, ids = ready_to_read(prompts, self.loaded.model, self.loaded.tokenizer)
        settings = {**asdict(how), "batch_size": min(how.batch_size, len(prompts))}
        parts = [FORMAT, self._who, settings, rule, ids, [repr(turns) for turns in conversations]]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    @cached_property
    def _who(self) -> list[object]:
        model, tokenizer = self.loaded.model, self.loaded.tokenizer
        return [
            weights_hash(model),
            config_hash(model),
            tokenizer_hash(tokenizer),
            stop_ids(model, tokenizer),
            model.config._attn_implementation,
            _machine(self.loaded.device),
            [version(name) for name in LIBRARIES],
            _code(),
        ]


def written(
    loaded: LoadedModel, prompts: Sequence[Prompt], how: Asking, seed: int, on_progress: Alive = ignore
) -> list[str]:
    """The model's answers under one seed, written now and not read from a folder."""
    completions = generate(
        loaded.model,
        loaded.tokenizer,
        prompts,
        max_new_tokens=how.max_new_tokens,
        temperature=how.temperature,
        seed=seed,
        batch_size=how.batch_size,
        on_progress=on_progress,
    )
    return [completion.text.strip() for completion in completions]


def _machine(device: torch.device) -> list[object]:
    """What rounding depends on: kernels differ between GPUs, and on a CPU with its instructions and the number of threads."""
    if device.type == "cuda":
        return [torch.cuda.get_device_name(device), torch.get_float32_matmul_precision()]
    if device.type == "cpu":
        return ["cpu", torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()]
    return [device.type]


@cache
def _code() -> str:
    """A hash of our source that answers and judges, and of the judges' weights."""
    files = [path for package in DECIDE for path in (PACKAGE / package).rglob("*.py")]
    weights = [path for pattern in ("*.json", "*.safetensors") for path in (PACKAGE / "judging").rglob(pattern)]
    return hash_of(PACKAGE, sorted([*files, *weights]))
