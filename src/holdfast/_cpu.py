"""What the CPU of this machine multiplies by instructions of its own. Imported by several floors, so it imports none."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import torch


@functools.cache
def multiplies_bfloat16() -> bool:
    """Whether products of bfloat16 are faster here than of float32. False where torch cannot say (before 2.12)."""
    features: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(features.get("avx512_bf16") or features.get("amx_bf16"))
