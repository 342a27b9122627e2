"""Where a model is put, and in which precision."""

from __future__ import annotations

from collections.abc import Callable

import torch

from holdfast._cpu import multiplies_bfloat16
from holdfast.config import InputError, did_you_mean

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
DEVICES = ("auto", "cpu", "cuda", "mps")


def choose_device(wanted: str) -> tuple[torch.device, str]:
    """The device, and why. 'auto' takes CUDA, then Apple's MPS, then the CPU."""
    kind = wanted.partition(":")[0]
    if kind not in DEVICES:
        raise InputError(f"device '{wanted}': expected one of {', '.join(DEVICES)}{did_you_mean(kind, DEVICES)}")
    if wanted == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda"), "found"
        if torch.backends.mps.is_available():
            return torch.device("mps"), "found"
        return torch.device("cpu"), "no GPU found"
    if kind == "cuda" and not torch.cuda.is_available():
        why = "torch was built without it" if torch.version.cuda is None else "torch sees no such device"
        raise InputError(f"device '{wanted}': CUDA is not available here ({why}); use device=cpu or device=auto")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise InputError(f"device '{wanted}': MPS is not available here; use device=cpu or device=auto")
    index = wanted.partition(":")[2]
    if index and not (index.isdigit() and (kind != "cuda" or int(index) < torch.cuda.device_count())):
        raise InputError(f"device '{wanted}': there is no such device; this machine has {torch.cuda.device_count()}")
    return torch.device(wanted), "asked for"


def known_dtype(wanted: str) -> str:
    """The name of a precision or 'auto', as it is. Raises ``InputError`` for another."""
    known = ("auto", *DTYPES)
    if wanted not in known:
        raise InputError(f"dtype '{wanted}': expected one of {', '.join(known)}{did_you_mean(wanted, known)}")
    return wanted


def choose_dtype(
    wanted: str, device: torch.device, *, tiny: bool, stored: Callable[[], torch.dtype | None]
) -> tuple[torch.dtype, str]:
    """The precision, and why. 'auto' is bfloat16 where the device supports it, and float32 for the embedded models.

    On a CPU it is bfloat16 only for weights that are ``stored`` so: loading rounds nothing.
    """
    if wanted in DTYPES:
        return DTYPES[wanted], "asked for"
    if tiny:
        return torch.float32, "as it is stored"
    if device.type == "cpu":
        if multiplies_bfloat16() and stored() is torch.bfloat16:
            return torch.bfloat16, "this CPU multiplies it faster"
        return torch.float32, "exact on every CPU"
    if device.type == "cuda" and not torch.cuda.is_bf16_supported():
        return torch.float16, "this GPU has no bfloat16"
    return torch.bfloat16, "half the memory"
