"""Small heads with an anchor, and what to compare them by."""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from holdfast.heads import TokenStats, token_stats

STATS = tuple(field.name for field in fields(TokenStats))
SMOOTH = ("logp", "entropy", "kl", "kl_rev", "delta")


@dataclass(frozen=True)
class Head:
    """Hidden states and head of policy and anchor, and targets."""

    hidden: Tensor
    weight: Tensor
    targets: Tensor
    ref_hidden: Tensor
    ref_weight: Tensor

    def stats(self, **options: object) -> TokenStats:
        anchor = {"ref_hidden": self.ref_hidden, "ref_weight": self.ref_weight}
        return token_stats(self.hidden, self.weight, self.targets, **{**anchor, **options})

    def fresh(self, dtype: torch.dtype = torch.float64) -> "Head":
        """The same numbers as new leaves."""
        hidden, weight = (x.detach().to(dtype).requires_grad_() for x in (self.hidden, self.weight))
        return Head(hidden, weight, self.targets, self.ref_hidden.to(dtype), self.ref_weight.to(dtype))


def make_head(
    num_tokens: int = 11, width: int = 5, num_vocab: int = 17, *, seed: int = 0, spread: float = 1.0, apart: float = 0.5
) -> Head:
    """Random, in float64; ``apart`` is how far policy and anchor are."""
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    hidden, weight = normal(num_tokens, width), spread * normal(num_vocab, width)
    ref_hidden, ref_weight = hidden + apart * normal(num_tokens, width), weight + apart * normal(num_vocab, width)
    targets = torch.randint(num_vocab, (num_tokens,), generator=random)
    return Head(hidden.requires_grad_(), weight.requires_grad_(), targets, ref_hidden, ref_weight)


def lifted_head(lift: float, num_tokens: int, width: int, num_vocab: int) -> Head:
    """One head for both models, a little apart; all logits of the policy are higher by ``lift``, which no softmax sees."""
    head = make_head(num_tokens, width, num_vocab, spread=3 / width**0.5, apart=0.2)
    weight, ref_hidden = head.weight.detach(), head.ref_hidden
    weight[:, 0], ref_hidden[:, 0] = 1.0, head.hidden.detach()[:, 0] - lift
    return Head(head.hidden, weight.requires_grad_(), head.targets, ref_hidden, weight.detach().clone())


def gradients(loss: Tensor, head: Head) -> tuple[Tensor, Tensor]:
    hidden, weight = torch.autograd.grad(loss, (head.hidden, head.weight))
    return hidden, weight


def mixed(stats: TokenStats) -> Tensor:
    """A loss that leans on every statistic, differently for every token."""
    lean = torch.linspace(0.5, 1.5, len(stats.logp), dtype=stats.logp.dtype, device=stats.logp.device)
    present = [value for name in SMOOTH if (value := getattr(stats, name)) is not None]
    return sum((k + 1) * (lean**k * value.sin()).sum() for k, value in enumerate(present))


def assert_same_stats(found: TokenStats, expected: TokenStats, tolerance: float) -> None:
    for name in STATS:
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None), name
        if one is not None:
            torch.testing.assert_close(
                one, other, rtol=tolerance, atol=tolerance, msg=lambda text, n=name: f"{n}: {text}"
            )
