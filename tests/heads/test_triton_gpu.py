"""The Triton kernels on a GPU: fresh random inputs, memory poisoned with NaN, float64 on the same rounded operands."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from heads.head_cases import SMOOTH, Head, gradients, lifted_head, make_head, mixed
from heads.test_cuda import on_cpu, on_gpu
from heads.test_fused import bound_to
from holdfast import objectives
from holdfast.heads import FusedLoss, Group, Reference, fused_loss, head_gradients, token_stats
from holdfast.heads.choose import chunk_class
from holdfast.heads.want import Want

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
WITHIN = {torch.float32: 2e-5, torch.bfloat16: 3e-3, torch.float16: 1.5e-3}


@pytest.fixture(autouse=True)
def poisoned() -> Iterator[None]:
    """torch fills what ``empty`` gives out with NaN: an element that no kernel writes shows."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


def random_head(dtype: torch.dtype, *, num_tokens: int = 200, width: int = 256, num_vocab: int = 5003) -> Head:
    """Another one every time; an odd vocabulary, so that no row is aligned by itself."""
    seed = int(torch.randint(2**31, ()).item())
    return on_gpu(make_head(num_tokens, width, num_vocab, seed=seed, spread=0.15, apart=0.03), dtype)


def likely_targets(head: Head) -> Head:
    """Drawn from the policy. Of unlikely ones dft weighs two or three alone, and then rounding to bf16, twice, is by itself
    more than 3e-3 in one draw of twelve (float64, rounded where the head rounds)."""
    odds = (head.hidden.detach().float() @ head.weight.detach().float().T).softmax(-1)
    return replace(head, targets=torch.multinomial(odds, 1).squeeze(-1))


def fused(head: Head, name: str, *, shared: bool = False, frozen: bool = False, **options: object) -> FusedLoss:
    num = len(head.targets)
    device = head.targets.device
    objective = bound_to(name, torch.arange(num, device=device) % 9, 1 + torch.arange(num, device=device) % 5)
    reference = Reference(hidden=head.ref_hidden, weight=None if shared else head.ref_weight)
    group = Group(0, num, objective, reference, want=objectives.stats_read(name))
    scale = torch.full((num,), 1 / num, device=device, dtype=torch.float64)
    weight = head.weight.detach() if frozen else head.weight
    return fused_loss(head.hidden, weight, head.targets, [group], scale=scale, **options)


def on_cpu_as_shared(head: Head) -> Head:
    """A shared head takes the product of (h - h_ref): its rounding, if any, is the anchor's."""
    exact = on_cpu(head)
    difference = (head.hidden.detach() - head.ref_hidden).double().cpu()
    return Head(exact.hidden, exact.weight, exact.targets, exact.hidden.detach() - difference, exact.ref_weight)


def error(found: Tensor, expected: Tensor) -> float:
    return float((found.double().cpu() - expected).norm() / expected.norm())


@pytest.mark.parametrize("dtype", list(WITHIN))
@pytest.mark.parametrize("shared", [False, True])
def test_statistics_and_their_gradients(dtype: torch.dtype, shared: bool) -> None:
    head = random_head(dtype)
    exact = on_cpu_as_shared(head) if shared else on_cpu(head)
    own = {"ref_weight": None} if shared else {}
    found, expected = head.stats(backend="triton", chunk_tokens=64, **own), exact.stats(backend="reference", **own)
    for name in (*SMOOTH, "logp_ref"):
        torch.testing.assert_close(getattr(found, name).double().cpu(), getattr(expected, name), rtol=1e-4, atol=2e-5)
    for name in ("top", "top_ref"):
        assert torch.equal(getattr(found, name).cpu(), getattr(expected, name))
    taken = gradients(mixed(found), head)
    for one, other in zip(taken, gradients(mixed(expected), exact), strict=True):
        assert one.dtype is dtype
        assert error(one, other) < WITHIN[dtype]


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("name", ["sft", "masked_sft", "dft", "csft", "csft_pa", "kl_sft", "distill"])
def test_gradients_of_objectives_in_bf16(name: str, held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_gradients, "HELD_PER_WIDTH", 3 if held else 0)
    head = likely_targets(random_head(torch.bfloat16, num_tokens=600))
    exact = on_cpu(head)
    found, expected = fused(head, name, chunk_tokens=72, want_grad_norm=True), fused(exact, name, want_grad_norm=True)
    torch.testing.assert_close(found.per_token.double().cpu(), expected.per_token, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(found.grad_norm.double().cpu(), expected.grad_norm, rtol=1e-3, atol=1e-5)
    for one, other in zip(gradients(found.loss, head), gradients(expected.loss, exact), strict=True):
        assert one.dtype is torch.bfloat16
        assert error(one, other) < WITHIN[torch.bfloat16]


@pytest.mark.parametrize("num_vocab", [128_256, 49_153])  # ... and one token more than a multiple of every tile
@pytest.mark.parametrize("dtype", list(WITHIN))
def test_real_width_of_vocabulary(dtype: torch.dtype, num_vocab: int) -> None:
    head = random_head(dtype, num_tokens=96, width=512, num_vocab=num_vocab)
    exact = on_cpu(head)
    found, expected = fused(head, "csft_pa", chunk_tokens=64), fused(exact, "csft_pa")
    for one, other in zip(gradients(found.loss, head), gradients(expected.loss, exact), strict=True):
        assert error(one, other) < WITHIN[dtype]


@pytest.mark.parametrize("launch", [(1024, 4), (2048, 16)])  # columns and warps: both have been in use
@pytest.mark.parametrize("num_tokens", [211, 1475, 4000])  # gradients held, held, summed chunk by chunk
def test_the_head_of_a_training_step(num_tokens: int, launch: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """SmolLM2's width and one token added, float32 weights under autocast: the shapes that products choose kernels by."""
    from holdfast.heads import triton_chunk

    monkeypatch.setattr(triton_chunk, "MEASURE", {"BLOCK": launch[0], "num_warps": launch[1]})
    random = torch.Generator("cuda").manual_seed(num_tokens)
    hidden = torch.randn(num_tokens, 576, device="cuda", generator=random).requires_grad_()
    weight = torch.randn(49_153, 576, device="cuda", generator=random).mul_(0.1).requires_grad_()
    targets = torch.randint(49_153, (num_tokens,), device="cuda", generator=random)
    targets[0] = 49_152
    head = Head(hidden, weight, targets, hidden.detach(), weight.detach())
    group = Group(0, num_tokens, bound_to("sft", targets, targets), want=objectives.stats_read("sft"))
    scale = torch.full((num_tokens,), 1 / num_tokens, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        found = fused_loss(hidden, weight, targets, [group], scale=scale)
    rounded = on_gpu(on_gpu(head, torch.bfloat16), torch.float32)
    expected = torch.nn.functional.cross_entropy(rounded.hidden @ rounded.weight.T, targets)
    torch.testing.assert_close(found.loss, expected, rtol=1e-4, atol=1e-5)
    for one, other in zip(gradients(found.loss, head), gradients(expected, rounded), strict=True):
        assert error(one, other.double().cpu()) < WITHIN[torch.bfloat16]


def test_frozen_shared_head_needs_no_weight_gradient() -> None:
    head = random_head(torch.bfloat16)
    exact = on_cpu_as_shared(head)
    found = fused(head, "csft_pa", shared=True, frozen=True)
    (taken,) = torch.autograd.grad(found.loss, head.hidden)
    (wanted,) = torch.autograd.grad(fused(exact, "csft_pa", shared=True, frozen=True).loss, exact.hidden)
    assert error(taken, wanted) < WITHIN[torch.bfloat16]


def test_autocast_takes_float32_master_weights() -> None:
    head = random_head(torch.float32)
    rounded = on_cpu(on_gpu(head, torch.bfloat16))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        found = fused(head, "csft_pa")
    for one, other in zip(gradients(found.loss, head), gradients(fused(rounded, "csft_pa").loss, rounded), strict=True):
        assert one.dtype is torch.float32
        assert error(one, other) < WITHIN[torch.bfloat16]


def test_upstream_factor_and_padding_of_held_gradients() -> None:
    head = random_head(torch.bfloat16, num_vocab=5008)
    exact = on_cpu(head)
    targets = head.targets % 5000

    def grads(head: Head, targets: Tensor) -> tuple[Tensor, Tensor]:
        objective = bound_to("sft", targets, targets)
        scale = torch.full((len(targets),), 1e-3, device=targets.device)
        found = fused_loss(
            head.hidden, head.weight, targets, [Group(0, len(targets), objective)], scale=scale, num_vocab=5000
        )
        return gradients(found.loss * 0.7, head)

    taken, wanted = grads(head, targets), grads(exact, targets.cpu())
    for one, other in zip(taken, wanted, strict=True):
        assert error(one, other) < WITHIN[torch.bfloat16]
    assert taken[1][5000:].abs().max() == 0


@pytest.mark.parametrize("dtype", list(WITHIN))
@pytest.mark.parametrize("shared", [False, True])
def test_policy_equal_to_anchor_is_exactly_zero_apart(dtype: torch.dtype, shared: bool) -> None:
    head = random_head(dtype)
    stats = head.stats(
        ref_hidden=head.hidden.detach().clone(),
        ref_weight=None if shared else head.weight.detach().clone(),
        chunk_tokens=128,
        backend="triton",
    )
    assert stats.kl.abs().max() == stats.kl_rev.abs().max() == stats.delta.abs().max() == 0
    assert torch.equal(stats.top, stats.top_ref)
    assert torch.equal(stats.logp, stats.logp_ref)


def test_first_index_wins_a_tie_and_far_apart_stays_finite() -> None:
    weight = torch.zeros(3000, 8, device="cuda")
    weight[[700, 2100]] = 1
    hidden = torch.ones(4, 8, device="cuda")
    tied = Head(hidden, weight, torch.zeros(4, dtype=torch.long, device="cuda"), hidden, weight).stats(backend="triton")
    assert tied.top.tolist() == [700] * 4
    far = on_gpu(make_head(num_tokens=32, width=16, num_vocab=3000, spread=40, apart=40), torch.float32)
    stats = far.stats(backend="triton")
    assert all(getattr(stats, name).isfinite().all() for name in SMOOTH)


@pytest.mark.parametrize("lift", [0.5, 12.0, 20.0, 50.0])
def test_shared_head_with_all_logits_lifted(lift: float) -> None:
    head = on_gpu(lifted_head(lift, num_tokens=32, width=64, num_vocab=5003), torch.float32)
    found = head.stats(ref_weight=None, backend="triton")
    expected = on_cpu_as_shared(head).stats(ref_weight=None, backend="reference")
    for name in (*SMOOTH, "logp_ref"):
        torch.testing.assert_close(getattr(found, name).double().cpu(), getattr(expected, name), rtol=1e-4, atol=1e-4)


def test_auto_takes_triton_and_says_why_not() -> None:
    want = Want.make(None, None, None)
    assert chunk_class("auto", torch.device("cuda"), want).__name__ == "TritonChunk"
    head = random_head(torch.float32)
    with pytest.warns(UserWarning, match="falls back from Triton kernels to plain torch: it has no softened argmax"):
        head.stats(soften=0.5)
    anchor = {"ref_hidden": head.ref_hidden, "ref_weight": head.ref_weight}
    chunked = token_stats(head.hidden, head.weight, head.targets, **anchor, backend="chunked")
    torch.testing.assert_close(head.stats().kl, chunked.kl, rtol=1e-4, atol=1e-6)
