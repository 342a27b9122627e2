"""The chunked backend against the oracle: values and gradients in float64."""

import pytest
import torch

from heads.head_cases import SMOOTH, assert_same_stats, gradients, make_head, mixed
from holdfast.config import InputError
from holdfast.heads import Reference, stats_from_logits, token_stats

pytestmark = pytest.mark.usefixtures("block")
EXACT = 1e-12


@pytest.mark.parametrize("chunk_tokens", [1, 3, 11, 50, None])
@pytest.mark.parametrize("soften", [None, 0.7])
def test_chunked_equals_reference(chunk_tokens: int | None, soften: float | None) -> None:
    head = make_head()
    found = head.stats(chunk_tokens=chunk_tokens, soften=soften)
    expected = head.stats(backend="reference", soften=soften)
    assert_same_stats(found, expected, EXACT)
    for one, other in zip(gradients(mixed(found), head), gradients(mixed(expected), head), strict=True):
        torch.testing.assert_close(one, other, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("name", SMOOTH)
def test_each_statistic_passes_gradcheck(name: str) -> None:
    head = make_head(num_tokens=4, width=3, num_vocab=7)

    def statistic(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        anchor = {"ref_hidden": head.ref_hidden, "ref_weight": head.ref_weight}
        stats = token_stats(hidden, weight, head.targets, **anchor, chunk_tokens=3)
        return getattr(stats, name)

    assert torch.autograd.gradcheck(statistic, (head.hidden, head.weight))


def test_softened_delta_passes_gradcheck_and_tends_to_the_hard_one() -> None:
    head = make_head(num_tokens=4, width=3, num_vocab=7)

    def soft(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        anchor = {"ref_hidden": head.ref_hidden, "ref_weight": head.ref_weight}
        return token_stats(hidden, weight, head.targets, **anchor, soften=0.8).delta

    assert torch.autograd.gradcheck(soft, (head.hidden, head.weight))
    torch.testing.assert_close(head.stats(soften=1e-4).delta, head.stats().delta)


def test_without_anchor() -> None:
    head = make_head()
    found = head.stats(ref_hidden=None, ref_weight=None)
    assert_same_stats(found, head.stats(ref_hidden=None, ref_weight=None, backend="reference"), EXACT)
    assert found.kl is None
    assert found.logp_ref is None


def test_only_what_is_wanted_is_given() -> None:
    head = make_head()
    everything = head.stats()
    for want in ([], ["logp_ref"], ["delta"], ["kl"], ["kl_rev"], ["entropy", "kl"], ["kl", "kl_rev", "delta"]):
        found = head.stats(want=want, chunk_tokens=4)
        assert_same_stats(found, everything.only({*want, *(["top_ref"] if "delta" in want else [])}), EXACT)
        assert_same_stats(head.stats(want=want, backend="reference"), found, EXACT)
        one = gradients(mixed(found), head)
        other = gradients(mixed(head.stats(want=want, backend="reference")), head)
        torch.testing.assert_close(one, other, rtol=EXACT, atol=EXACT)


def test_no_gradient_reaches_the_anchor_and_a_shared_head_is_detached() -> None:
    head = make_head()
    head.ref_hidden.requires_grad_()
    for backend in ("chunked", "reference"):
        stats = token_stats(head.hidden, head.weight, head.targets, ref_hidden=head.ref_hidden, backend=backend)
        assert torch.autograd.grad(mixed(stats), head.ref_hidden, allow_unused=True) == (None,)
    shared = head.stats(ref_weight=None)
    apart = head.stats(ref_weight=head.weight.detach().clone())
    assert_same_stats(shared, apart, 0)
    torch.testing.assert_close(gradients(mixed(shared), head), gradients(mixed(apart), head), rtol=0, atol=0)


def test_frozen_head_gives_the_same_gradient_to_the_hidden_states() -> None:
    head = make_head()
    expected, _ = gradients(mixed(head.stats()), head)
    stats = token_stats(
        head.hidden, head.weight.detach(), head.targets, ref_hidden=head.ref_hidden, ref_weight=head.ref_weight
    )
    (found,) = torch.autograd.grad(mixed(stats), (head.hidden,))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_cached_anchor_equals_the_live_one_in_what_it_knows() -> None:
    head = make_head()
    anchor = token_stats(head.ref_hidden, head.ref_weight, head.targets)
    cache = {"ref_hidden": None, "ref_weight": None, "ref_logp": anchor.logp, "ref_top": anchor.top}
    known = {"entropy", "logp_ref", "delta", "top_ref"}
    for backend in ("chunked", "reference"):
        found = head.stats(**cache, backend=backend, chunk_tokens=3)
        assert_same_stats(found, head.stats().only(known), EXACT)
    expected = mixed(head.stats(want=known))
    torch.testing.assert_close(gradients(mixed(found), head), gradients(expected, head), rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("backend", ["chunked", "reference"])
def test_padded_vocabulary_columns_count_for_nothing(backend: str) -> None:
    """Rows 13.. of the head are padding with huge logits: as if they were not there, and no gradient reaches them."""
    head = make_head(num_vocab=13)
    padding = torch.full((4, 5), 50.0, dtype=torch.float64)
    wide = torch.cat([head.weight.detach(), padding]).requires_grad_()
    ref_wide = torch.cat([head.ref_weight, -padding])
    found = token_stats(
        head.hidden, wide, head.targets, ref_hidden=head.ref_hidden, ref_weight=ref_wide, num_vocab=13, backend=backend
    )
    assert_same_stats(found, head.stats(), EXACT)
    grad_hidden, grad_weight = torch.autograd.grad(mixed(found), (head.hidden, wide))
    expected = gradients(mixed(head.stats()), head)
    torch.testing.assert_close((grad_hidden, grad_weight[:13]), expected, rtol=EXACT, atol=EXACT)
    assert grad_weight[13:].abs().max() == 0


def test_first_index_wins_a_tie_and_delta_is_then_zero() -> None:
    """Head rows 3 and 6 are equal. The policy's argmax is 3, and the anchor, which prefers 6 by a hair, has delta 0."""
    weight = torch.zeros(8, 2, dtype=torch.float64)
    weight[3] = weight[6] = torch.tensor([2.0, 1.0])
    ref_weight = weight.clone()
    ref_weight[6, 0] += 1e-9
    hidden = torch.ones(1, 2, dtype=torch.float64)
    for backend in ("chunked", "reference"):
        stats = token_stats(
            hidden, weight, torch.tensor([0]), ref_hidden=hidden, ref_weight=ref_weight, backend=backend
        )
        assert (stats.top.item(), stats.top_ref.item(), stats.delta.item()) == (3, 6, 0.0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shared", [True, False])
def test_policy_equal_to_anchor_is_exactly_zero_apart(dtype: torch.dtype, shared: bool) -> None:
    head = make_head(num_tokens=37, width=24, num_vocab=5000, spread=3).fresh(dtype)
    for soften in (None, 0.5):
        stats = head.stats(
            ref_hidden=head.hidden.detach().clone(),
            ref_weight=None if shared else head.weight.detach().clone(),
            chunk_tokens=8,
            soften=soften,
        )
        for name in ("kl", "kl_rev", "delta"):
            assert getattr(stats, name).abs().max() == 0, name
        assert torch.equal(stats.logp, stats.logp_ref)
        assert torch.equal(stats.top, stats.top_ref)
        hidden, weight = gradients(stats.kl.sum() + stats.kl_rev.sum(), head)
        assert hidden.abs().max() == 0
        assert weight.abs().max() == 0


def test_no_tokens_at_all() -> None:
    head = make_head()
    found = token_stats(
        head.hidden[:0], head.weight, head.targets[:0], ref_hidden=head.ref_hidden[:0], ref_weight=head.ref_weight
    )
    assert {len(getattr(found, name)) for name in (*SMOOTH, "top", "top_ref", "logp_ref")} == {0}
    for grad in gradients(found.logp.sum() + found.kl.sum(), head):
        assert grad.abs().max() == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_operands_give_float32_statistics(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against float64 on the same rounded operands: what is left is the rounding of float32 arithmetic alone.

    The weight is widened in six blocks, as that of a real model is.
    """
    monkeypatch.setattr("holdfast.heads.products.WIDENED_BYTES", 2**17)
    rounded = make_head(num_tokens=40, width=64, num_vocab=3000, spread=0.2, apart=0.02).fresh(dtype)
    found, expected = rounded.stats(chunk_tokens=16), rounded.fresh().stats(backend="reference")
    assert found.logp.dtype is torch.float32
    for name in (*SMOOTH, "logp_ref"):
        torch.testing.assert_close(getattr(found, name).double(), getattr(expected, name), rtol=1e-4, atol=2e-6)
    assert found.kl.max() < 0.1
    exact = rounded.fresh()
    expected_grads = gradients(mixed(exact.stats(backend="reference")), exact)
    found_grads = gradients(mixed(found), rounded)
    assert [grad.dtype for grad in found_grads] == [dtype, dtype]
    for one, other in zip(found_grads, expected_grads, strict=True):
        error = (one.double() - other).norm() / other.norm()
        assert error < 2 ** (-8 if dtype is torch.bfloat16 else -10)


def test_float32_kl_of_near_neighbours_is_not_drowned() -> None:
    """Logits of size 30, divergences of 1e-5: LSE(a) - LSE(b) as a difference of two large numbers would lose them."""
    head = make_head(num_tokens=30, width=32, num_vocab=4000, spread=1.5, apart=1e-4)
    expected, found = head.stats(), head.fresh(torch.float32).stats()
    assert expected.kl.max() < 1e-4
    torch.testing.assert_close(found.kl.double(), expected.kl, rtol=0, atol=1e-6)
    assert found.kl.min() >= 0
    assert found.kl_rev.min() >= 0


def test_far_apart_policy_and_anchor_stay_finite() -> None:
    head = make_head(num_tokens=8, width=16, num_vocab=300, spread=40, apart=40).fresh(torch.float32)
    stats = head.stats()
    assert all(getattr(stats, name).isfinite().all() for name in SMOOTH)
    assert all(grad.isfinite().all() for grad in gradients(mixed(stats), head))


def test_autocast_on_the_cpu_changes_nothing() -> None:
    head = make_head().fresh(torch.float32)
    plain = head.stats()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = head.stats()
        assert_same_stats(under, plain, 0)
        assert_same_stats(head.stats(backend="reference"), plain, 1e-5)
        grads = gradients(mixed(under), head)
    torch.testing.assert_close(grads, gradients(mixed(plain), head), rtol=0, atol=0)


def test_statistics_from_logits_a_model_made() -> None:
    head = make_head()
    logits = (head.hidden @ head.weight.T).detach().requires_grad_()
    reference = Reference(logits=head.ref_hidden @ head.ref_weight.T)
    assert_same_stats(stats_from_logits(logits, head.targets, reference), head.stats(), EXACT)


def test_wrong_input_is_said_in_one_line() -> None:
    head = make_head()
    with pytest.raises(InputError, match="backend 'chunkd' is unknown; did you mean 'chunked'"):
        head.stats(backend="chunkd")
    with pytest.raises(InputError, match="'triton' is not available"):
        head.stats(backend="triton")
    with pytest.raises(InputError, match="temperature above 0, got 0"):
        head.stats(soften=0)
    with pytest.raises(InputError, match="softened argmax needs the anchor's hidden states"):
        head.stats(ref_hidden=None, ref_weight=None, ref_logp=torch.zeros(11), ref_top=head.targets, soften=1.0)
    with pytest.raises(InputError, match="policy's head has 17 tokens and the anchor's 16"):
        head.stats(ref_weight=head.ref_weight[:16])
    with pytest.raises(InputError, match="policy's head has 17 tokens and the anchor's 18"):
        head.stats(ref_weight=torch.cat([head.ref_weight, head.ref_weight[:1]]))


def test_tensors_of_another_loop_that_do_not_fit_are_told() -> None:
    head = make_head()
    ignored = head.targets.clone()
    ignored[2] = -100
    wrong = {
        r"hidden \[11, \d+\] with targets \[10\] .* hidden\[:-1\] and ids\[1:\]": {"targets": head.targets[1:]},
        r"with targets \[11\] of torch.float32": {"targets": head.targets.float()},
        r"hidden \[1, 11, \d+\] with targets \[11\]": {"hidden": head.hidden[None]},
        r"a target is -100, and the head has 17 tokens; .* keep = targets != -100": {"targets": ignored},
        "a target is 17, and the head has 17 tokens": {"targets": torch.full_like(head.targets, 17)},
        "11 tokens, and the anchor has 10; expected the same": {"ref_hidden": head.ref_hidden[1:]},
        "want: no statistic 'kll'; did you mean 'kl'": {"want": ["kll"]},
        "anchor: expected one of hidden .*, logits, and logp": {"ref_hidden": None},
        "anchor: .* in token_stats they are ref_hidden": {"ref_logp": head.hidden[:, 0]},
    }
    given = {name: getattr(head, name) for name in ("hidden", "weight", "targets", "ref_hidden", "ref_weight")}
    for said, change in wrong.items():
        with pytest.raises(InputError, match=said):
            token_stats(**{**given, **change})
    with pytest.raises(InputError, match=r"stats_from_logits: logits \[11, 17\] with targets \[10\]"):
        stats_from_logits(head.hidden @ head.weight.T, head.targets[1:])
