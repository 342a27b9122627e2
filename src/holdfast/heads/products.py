"""The products of a head: logits out of hidden states, and the two gradients back.

Logits leave the product in float32 whatever the operands are, because kl, both argmaxes and a - b are differences of
near-equal numbers (MATH §1). CUDA does that from half-precision operands; elsewhere the operands are widened, the
weight a block of rows at a time. A CPU that multiplies bfloat16 then reads the widened operands as bfloat16 again, which
rounds nothing and takes half the time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from holdfast._cpu import multiplies_bfloat16

HALF = (torch.bfloat16, torch.float16)
WIDENED_BYTES = 32 * 2**20  # of a half-precision weight at a time, where the product cannot widen by itself


def operand_dtype(hidden: Tensor, weight: Tensor) -> torch.dtype:
    """The dtype both operands take: autocast's where it is on, as in ``nn.Linear``.

    Not on the CPU: there is no product of half-precision operands with a float32 result there, so rounding the
    operands of a float32 product would cost time and precision.
    """
    kind = hidden.device.type
    dtype = torch.promote_types(hidden.dtype, weight.dtype)
    if kind != "cpu" and dtype is torch.float32 and torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    return dtype


def logits_dtype(operand: torch.dtype) -> torch.dtype:
    """float64 stays; everything else becomes float32."""
    return torch.float64 if operand is torch.float64 else torch.float32


def logits_into(out: Tensor, hidden: Tensor, weight: Tensor) -> None:
    """``out`` [n, V] = ``hidden`` [n, H] @ ``weight`` [V, H].T in the dtype of ``out``."""
    if hidden.is_cuda and hidden.dtype in HALF:
        torch.mm(hidden, weight.t(), out_dtype=out.dtype, out=out)
        return
    wide = hidden.to(out.dtype)
    with _read_as_bfloat16(weight):
        for rows, block in _blocks(weight, out.dtype):
            torch.mm(wide, block.t(), out=out[:, rows])


def widens(weight: Tensor) -> bool:
    """Whether the device multiplies operands of this dtype, half precision, into a wider result."""
    return weight.dtype in HALF if weight.is_cuda else _is_native(weight)


def _is_native(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype is torch.bfloat16 and multiplies_bfloat16()


def operand_of(grad: Tensor, weight: Tensor) -> Tensor:
    """The gradient of logits as an operand of the products below: half precision where the device can widen."""
    return grad.to(weight.dtype) if widens(weight) else grad


def grad_hidden_into(out: Tensor, grad: Tensor, weight: Tensor) -> None:
    """``out`` [n, H] = ``grad`` [n, V] @ ``weight`` [V, H]."""
    if grad.dtype not in HALF:
        for number, (rows, block) in enumerate(_blocks(weight, out.dtype)):
            torch.addmm(out, grad[:, rows], block, beta=min(number, 1), out=out)
    elif grad.is_cuda:
        torch.mm(grad, weight, out_dtype=out.dtype, out=out)
    else:
        out.copy_(torch.mm(grad, weight))  # rounded as the hidden states are, which is what its reader rounds it to


def add_grad_weight(total: Tensor, grad: Tensor, hidden: Tensor, *, first: bool) -> None:
    """``total`` [V, H] += ``grad`` [n, V].T @ ``hidden`` [n, H], in its own dtype; the ``first`` finds nothing there."""
    if not grad.is_cuda or grad.dtype not in HALF:
        with _read_as_bfloat16(grad):
            total.addmm_(grad.t().to(total.dtype), hidden.to(total.dtype), beta=0 if first else 1)
    elif first:
        torch.mm(grad.t(), hidden, out_dtype=total.dtype, out=total)
    else:
        torch.addmm(total, grad.t(), hidden, out_dtype=total.dtype, out=total)


def grad_weight_into(out: Tensor, grad: Tensor, hidden: Tensor) -> None:
    """``out`` [V, H] = ``grad`` [n, V].T @ ``hidden`` [n, H], both of one dtype, summed in float32 or wider."""
    if out.dtype is hidden.dtype:
        torch.mm(grad.t(), hidden, out=out)
    elif grad.is_cuda:
        torch.mm(grad.t(), hidden, out_dtype=out.dtype, out=out)
    else:
        add_grad_weight(out, grad, hidden, first=True)


@contextmanager
def _read_as_bfloat16(operand: Tensor) -> Iterator[None]:
    """Let float32 products round their operands to bfloat16, if ``operand``, which was widened for them, is native bfloat16.

    The switch is the whole process's. So it is only turned in the main thread: another thread of a server may be in a
    float32 product at that moment.
    """
    if not _is_native(operand) or threading.current_thread() is not threading.main_thread():
        yield
        return
    matmul: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = matmul.fp32_precision
    matmul.fp32_precision = "bf16"
    try:
        yield
    finally:
        matmul.fp32_precision = before


def _blocks(weight: Tensor, dtype: torch.dtype) -> Iterator[tuple[slice, Tensor]]:
    if weight.dtype is dtype:
        yield slice(0, len(weight)), weight
        return
    step = max(1, WIDENED_BYTES // (weight.shape[1] * dtype.itemsize))
    for start in range(0, len(weight), step):
        rows = slice(start, min(start + step, len(weight)))
        yield rows, weight[rows].to(dtype)
