"""The Triton kernels under Triton's interpreter, on the CPU, in float64 wherever they can: run by test_triton.py.

Interpretation costs about a tenth of a second per row and kernel, so every case is as small as it can be and fail.
"""

import math

import pytest
import torch
from torch import Tensor

from heads.head_cases import SMOOTH, Head, assert_same_stats, gradients, lifted_head, make_head, mixed
from heads.test_fused import bound_to
from holdfast import objectives
from holdfast.config import InputError
from holdfast.heads import Group, Reference, fused_loss, head_gradients, loss_from_logits, token_stats, triton_chunk
from holdfast.heads.choose import chunk_class
from holdfast.heads.want import Want
from holdfast.records.roles import Role

EXACT = 1e-12
CPU = torch.device("cpu")
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def several_tiles_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of 37 columns is two tiles of 32, and two programs share its gradient. Fresh memory is NaN."""
    monkeypatch.setitem(triton_chunk.MEASURE, "BLOCK", 32)
    monkeypatch.setitem(triton_chunk.DIFFERENTIATE, "BLOCK", 16)
    monkeypatch.setitem(triton_chunk.DIFFERENTIATE, "TILES", 2)
    real = torch.empty

    def poisoned(*size: int, **options: object) -> Tensor:
        fresh = real(*size, **options)
        return fresh.fill_(math.nan) if fresh.is_floating_point() else fresh.fill_(-1)

    monkeypatch.setattr(torch, "empty", poisoned)


def small_head(num_tokens: int = 3, *, seed: int = 0, **options: float) -> Head:
    return make_head(num_tokens, 5, 37, seed=seed, **options)


def stats_and_gradients_agree(head: Head, **options: object) -> None:
    found, expected = head.stats(backend="triton", **options), head.stats(backend="reference", **options)
    assert_same_stats(found, expected, EXACT)
    taken, wanted = gradients(mixed(found), head), gradients(mixed(expected), head)
    torch.testing.assert_close(taken, wanted, rtol=EXACT, atol=EXACT)


def test_all_statistics_and_their_gradients() -> None:
    stats_and_gradients_agree(small_head(apart=0.8), chunk_tokens=2)


@pytest.mark.parametrize("want", [[], ["logp_ref"], ["kl"], ["kl_rev", "entropy"], ["delta"]])
def test_only_what_is_wanted(want: list[str]) -> None:
    stats_and_gradients_agree(small_head(1, seed=3, apart=0.8), want=want)


def test_without_anchor_and_with_a_cached_one() -> None:
    head = small_head(2)
    stats_and_gradients_agree(head, ref_hidden=None, ref_weight=None)
    anchor = token_stats(head.ref_hidden, head.ref_weight, head.targets, backend="reference")
    cached = {"ref_hidden": None, "ref_weight": None, "ref_logp": anchor.logp.detach(), "ref_top": anchor.top}
    stats_and_gradients_agree(head, **cached)


def test_every_objective_in_one_pass() -> None:
    """Two tokens each. Values, gradients of both operands and the length of each token's gradient."""
    names = list(objectives.REGISTRY)
    head = small_head(2 * len(names), apart=0.8)
    num = len(head.targets)
    position = torch.arange(num) % 2
    role = torch.tensor([Role.RESPONSE, Role.ERROR]).repeat(len(names))
    scale = torch.linspace(0.01, 0.2, num, dtype=torch.float64)
    groups, parts = [], []
    stats = head.stats(backend="reference")
    for number, name in enumerate(names):
        objective, rows = bound_to(name, position, role), slice(2 * number, 2 * number + 2)
        reference = Reference(hidden=head.ref_hidden[rows], weight=head.ref_weight)
        groups.append(Group(rows.start, rows.stop, objective, reference, want=objectives.stats_read(name)))
        parts.append(objective(stats, slice(0, num))[rows])
    expected = torch.cat(parts)
    result = fused_loss(
        head.hidden, head.weight, head.targets, groups, scale=scale, want_grad_norm=True, backend="triton"
    )
    torch.testing.assert_close(result.per_token, expected.detach(), rtol=EXACT, atol=EXACT)
    taken, wanted = gradients(result.loss, head), gradients((scale * expected).sum(), head)
    torch.testing.assert_close(taken, wanted, rtol=EXACT, atol=EXACT)
    plain = fused_loss(
        head.hidden, head.weight, head.targets, groups, scale=scale, want_grad_norm=True, backend="chunked"
    )
    torch.testing.assert_close(result.grad_norm, plain.grad_norm, rtol=EXACT, atol=EXACT)
    assert result.grad_norm[2 * names.index("masked_sft") + 1] == 0


def test_held_gradients_are_the_summed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU nothing is held by itself: say that it is worth it. Padding rows of the weight get zeros."""
    head = small_head(3)
    wide = torch.cat([head.weight.detach(), torch.full((3, 5), 9.0, dtype=torch.float64)]).requires_grad_()
    position = torch.arange(3)
    reference = Reference(hidden=head.ref_hidden, weight=head.ref_weight)
    groups = [Group(0, 3, bound_to("csft_pa", position, position), reference)]

    def grads() -> tuple[Tensor, ...]:
        scale = torch.tensor([0.3, 0.01, 0.2])
        found = fused_loss(head.hidden, wide, head.targets, groups, scale=scale, num_vocab=37, chunk_tokens=2)
        return torch.autograd.grad(0.7 * found.loss, (head.hidden, wide))

    summed = grads()
    monkeypatch.setattr("holdfast.heads.fused.worth_holding", lambda policy, for_weight: for_weight)
    assert summed[1][37:].abs().max() == 0
    torch.testing.assert_close(grads(), summed, rtol=EXACT, atol=EXACT)
    assert head_gradients.HELD_PER_WIDTH >= 2


def test_ties_columns_switched_off_and_rows_that_are_not_numbers() -> None:
    """Columns 1 and 34, of one thread in two tiles, and 5, of another thread, tie; column 7 is off; row 1 is NaN; the target
    of row 2 does not exist."""
    logits = torch.randn(3, 37, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    logits[:, [1, 5, 34]] = 9.0
    logits[:, 7] = -math.inf
    logits[1] = math.nan
    logits.requires_grad_()
    groups = [Group(0, 3, lambda stats, rows: -stats.logp, Reference(logits=logits.detach().flip(0)))]
    found = loss_from_logits(
        logits, torch.tensor([2, 2, 99]), groups, scale=torch.tensor([1.0, 0.0, 0.0]), backend="triton"
    )
    stats = found.stats[0]
    assert stats.top[0] == stats.top_ref[0] == 1
    assert stats.logp.isnan().tolist() == [False, True, True]
    assert stats.kl[0].isfinite()
    (grad,) = torch.autograd.grad(found.loss, logits)
    wanted = logits.detach()[0].softmax(-1)
    wanted[2] -= 1
    torch.testing.assert_close(grad[0], wanted, rtol=EXACT, atol=EXACT)


def test_policy_equal_to_anchor_is_exactly_zero_apart() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        head = small_head(2, spread=3).fresh(dtype)
        for shared in (True, False):
            stats = head.stats(
                ref_hidden=head.hidden.detach().clone(),
                ref_weight=None if shared else head.weight.detach().clone(),
                backend="triton",
            )
            assert stats.kl.abs().max() == stats.kl_rev.abs().max() == stats.delta.abs().max() == 0
            assert torch.equal(stats.logp, stats.logp_ref)
            assert torch.equal(stats.top, stats.top_ref)


def test_shared_head_sees_divergences_far_below_the_rounding_of_logits() -> None:
    """Logits near 20, 1e-3 apart, in float32, whose rounding there is 2e-6: kl = D - (LSE(a) - LSE(b)) would be lost.
    The difference product and kl = D + log1p(sum p expm1(-d)) give kl, about 1e-7, to float32's eps times d."""
    head = make_head(2, 5, 37, spread=5, apart=0)
    nudge = 1e-4 * torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    near = Head(
        head.hidden, head.weight, head.targets, head.hidden.detach().float().double() + nudge, head.weight.detach()
    )
    single = near.fresh(torch.float32)
    exact = single.fresh()
    found = single.stats(ref_weight=None, backend="triton")
    expected = exact.stats(ref_weight=None, backend="reference")
    assert 1e-8 < expected.kl.max() < 1e-6
    torch.testing.assert_close(found.kl.double(), expected.kl, rtol=1e-3, atol=1e-9)
    torch.testing.assert_close(found.kl_rev.double(), expected.kl_rev, rtol=1e-3, atol=1e-9)
    apart = (found.logp - found.logp_ref).double()
    torch.testing.assert_close(apart, expected.logp - expected.logp_ref, rtol=1e-3, atol=3e-6)


def test_shared_head_far_apart_takes_the_other_formula() -> None:
    head = small_head(2, spread=20, apart=3).fresh(torch.float32)
    found, expected = (
        head.stats(ref_weight=None, backend="triton"),
        head.fresh().stats(ref_weight=None, backend="reference"),
    )
    assert (head.hidden - head.ref_hidden).detach().mm(head.weight.detach().t()).min() < -60
    for name in (*SMOOTH, "logp_ref"):
        torch.testing.assert_close(getattr(found, name).double(), getattr(expected, name), rtol=1e-4, atol=1e-4)
    taken, wanted = gradients(found.kl.sum() + found.kl_rev.sum(), head), gradients_of_kl(head.fresh())
    for one, other in zip(taken, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("lift", [0.5, 5.0, 12.0, 20.0, 50.0])
def test_shared_head_with_all_logits_lifted(lift: float) -> None:
    """exp(-d) is nearly or exactly 0 in float32, and log1p(sum p expm1(-d)) would be far off or -inf."""
    head = lifted_head(lift, 2, 5, 37).fresh(torch.float32)
    found = head.stats(ref_weight=None, backend="triton")
    expected = head.fresh().stats(ref_weight=None, backend="reference")
    for name in (*SMOOTH, "logp_ref"):
        torch.testing.assert_close(getattr(found, name).double(), getattr(expected, name), rtol=1e-4, atol=1e-4)


def gradients_of_kl(head: Head) -> tuple[Tensor, Tensor]:
    stats = head.stats(ref_weight=None, backend="reference")
    return gradients(stats.kl.sum() + stats.kl_rev.sum(), head)


def test_auto_takes_triton_unless_the_argmax_is_soft() -> None:
    plain, soft = Want.make(None, None, None), Want(frozenset({"delta", "top_ref"}), live=True, soften=0.5)
    assert chunk_class("auto", CPU, plain).__name__ == "TritonChunk"
    assert chunk_class("auto", CPU, soft).__name__ == "LogitChunk"
    with pytest.raises(InputError, match="'triton' is not available here: it has no softened argmax"):
        chunk_class("triton", CPU, soft)
