"""sft, masked_sft, first_k_masked: numbers worked by hand."""

from math import log

import torch

from holdfast import objectives
from holdfast.records.roles import Role
from objectives.objective_cases import POSITION, ROLE, by_hand, random_stats


def test_sft_by_hand() -> None:
    """p = 1/4 and 1/2: losses log 4 and log 2, slope -1."""
    stats = by_hand(logp=[-log(4), -log(2)])
    loss = objectives.sft(stats)
    assert loss.tolist() == [log(4), log(2)]
    assert torch.autograd.grad(loss.sum(), stats.logp)[0].tolist() == [-1, -1]


def test_masked_sft_by_hand() -> None:
    """Of prefix, error, undo and correction only the error is not learned, however unlikely it was."""
    stats = by_hand(logp=[-1.0, -50.0, -2.0, -3.0])
    role = torch.tensor([Role.PREFIX, Role.ERROR, Role.UNDO, Role.CORRECTION])
    loss = objectives.masked_sft(stats, role=role)
    assert loss.tolist() == [1, 0, 2, 3]
    assert torch.autograd.grad(loss.sum(), stats.logp)[0].tolist() == [-1, 0, -1, -1]


def test_an_impossible_error_token_does_not_poison_the_loss() -> None:
    stats = by_hand(logp=[-1.0, float("-inf")])
    loss = objectives.masked_sft(stats, role=torch.tensor([Role.RESPONSE, Role.ERROR]))
    assert loss.tolist() == [1, 0]
    assert torch.autograd.grad(loss.sum(), stats.logp)[0].tolist() == [-1, 0]


def test_first_k_masked_by_hand() -> None:
    """k = 2: tokens 0 and 1 of each turn are left out, and the count restarts with the turn."""
    stats = by_hand(logp=[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0])
    position = torch.tensor([0, 1, 2, 0, 1, 2])
    assert objectives.first_k_masked(stats, position=position, k=2).tolist() == [0, 0, 3, 0, 0, 6]


def test_a_masked_loss_is_the_loss_on_the_subset() -> None:
    stats = random_stats()
    kept = ROLE != Role.ERROR
    masked = objectives.masked_sft(stats, role=ROLE)
    assert torch.equal(masked[kept], objectives.sft(stats)[kept])
    assert masked[~kept].abs().max() == 0
    late = POSITION >= 3
    assert torch.equal(objectives.first_k_masked(stats, position=POSITION, k=3)[late], objectives.sft(stats)[late])


def test_limits() -> None:
    """No error tokens, or k = 0: sft."""
    stats = random_stats()
    no_errors = torch.full_like(ROLE, Role.RESPONSE)
    assert torch.equal(objectives.masked_sft(stats, role=no_errors), objectives.sft(stats))
    assert torch.equal(objectives.first_k_masked(stats, position=POSITION, k=0), objectives.sft(stats))
