"""The products of a head: logits out of hidden states, and the two gradients back.

Logits leave the product in float32 whatever the operands are, because kl, both argmaxes and a - b are differences of
near-equal numbers (MATH §1). CUDA does that from half-precision operands; elsewhere the operands are widened, the
weight a block of rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

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
    for rows, block in _blocks(weight, out.dtype):
        torch.mm(wide, block.t(), out=out[:, rows])


def widens(weight: Tensor) -> bool:
    """Whether the device multiplies operands of this dtype, half precision, into a wider result."""
    return weight.is_cuda and weight.dtype in HALF


def operand_of(grad: Tensor, weight: Tensor) -> Tensor:
    """The gradient of logits as an operand of the products below: half precision where the device can widen."""
    return grad.to(weight.dtype) if widens(weight) else grad


def grad_hidden_into(out: Tensor, grad: Tensor, weight: Tensor) -> None:
    """``out`` [n, H] = ``grad`` [n, V] @ ``weight`` [V, H]."""
    if grad.dtype in HALF:
        torch.mm(grad, weight, out_dtype=out.dtype, out=out)
        return
    for number, (rows, block) in enumerate(_blocks(weight, out.dtype)):
        torch.addmm(out, grad[:, rows], block, beta=min(number, 1), out=out)


def add_grad_weight(total: Tensor, grad: Tensor, hidden: Tensor, *, first: bool) -> None:
    """``total`` [V, H] += ``grad`` [n, V].T @ ``hidden`` [n, H], in its own dtype; the ``first`` finds nothing there."""
    if grad.dtype not in HALF:
        total.addmm_(grad.t(), hidden.to(total.dtype), beta=0 if first else 1)
    elif first:
        torch.mm(grad.t(), hidden, out_dtype=total.dtype, out=total)
    else:
        torch.addmm(total, grad.t(), hidden, out_dtype=total.dtype, out=total)


def grad_weight_into(out: Tensor, grad: Tensor, hidden: Tensor) -> None:
    """``out`` [V, H] = ``grad`` [n, V].T @ ``hidden`` [n, H], both of one dtype, summed in float32 or wider."""
    if out.dtype is hidden.dtype:
        torch.mm(grad.t(), hidden, out=out)
    else:
        torch.mm(grad.t(), hidden, out_dtype=out.dtype, out=out)


def _blocks(weight: Tensor, dtype: torch.dtype) -> Iterator[tuple[slice, Tensor]]:
    if weight.dtype is dtype:
        yield slice(0, len(weight)), weight
        return
    step = max(1, WIDENED_BYTES // (weight.shape[1] * dtype.itemsize))
    for start in range(0, len(weight), step):
        rows = slice(start, min(start + step, len(weight)))
        yield rows, weight[rows].to(dtype)
