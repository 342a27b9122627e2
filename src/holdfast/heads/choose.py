"""Which backend computes a chunk: the Triton kernels where they can run, plain torch everywhere else."""

from __future__ import annotations

import functools
import os
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch

from holdfast.config import InputError, nearest_or_all
from holdfast.heads.logit_chunk import LogitChunk
from holdfast.heads.want import Want

if TYPE_CHECKING:
    from holdfast.heads.triton_chunk import TritonChunk

BACKENDS = ("auto", "reference", "chunked", "triton")


def chunk_class(backend: str, device: torch.device, want: Want) -> type[LogitChunk] | type[TritonChunk]:
    """``LogitChunk`` or ``TritonChunk``. ``auto`` on a GPU says in one line, once, why it cannot take Triton."""
    if backend not in BACKENDS:
        raise InputError(f"backend '{backend}' is unknown{nearest_or_all(backend, BACKENDS)}")
    if backend in ("chunked", "reference"):
        return LogitChunk
    reason = why_not_triton(device, want)
    if reason is None:
        from holdfast.heads.triton_chunk import TritonChunk

        return TritonChunk
    if backend == "triton":
        raise InputError(f"backend 'triton' is not available here: {reason}; use 'auto' or 'chunked'")
    if device.type == "cuda":
        _say_once(f"the head falls back from Triton kernels to plain torch: {reason}")
    return LogitChunk


def why_not_triton(device: torch.device, want: Want) -> str | None:
    """Why the Triton kernels cannot compute this; None if they can."""
    if find_spec("triton") is None:
        return "the package triton is not installed"
    if device.type != "cuda" and not interpreted():
        return "it needs a CUDA device (or TRITON_INTERPRET=1)"
    if want.soften is not None:
        return "it has no softened argmax"
    return None


def interpreted() -> bool:
    """Whether Triton runs its kernels in Python, on CPU tensors: slow, and how they are tested without a GPU."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "yes", "on", "y")


@functools.cache
def _say_once(line: str) -> None:
    warnings.warn(line, stacklevel=2)
