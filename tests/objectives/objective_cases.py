"""Token statistics by hand and at random, and objectives bound to the role and position they ask for."""

import inspect
from collections.abc import Callable

import torch
from torch import Tensor

from holdfast import objectives
from holdfast.heads import TokenStats, token_stats
from holdfast.records.roles import Role

NUM = 9
ROLE = torch.tensor([Role.PREFIX, Role.ERROR, Role.ERROR, Role.UNDO, Role.UNDO, Role.CORRECTION, *[Role.RESPONSE] * 3])
POSITION = torch.tensor([0, 1, 2, 3, 4, 5, 0, 1, 2])


def by_hand(**values: float | list[float]) -> TokenStats:
    """Statistics in float64 that take gradients; ``top`` and ``top_ref`` as whole numbers."""
    found = {}
    for name, value in values.items():
        values_1d = value if isinstance(value, list) else [value]
        if name.startswith("top"):
            found[name] = torch.tensor(values_1d)
        else:
            found[name] = torch.tensor(values_1d, dtype=torch.float64, requires_grad=name != "logp_ref")
    return TokenStats(**{"top": torch.zeros(1, dtype=torch.long), **found})


def random_stats(num: int = NUM, *, equal: bool = False, dtype: torch.dtype = torch.float64) -> TokenStats:
    """From a random head; ``equal``: the anchor is the policy."""
    hidden, weight, ref_hidden, ref_weight, targets = random_head(num, dtype=dtype)
    if equal:
        ref_hidden, ref_weight = hidden.detach().clone(), weight.detach().clone()
    return token_stats(hidden, weight, targets, ref_hidden=ref_hidden, ref_weight=ref_weight)


def random_head(num: int = NUM, *, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    shapes = ((num, 4), (13, 4), (num, 4), (13, 4))
    hidden, weight, ref_hidden, ref_weight = (torch.randn(*shape, generator=random).to(dtype) for shape in shapes)
    return (
        hidden.requires_grad_(),
        weight.requires_grad_(),
        hidden.detach() + 0.7 * ref_hidden,
        weight.detach() + 0.3 * ref_weight,
        torch.randint(13, (num,), generator=random),
    )


def bound(name: str, **options: object) -> Callable[..., Tensor]:
    """(stats, rows of the example) -> loss."""
    function = objectives.REGISTRY[name]
    given = {"role": ROLE, "position": POSITION}
    takes = [each for each in given if each in inspect.signature(function).parameters]

    def loss(stats: TokenStats, rows: object = slice(None)) -> Tensor:
        return function(stats, **{each: given[each][rows] for each in takes}, **options)

    return loss
