"""Products of a half-precision head on a CPU: logits in float32, and a switch of the process that is turned back."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

from holdfast.heads import products

MATMUL = torch.backends.mkldnn.matmul


@pytest.fixture(params=[True, False], ids=["native", "not native"])
def native(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """A CPU that multiplies bfloat16, or one that does not; the figures may not tell them apart."""
    monkeypatch.setattr(products, "multiplies_bfloat16", lambda: request.param)
    monkeypatch.setattr(products, "WIDENED_BYTES", 2**12)  # several blocks
    return bool(request.param)


def operands(*shapes: tuple[int, int]) -> list[Tensor]:
    """Random matrices in bfloat16. Their products are far from what bfloat16 can write down."""
    torch.manual_seed(0)
    return [torch.randn(shape).bfloat16() for shape in shapes]


def error(taken: Tensor, exact: Tensor) -> float:
    return float((taken.double() - exact).norm() / exact.norm())


def test_logits_are_not_rounded_to_bfloat16(native: bool) -> None:
    hidden, weight = operands((40, 96), (300, 96))
    logits = torch.empty(40, 300)
    products.logits_into(logits, hidden, weight)
    assert error(logits, hidden.double() @ weight.double().t()) < 1e-6  # bfloat16 rounds by 2e-3


def test_gradients_are_rounded_as_a_gpu_rounds_them(native: bool) -> None:
    """The gradient of logits becomes an operand in bfloat16, that of hidden states is bfloat16, sums over tokens are float32."""
    grad, hidden, weight = operands((40, 300), (40, 96), (300, 96))
    for_hidden, for_weight = torch.empty(40, 96), torch.full((300, 96), torch.nan)
    products.grad_hidden_into(for_hidden, grad, weight)
    assert error(for_hidden, grad.double() @ weight.double()) < 2**-8
    products.add_grad_weight(for_weight, grad[:20], hidden[:20], first=True)
    products.add_grad_weight(for_weight, grad[20:], hidden[20:], first=False)
    assert error(for_weight, grad.double().t() @ hidden.double()) < 1e-6
    products.grad_weight_into(for_weight, grad, hidden)
    assert error(for_weight, grad.double().t() @ hidden.double()) < 1e-6


def test_only_a_cpu_with_the_instructions_rounds_gradients(native: bool) -> None:
    grad, weight = torch.randn(4, 300), operands((300, 96))[0]
    assert products.operand_of(grad, weight).dtype is (torch.bfloat16 if native else torch.float32)
    assert products.operand_of(grad, weight.half()).dtype is torch.float32


def test_the_switch_is_turned_in_the_main_thread_only_and_back(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may be in a float32 product: it must not find its operands rounded."""
    hidden, weight = operands((4, 96), (8, 96))
    before, seen = MATMUL.fp32_precision, []

    def multiply(*_: Tensor, out: Tensor) -> None:
        seen.append(MATMUL.fp32_precision)

    monkeypatch.setattr(torch, "mm", multiply)
    work = (torch.empty(4, 8), hidden, weight)
    products.logits_into(*work)
    thread = threading.Thread(target=products.logits_into, args=work)
    thread.start()
    thread.join()
    assert seen == ["bf16" if native else before, before]
    assert MATMUL.fp32_precision == before != "bf16"
    products.logits_into(torch.empty(4, 8), hidden.float(), weight.float())
    assert seen[-1] == before, "operands in float32 are not to be rounded"


def test_the_switch_is_turned_back_after_an_error(native: bool) -> None:
    before = MATMUL.fp32_precision
    with pytest.raises(RuntimeError):
        products.logits_into(torch.empty(4, 8), *operands((4, 96), (8, 95)))
    assert MATMUL.fp32_precision == before
