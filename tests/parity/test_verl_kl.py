"""``kl: loss_k3`` against verl's ``low_var_kl``. verl wants an environment of its own, so its answers are recorded here.

With verl 0.9.1 installed, of ``x = logp_ref - logp`` below:

    logp = torch.full_like(x, -3.0).requires_grad_()
    values = verl.trainer.ppo.core_algos.kl_penalty(logp, -3.0 + x, "low_var_kl")
    gradient = torch.autograd.grad(values.sum(), logp)
"""

import torch

from holdfast.training.rl.trainer import k3
from parity.conftest import ParityRow

X = [-21.0, -12.0, -5.0, -1.0, -0.1, 0.0, 0.1, 1.0, 2.0, 2.6, 2.7, 5.0, 21.0]
VALUES = [
    10.0, 10.0, 4.006737946999086, 0.36787944117144233, 0.004837418035959606, 0.0, 0.005170918075647624,
    0.7182818284590451, 4.38905609893065, 9.863738035001692, 10.0, 10.0, 10.0,
]  # fmt: skip
GRADIENT = [
    0.0, 0.0, 0.9932620530009145, 0.6321205588285577, 0.09516258196404048, 0.0, -0.10517091807564771,
    -1.718281828459045, -6.38905609893065, -12.463738035001692, 0.0, 0.0, 0.0,
]  # fmt: skip


def test_loss_k3_is_low_var_kl(parity_row: ParityRow) -> None:
    x, values, gradient = (torch.tensor(row, dtype=torch.float64) for row in (X, VALUES, GRADIENT))
    logp = torch.full_like(x, -3.0).requires_grad_()
    ours = k3(logp, -3.0 + x)
    (slope,) = torch.autograd.grad(ours.sum(), logp)
    torch.testing.assert_close(ours, values, rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(slope, gradient, rtol=1e-13, atol=1e-15)
    gap = max(float((ours.detach() - values).abs().max()), float((slope - gradient).abs().max()))
    parity_row("verl", "0.9.1 (recorded)", "`kl: loss_k3` and `low_var_kl`: value and gradient, clamps included", gap)
