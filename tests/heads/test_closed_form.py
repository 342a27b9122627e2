"""MATH §2's closed-form gradient of csft + lam * pa in the logits, against what the heads compute."""

import pytest
import torch

from heads.head_cases import make_head
from holdfast import objectives
from holdfast.heads import Group, Reference, fused_loss, token_stats

pytestmark = pytest.mark.usefixtures("block")
LAM = 0.3


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_gradient_in_the_logits(seed: int, detached: bool) -> None:
    """dl/da_j = p_j [w + c (d_j - D)] - w 1[j=y] - e (1[j=top_ref] - 1[j=top]), with z = kl delta,
    c = -lam sigmoid(-z) delta (0 if kl is detached), e = lam sigmoid(-z) kl; and sum_j dl/da_j = 0.

    Logits are had from the head by taking the identity as its weight.
    """
    head = make_head(num_tokens=9, width=23, num_vocab=23, seed=seed, apart=1.0)
    a, b, y = head.hidden, head.ref_hidden, head.targets
    eye = torch.eye(23, dtype=torch.float64)
    position = torch.arange(9)
    kl_mode = "detach" if detached else "grad"

    p, q, d = a.softmax(-1), b.softmax(-1), a - b
    kl = (p * (p / q).log()).sum(-1, keepdim=True)
    top, top_ref = a.argmax(-1), b.argmax(-1)
    delta = (a.gather(1, top_ref[:, None]) - a.gather(1, top[:, None])).detach()
    logp, logp_ref = p.log().gather(1, y[:, None]), q.log().gather(1, y[:, None])
    beta = torch.tensor([0.5, 2, 2, 2, 2, 0.1, 0.1, 0.1, 0.1], dtype=torch.float64)[:, None]
    w = 2 * torch.sigmoid(-beta * (logp - logp_ref))
    c = torch.zeros_like(w) if detached else -LAM * torch.sigmoid(-kl * delta) * delta
    e = LAM * torch.sigmoid(-kl * delta) * kl
    expected = p * (w + c * (d - (p * d).sum(-1, keepdim=True))) - w * eye[y] - e * (eye[top_ref] - eye[top])
    assert expected.sum(-1).abs().max() < 1e-12
    assert (top != top_ref).sum() >= 2, "the case must have PA-active tokens"

    stats = token_stats(a, eye, y, ref_hidden=b, ref_weight=eye, chunk_tokens=4)
    loss = objectives.csft_pa(stats, position=position, pa_weight=LAM, kl=kl_mode).sum()
    (chunked,) = torch.autograd.grad(loss, a)

    def objective(stats: object, rows: slice) -> torch.Tensor:
        return objectives.csft_pa(stats, position=position[rows], pa_weight=LAM, kl=kl_mode)

    groups = [Group(0, 9, objective, Reference(hidden=b, weight=eye))]
    fused = fused_loss(a, eye, y, groups, scale=torch.ones(9), chunk_tokens=4, want_grad_norm=True)
    (taken,) = torch.autograd.grad(fused.loss, a)
    for found in (chunked, taken):
        torch.testing.assert_close(found, expected.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(fused.grad_norm, expected.detach().norm(dim=-1), rtol=1e-12, atol=1e-12)
