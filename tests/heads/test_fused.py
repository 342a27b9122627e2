"""The fused loss against the chunked and the reference backend, for every objective there is."""

import inspect
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from heads.head_cases import Head, assert_same_stats, gradients, make_head
from holdfast import objectives
from holdfast.heads import (
    FusedLoss,
    Group,
    Reference,
    TokenStats,
    fused_loss,
    loss_from_logits,
    stats_from_logits,
    token_stats,
)
from holdfast.records.roles import Role

pytestmark = pytest.mark.usefixtures("block")
EXACT = 1e-12
NUM = 11
ROLE = torch.tensor([Role.RESPONSE, Role.PREFIX, Role.ERROR, Role.UNDO, Role.CORRECTION, *[Role.RESPONSE] * 6])
POSITION = torch.tensor([0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3])
SCALE = torch.linspace(0.01, 0.2, NUM, dtype=torch.float64)


def bound_to(name: str, position: Tensor, role: Tensor) -> Callable[[TokenStats, slice], Tensor]:
    """The registered objective, given the role and position it asks for."""
    function = objectives.REGISTRY[name]
    given = {"role": role, "position": position}
    takes = [each for each in given if each in inspect.signature(function).parameters]
    return lambda stats, rows: function(stats, **{each: given[each][rows] for each in takes})


def bound(name: str) -> Callable[[TokenStats, slice], Tensor]:
    return bound_to(name, POSITION, ROLE)


def nll(stats: TokenStats, rows: slice) -> Tensor:
    return -stats.logp


def fused(head: Head, groups: list[Group], **options: object) -> FusedLoss:
    return fused_loss(head.hidden, head.weight, head.targets, groups, **{"scale": SCALE, **options})


@pytest.mark.parametrize("name", objectives.REGISTRY)
def test_fused_equals_chunked_equals_reference(name: str) -> None:
    head = make_head(num_tokens=NUM, apart=0.8)
    objective = bound(name)
    group = Group(0, NUM, objective, Reference(hidden=head.ref_hidden, weight=head.ref_weight))
    found = fused(head, [group], chunk_tokens=4)
    taken = gradients(found.loss, head)
    for backend in ("chunked", "reference"):
        stats = head.stats(backend=backend, chunk_tokens=3)
        per_token = objective(stats, slice(0, NUM))
        torch.testing.assert_close(found.per_token, per_token.detach(), rtol=EXACT, atol=EXACT)
        assert_same_stats(found.stats[0], stats, EXACT)
        torch.testing.assert_close(taken, gradients((SCALE * per_token).sum(), head), rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("name", objectives.REGISTRY)
def test_what_an_objective_says_it_reads_is_enough(name: str) -> None:
    head = make_head(num_tokens=NUM)
    reference = Reference(hidden=head.ref_hidden, weight=head.ref_weight)
    everything = fused(head, [Group(0, NUM, bound(name), reference)])
    lean = fused(head, [Group(0, NUM, bound(name), reference, want=objectives.stats_read(name))])
    assert torch.equal(lean.per_token, everything.per_token)
    torch.testing.assert_close(gradients(lean.loss, head), gradients(everything.loss, head), rtol=0, atol=0)
    assert lean.stats[0].entropy is None


def slope(loss: Callable[[], Tensor], leaf: Tensor, way: Tensor, step: float = 1e-6) -> Tensor:
    """The derivative along ``way`` by central differences: torch's gradcheck would call a backward more than once."""
    with torch.no_grad():
        leaf += step * way
        ahead = loss()
        leaf -= 2 * step * way
        behind = loss()
        leaf += step * way
    return (ahead - behind) / (2 * step)


@pytest.mark.parametrize("name", objectives.REGISTRY)
def test_fused_gradient_is_the_numerical_one(name: str) -> None:
    head = make_head(num_tokens=NUM, width=3, num_vocab=6)
    detached = name in ("dft", "csft", "csft_pa")  # their weight is a constant: differentiate with it held
    reference = Reference(hidden=head.ref_hidden, weight=head.ref_weight)
    fixed = objectives.csft_weight(head.stats(), position=POSITION) if "csft" in name else head.stats().logp.exp()

    def held(stats: TokenStats, rows: slice) -> Tensor:
        loss = -fixed.detach()[rows] * stats.logp
        return loss + 0.1 * objectives.pa(stats) if name == "csft_pa" else loss

    def loss(objective: Callable[[TokenStats, slice], Tensor]) -> Tensor:
        return fused(head, [Group(0, NUM, objective, reference)], chunk_tokens=5).loss

    taken = gradients(loss(bound(name)), head)
    for found, leaf in zip(taken, (head.hidden, head.weight), strict=True):
        for way in torch.randn(6, *leaf.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64):
            expected = slope(lambda: loss(held if detached else bound(name)), leaf, way)
            torch.testing.assert_close((found * way).sum(), expected, rtol=1e-6, atol=1e-8)


def three_streams(head: Head) -> list[Group]:
    """A task under csft_pa with a live anchor, a cached csft stream, an empty one and one without anchor."""
    anchor = token_stats(head.ref_hidden, head.ref_weight, head.targets)
    live = Reference(hidden=head.ref_hidden[:5], weight=head.ref_weight)
    cached = Reference(logp=anchor.logp, top=anchor.top).rows(5, 8)
    return [
        Group(0, 5, bound("csft_pa"), live),
        Group(5, 8, bound("csft"), cached),
        Group(8, 8, bound("distill"), live.rows(0, 0)),
        Group(8, 11, bound("sft")),
    ]


@pytest.mark.parametrize("chunk_tokens", [1, 2, 100, None])
def test_streams_share_one_pass(chunk_tokens: int | None) -> None:
    head = make_head(num_tokens=NUM)
    result = fused(head, three_streams(head), chunk_tokens=chunk_tokens, want_grad_norm=True)
    stats = head.stats(backend="reference")
    parts = [bound(name)(stats, slice(0, NUM)) for name in ("csft_pa", "csft", "sft")]
    expected = torch.cat([parts[0][:5], parts[1][5:8], parts[2][8:]])
    torch.testing.assert_close(result.per_token, expected.detach(), rtol=EXACT, atol=EXACT)
    taken, wanted = gradients(result.loss, head), gradients((SCALE * expected).sum(), head)
    torch.testing.assert_close(taken, wanted, rtol=EXACT, atol=EXACT)
    assert [len(each.logp) for each in result.stats] == [5, 3, 0, 3]
    assert [each.kl is None for each in result.stats] == [False, True, False, True]
    assert result.stats[1].delta is not None


def test_gradient_norm_is_of_the_logits_and_without_the_scale() -> None:
    head = make_head(num_tokens=NUM, width=17)
    logits = (head.hidden @ head.weight.T).detach().requires_grad_()
    found = fused(head, [Group(0, NUM, bound("masked_sft"))], chunk_tokens=4, want_grad_norm=True)
    nll = torch.nn.functional.cross_entropy(logits, head.targets, reduction="none")
    (grad,) = torch.autograd.grad(torch.where(ROLE == Role.ERROR, 0, nll).sum(), logits)
    torch.testing.assert_close(found.grad_norm, grad.norm(dim=-1), rtol=EXACT, atol=EXACT)
    assert found.grad_norm[2] == 0
    plain = fused(head, [Group(0, NUM, bound("masked_sft"))], chunk_tokens=4)
    assert plain.grad_norm is None
    torch.testing.assert_close(gradients(found.loss, head), gradients(plain.loss, head), rtol=EXACT, atol=EXACT)


def test_upstream_gradient_multiplies() -> None:
    head = make_head(num_tokens=NUM)
    groups = [Group(0, NUM, bound("sft"))]
    once = gradients(fused(head, groups).loss, head)
    thrice = gradients(3 * fused(head, groups).loss, head)
    torch.testing.assert_close(thrice, tuple(3 * grad for grad in once), rtol=EXACT, atol=EXACT)
    loss = fused(head, groups).loss
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="gives its gradient once"):
        loss.backward()


def test_no_rows_give_a_zero_that_backpropagates_zeros() -> None:
    head = make_head(num_tokens=NUM)
    empty = fused_loss(
        head.hidden[:0],
        head.weight,
        head.targets[:0],
        [Group(0, 0, bound("sft"))],
        scale=SCALE[:0],
        want_grad_norm=True,
    )
    assert empty.loss.item() == 0
    assert all(grad.abs().max() == 0 for grad in gradients(empty.loss, head))
    nothing = fused(head, [Group(0, NUM, lambda stats, _: torch.zeros_like(stats.logp))])
    assert all(grad.abs().max() == 0 for grad in gradients(nothing.loss, head))
    weightless = fused(head, [Group(0, NUM, bound("sft"))], scale=torch.zeros(NUM))
    assert all(grad.abs().max() == 0 for grad in gradients(weightless.loss, head))


def test_frozen_head_frozen_body_and_evaluation() -> None:
    head = make_head(num_tokens=NUM)
    groups = [Group(0, NUM, bound("kl_sft"), Reference(hidden=head.ref_hidden))]  # the policy's own head, as under LoRA
    expected = fused(head, groups)
    grads = gradients(expected.loss, head)
    lora = fused_loss(head.hidden, head.weight.detach(), head.targets, groups, scale=SCALE)
    torch.testing.assert_close(torch.autograd.grad(lora.loss, head.hidden)[0], grads[0], rtol=0, atol=0)
    only_head = fused_loss(head.hidden.detach(), head.weight, head.targets, groups, scale=SCALE)
    torch.testing.assert_close(torch.autograd.grad(only_head.loss, head.weight)[0], grads[1], rtol=0, atol=0)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            evaluated = fused(head, groups, want_grad_norm=True)
        assert not evaluated.loss.requires_grad
        assert evaluated.grad_norm is None
        assert torch.equal(evaluated.per_token, expected.per_token)


def test_padded_vocabulary_columns() -> None:
    head = make_head(num_tokens=NUM, num_vocab=13)
    wide = torch.cat([head.weight.detach(), torch.full((3, 5), 9.0, dtype=torch.float64)]).requires_grad_()
    reference = Reference(hidden=head.ref_hidden, weight=head.ref_weight)
    groups = [Group(0, NUM, bound("csft_pa"), reference)]
    found = fused_loss(head.hidden, wide, head.targets, groups, scale=SCALE, num_vocab=13)
    expected = gradients(fused(head, groups).loss, head)
    grad_hidden, grad_weight = torch.autograd.grad(found.loss, (head.hidden, wide))
    torch.testing.assert_close((grad_hidden, grad_weight[:13]), expected, rtol=EXACT, atol=EXACT)
    assert grad_weight[13:].abs().max() == 0


def test_logits_that_a_model_made_itself() -> None:
    """A soft-capped head: the same loss and gradients as autograd through whole logits."""
    head = make_head(num_tokens=NUM)

    def capped(hidden: Tensor, weight: Tensor) -> Tensor:
        return 3 * torch.tanh(hidden @ weight.T / 3)

    logits, ref_logits = capped(head.hidden, head.weight), capped(head.ref_hidden, head.ref_weight)
    groups = [
        Group(0, 5, bound("csft_pa"), Reference(logits=ref_logits[:5])),
        Group(5, NUM, bound("distill"), Reference(logits=ref_logits[5:]), None, ("kl_rev",)),
    ]
    found = loss_from_logits(logits, head.targets, groups, scale=SCALE, chunk_tokens=4, want_grad_norm=True)
    eye = torch.eye(17, dtype=torch.float64)
    stats = token_stats(logits, eye, head.targets, ref_hidden=ref_logits, ref_weight=eye, backend="reference")
    expected = torch.cat([bound("csft_pa")(stats, slice(0, NUM))[:5], stats.kl_rev[5:]])
    torch.testing.assert_close(found.per_token, expected.detach(), rtol=EXACT, atol=EXACT)
    (in_logits,) = torch.autograd.grad(expected.sum(), logits, retain_graph=True)
    torch.testing.assert_close(found.grad_norm, in_logits.norm(dim=-1), rtol=EXACT, atol=EXACT)
    leaves = (head.hidden, head.weight)
    taken = torch.autograd.grad(found.loss, leaves, retain_graph=True)
    wanted = torch.autograd.grad((SCALE * expected).sum(), leaves)
    torch.testing.assert_close(taken, wanted, rtol=EXACT, atol=EXACT)


def test_columns_that_a_model_switched_off_count_for_nothing() -> None:
    """-inf in columns 3 and 8 of policy and anchor: as if they were not there."""
    head = make_head(num_tokens=NUM)
    kept = [j for j in range(17) if j not in (3, 8)]
    targets = head.targets % len(kept)
    logits, ref_logits = (head.hidden @ head.weight.T).detach(), head.ref_hidden @ head.ref_weight.T
    off, ref_off = logits.clone(), ref_logits.clone()
    off[:, [3, 8]] = ref_off[:, [3, 8]] = float("-inf")

    def loss(a: Tensor, b: Tensor, y: Tensor) -> FusedLoss:
        groups = [
            Group(0, 6, bound("csft_pa"), Reference(logits=b[:6])),
            Group(6, NUM, bound("distill"), Reference(logits=b[6:])),
        ]
        return loss_from_logits(a, y, groups, scale=SCALE)

    off.requires_grad_()
    small = logits[:, kept].clone().requires_grad_()
    found, expected = loss(off, ref_off, torch.tensor(kept)[targets]), loss(small, ref_logits[:, kept], targets)
    torch.testing.assert_close(found.per_token, expected.per_token, rtol=EXACT, atol=EXACT)
    (grad,), (wanted,) = torch.autograd.grad(found.loss, off), torch.autograd.grad(expected.loss, small)
    torch.testing.assert_close(grad[:, kept], wanted, rtol=EXACT, atol=EXACT)
    assert grad[:, [3, 8]].abs().max() == 0
    oracle = stats_from_logits(off, torch.tensor(kept)[targets], Reference(logits=ref_off))
    torch.testing.assert_close(oracle.kl[:6], found.stats[0].kl, rtol=EXACT, atol=EXACT)


def test_half_precision_weight_accumulates_in_float32() -> None:
    """Many small chunks: were the weight's gradient summed in bf16, it would be off by far more than one rounding."""
    head = make_head(num_tokens=256, width=32, num_vocab=500, spread=0.3).fresh(torch.bfloat16)
    scale = torch.full((256,), 1 / 256)
    groups = [Group(0, 256, nll)]
    found = fused_loss(head.hidden, head.weight, head.targets, groups, scale=scale, chunk_tokens=2)
    taken = gradients(found.loss, head)
    exact = head.fresh()
    wanted = gradients(-exact.stats(backend="reference").logp.mean(), exact)
    for one, other in zip(taken, wanted, strict=True):
        assert one.dtype is torch.bfloat16
        assert (one.double() - other).norm() / other.norm() < 2**-8


def test_float16_gradients_do_not_underflow_at_a_large_token_count() -> None:
    """Per-token scale 1e-6 as of a large global batch; a loss scale of 2^16 upstream, as float16 training has it."""
    head = make_head(num_tokens=8, width=16, num_vocab=400, spread=0.1).fresh(torch.float16)
    groups = [Group(0, 8, nll)]
    found = fused_loss(head.hidden, head.weight, head.targets, groups, scale=torch.full((8,), 1e-6))
    taken = gradients(found.loss * 2.0**16, head)
    exact = head.fresh()
    wanted = gradients(-exact.stats(backend="reference").logp.sum() * 1e-6 * 2.0**16, exact)
    for one, other in zip(taken, wanted, strict=True):
        assert (one.double() - other).norm() / other.norm() < 2**-9
