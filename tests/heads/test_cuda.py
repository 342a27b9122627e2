"""On a GPU: half-precision operands, float32 logits, autocast; the same numbers as float64 on the CPU."""

import pytest
import torch

from heads.head_cases import SMOOTH, Head, gradients, make_head, mixed
from holdfast import objectives
from holdfast.heads import FusedLoss, Group, Reference, TokenStats, fused_loss

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 2**-7, torch.float16: 2**-9}


def on_gpu(head: Head, dtype: torch.dtype) -> Head:
    hidden, weight = (x.detach().to("cuda", dtype).requires_grad_() for x in (head.hidden, head.weight))
    return Head(hidden, weight, head.targets.cuda(), head.ref_hidden.to(hidden), head.ref_weight.to(hidden))


def on_cpu(head: Head) -> Head:
    """The same rounded numbers in float64."""
    hidden, weight = (x.detach().double().cpu().requires_grad_() for x in (head.hidden, head.weight))
    return Head(hidden, weight, head.targets.cpu(), head.ref_hidden.double().cpu(), head.ref_weight.double().cpu())


def csft_pa(head: Head, **options: object) -> FusedLoss:
    num = len(head.targets)
    position = torch.arange(num, device=head.targets.device) % 7

    def objective(stats: TokenStats, rows: slice) -> torch.Tensor:
        return objectives.csft_pa(stats, position=position[rows], pa_weight=0.3)

    reference = Reference(hidden=head.ref_hidden, weight=head.ref_weight)
    group = Group(0, num, objective, reference, want=objectives.stats_read("csft_pa"))
    scale = torch.full((num,), 1 / num, device=head.targets.device, dtype=torch.float64)
    return fused_loss(head.hidden, head.weight, head.targets, [group], scale=scale, **options)


def close(found: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> bool:
    difference = found.double().cpu() - expected
    return bool(difference.norm() / expected.norm() < ROUNDING[dtype])


@pytest.mark.parametrize("dtype", list(ROUNDING))
def test_statistics_and_gradients(dtype: torch.dtype) -> None:
    head = on_gpu(make_head(num_tokens=96, width=64, num_vocab=5000, spread=0.3, apart=0.1), dtype)
    exact = on_cpu(head)
    found, expected = head.stats(chunk_tokens=40), exact.stats(backend="reference")
    assert found.logp.dtype is torch.float32
    for name in (*SMOOTH, "logp_ref"):
        torch.testing.assert_close(getattr(found, name).double().cpu(), getattr(expected, name), rtol=1e-4, atol=1e-5)
    for name in ("top", "top_ref"):
        assert torch.equal(getattr(found, name).cpu(), getattr(expected, name))
    for one, other in zip(gradients(found.kl.sum() - found.logp.sum(), head), wanted(exact), strict=True):
        assert one.dtype is dtype
        assert close(one, other, dtype)


def wanted(exact: Head) -> tuple[torch.Tensor, torch.Tensor]:
    stats = exact.stats(backend="reference")
    return gradients(stats.kl.sum() - stats.logp.sum(), exact)


@pytest.mark.parametrize("dtype", list(ROUNDING))
def test_fused_loss(dtype: torch.dtype) -> None:
    head = on_gpu(make_head(num_tokens=96, width=64, num_vocab=5000, spread=0.3, apart=0.1), dtype)
    exact = on_cpu(head)
    found, expected = csft_pa(head, chunk_tokens=40, want_grad_norm=True), csft_pa(exact, want_grad_norm=True)
    torch.testing.assert_close(found.per_token.double().cpu(), expected.per_token, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.grad_norm.double().cpu(), expected.grad_norm, rtol=1e-3, atol=1e-5)
    for one, other in zip(gradients(found.loss, head), gradients(expected.loss, exact), strict=True):
        assert one.dtype is dtype
        assert close(one, other, dtype)


def test_autocast_takes_float32_master_weights() -> None:
    """Operands are rounded as nn.Linear would; logits stay float32; gradients come back in float32."""
    head = on_gpu(make_head(num_tokens=96, width=64, num_vocab=5000, spread=0.3, apart=0.1), torch.float32)
    rounded = on_cpu(on_gpu(head, torch.bfloat16))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        found = csft_pa(head, chunk_tokens=40)
        chunked = head.stats(chunk_tokens=40)
    expected = csft_pa(rounded)
    torch.testing.assert_close(found.per_token.double().cpu(), expected.per_token, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(chunked.kl, found.stats[0].kl)
    for one, other in zip(gradients(found.loss, head), gradients(expected.loss, rounded), strict=True):
        assert one.dtype is torch.float32
        assert close(one, other, torch.bfloat16)
    assert all(grad.isfinite().all() for grad in gradients(mixed(chunked), head))


@pytest.mark.parametrize("dtype", list(ROUNDING))
def test_policy_equal_to_anchor_is_exactly_zero_apart(dtype: torch.dtype) -> None:
    head = on_gpu(make_head(num_tokens=300, width=128, num_vocab=5000, spread=0.5), dtype)
    stats = head.stats(
        ref_hidden=head.hidden.detach().clone(), ref_weight=head.weight.detach().clone(), chunk_tokens=128
    )
    assert stats.kl.abs().max() == stats.kl_rev.abs().max() == stats.delta.abs().max() == 0
    assert torch.equal(stats.top, stats.top_ref)


def test_first_index_wins_a_tie() -> None:
    weight = torch.zeros(3000, 8, device="cuda")
    weight[[700, 2100]] = 1
    hidden = torch.ones(4, 8, device="cuda")
    found = Head(hidden, weight, torch.zeros(4, dtype=torch.long, device="cuda"), hidden, weight).stats()
    assert found.top.tolist() == [700] * 4


def test_peak_memory_is_bounded_by_the_chunk() -> None:
    """A chunk of 128 of 2,048 tokens over 128,256 columns: three float32 arrays, one of bf16 and the accumulator."""
    head = on_gpu(make_head(num_tokens=2048, width=64, num_vocab=128256, spread=0.1), torch.bfloat16)
    csft_pa(head, chunk_tokens=128)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    csft_pa(head, chunk_tokens=128)
    peak = torch.cuda.max_memory_allocated() - before
    array, accumulator = 128 * 128256 * 4, head.weight.numel() * 4
    assert peak - accumulator < 4 * array


def test_float16_gradients_do_not_underflow_at_a_large_token_count() -> None:
    """A per-token scale of 1e-6 would push every softmax entry below float16's smallest number; 2^16 comes upstream."""
    head = on_gpu(make_head(num_tokens=8, width=16, num_vocab=400, spread=0.1), torch.float16)
    exact = on_cpu(head)

    def nll(stats: TokenStats, rows: slice) -> torch.Tensor:
        return -stats.logp

    def grads(head: Head) -> tuple[torch.Tensor, torch.Tensor]:
        scale = torch.full((8,), 1e-6, device=head.hidden.device, dtype=torch.float64)
        found = fused_loss(head.hidden, head.weight, head.targets, [Group(0, 8, nll)], scale=scale)
        return gradients(found.loss * 2.0**16, head)

    for one, other in zip(grads(head), grads(exact), strict=True):
        assert close(one, other, torch.float16)
