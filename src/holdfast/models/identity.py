"""Hashes that tell one model from another: of files, of weights in memory, and of a tokenizer."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

NAMES = ("_name_or_path", "transformers_version")
"""Fields of a config that say where a model came from and not what it does."""


def hash_of(root: Path, files: Iterable[Path]) -> str:
    """A hash of the names of these files, relative to ``root``, and of their bytes."""
    digest = hashlib.sha256()
    for path in files:
        if path.is_file():
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
            stat = path.stat()
            digest.update(_file_hash(path, (stat.st_size, stat.st_mtime_ns)))
    return digest.hexdigest()


@cache
def _file_hash(path: Path, state: tuple[int, int]) -> bytes:
    """A file's hash, computed once for each ``state``: a matrix asks for it in every cell, and weights are large."""
    del state  # only there to be cached by
    return hashlib.sha256(path.read_bytes()).digest()


def weights_hash(model: Any) -> str:
    """A hash of all weights in memory. It identifies the model that answers now, also if tokens or adapters were added since.

    Every byte counts. Tensors are hashed on several cores; one that stands there under two names (a tied head) is read once.
    """
    tensors = sorted(model.state_dict().items())
    distinct = {_place(tensor): tensor for _, tensor in tensors}
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        hashes = dict(zip(distinct, pool.map(_tensor_hash, distinct.values()), strict=True))
    named = [(name, str(tensor.dtype), list(tensor.shape), hashes[_place(tensor)]) for name, tensor in tensors]
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def _place(tensor: Tensor) -> tuple[Any, ...]:
    return str(tensor.device), tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()


def _tensor_hash(tensor: Tensor) -> str:
    values = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
    return hashlib.sha256(values.numpy().data).hexdigest()


def config_hash(model: Any) -> str:
    """A hash of what decides a model's answers besides its weights: its config, and the scale of an adapter."""
    config = {name: value for name, value in model.config.to_dict().items() if name not in NAMES}
    adapters = {name: adapter.to_dict() for name, adapter in getattr(model, "peft_config", {}).items()}
    return hashlib.sha256(json.dumps([config, adapters], sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: object) -> Any:
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)


def tokenizer_hash(tokenizer: Any) -> str:
    """A hash of a tokenizer's vocabulary, rules and chat template."""
    rules = getattr(tokenizer, "backend_tokenizer", None)
    known = rules.to_str() if rules is not None else json.dumps(sorted(tokenizer.get_vocab().items()))
    parts = (
        type(tokenizer).__name__,
        known,
        tokenizer.chat_template,
        tokenizer.clean_up_tokenization_spaces,
        tokenizer.all_special_tokens,
    )
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()
