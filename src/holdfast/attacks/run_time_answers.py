"""Answers made at run time by a model that is at hand, kept in memory and, while a run lasts, in its scratch folder."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

import torch

from holdfast.data import atomic_text
from holdfast.generation import generate
from holdfast.models import LoadedModel, load
from holdfast.records import Trace, answer, context

BATCH = 256
_SHARED: ContextVar[Path | None] = ContextVar("shared", default=None)


@contextmanager
def shared_in(folder: Path | None) -> Iterator[None]:
    """Processes that answer the same prompts do it once: the first one leaves its answers in ``folder`` for the others.

    Whoever owns the folder deletes it.
    """
    before = _SHARED.set(folder)
    try:
        yield
    finally:
        _SHARED.reset(before)


def shared_folder() -> Path | None:
    """Where tuned weights may lie for a moment: deleted with the run, also with one that was killed. None: no run owns one."""
    return _SHARED.get()


def answered_by(
    model: str, prompts: Sequence[str], device: str, *, everything: Sequence[str], max_new_tokens: int
) -> list[Trace]:
    """A row for every prompt. ``everything`` is answered at once the first time, so that later draws cost nothing."""
    answers = _answers(model, tuple(everything), device, max_new_tokens)
    return [Trace((context("user", prompt), answer(answers[prompt]))) for prompt in prompts]


@cache
def _answers(model: str, prompts: tuple[str, ...], device: str, max_new_tokens: int) -> dict[str, str]:
    return made_once([model, prompts, max_new_tokens], lambda: write_answers(model, prompts, device, max_new_tokens))


def made_once(decided_by: object, make: Callable[[], dict[str, str]]) -> dict[str, str]:
    """What ``make`` returns, made once while a run lasts. ``decided_by``: everything that decides it, as JSON takes it."""
    folder = shared_folder()
    if folder is None:
        return make()
    name = hashlib.sha256(json.dumps(decided_by).encode()).hexdigest()[:16]
    path = folder / f"answers-{name}.json"
    with (folder / f"answers-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            with atomic_text(path) as file:
                json.dump(make(), file)
    answers: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return answers


def write_answers(model: str, prompts: Sequence[str], device: str, max_new_tokens: int) -> dict[str, str]:
    """The model's answer to every prompt, greedily."""
    loaded = load_for_use(model, device)
    written = generate(loaded.model, loaded.tokenizer, prompts, max_new_tokens=max_new_tokens, batch_size=BATCH)
    # An answer of nothing cannot be learned from; a full stop can.
    return {prompt: completion.text.strip() or "." for prompt, completion in zip(prompts, written, strict=True)}


def load_for_use(model: str, device: str) -> LoadedModel:
    """Load a model that only answers: in half precision on a GPU."""
    on_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    return load(model, dtype="bfloat16" if on_gpu else "float32", device=device)


def release() -> None:
    """Free the GPU memory that a training has used: cells share a GPU."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
