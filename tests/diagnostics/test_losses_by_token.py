"""The losses of RL, token by token, worked by hand."""

from math import log

import pytest
import torch

from holdfast.diagnostics.losses_by_token import Tokens, kl_in_loss, surrogate
from holdfast.heads import TokenStats


def tokens(ratio: list[float], advantage: list[float]) -> Tokens:
    """Of a policy that gives every token ``ratio`` times what the writer of the response, and the anchor, gave it: 1/4."""
    logp, place = (torch.tensor(ratio, dtype=torch.float64) / 4).log(), torch.zeros(len(ratio), dtype=torch.long)
    quarter = torch.full_like(logp, 0.25).log()
    stats = TokenStats(logp, place, logp_ref=quarter)
    return Tokens(stats, place, place, place, quarter, {"outcome": torch.tensor(advantage, dtype=torch.float64)})


def test_the_surrogate_is_clipped_where_that_makes_it_worse() -> None:
    """-min(r A, clip(r) A) at 0.2: a good token gains up to 1.2, a bad one loses from 0.8 down; never the other way."""
    asked = tokens([1.5, 1.5, 0.5, 0.5], [1.0, -1.0, 1.0, -1.0])
    assert surrogate(clip=0.2)(asked).tolist() == pytest.approx([-1.2, 1.5, -0.5, 0.8])
    assert surrogate(clip=None)(asked).tolist() == pytest.approx([-1.5, 1.5, -0.5, 0.5])


def test_estimators_of_the_divergence_by_hand() -> None:
    """The policy gives half of what the anchor gives: x = log 2."""
    asked = tokens([0.5], [0.0])
    assert kl_in_loss("k1")(asked).item() == pytest.approx(-log(2))
    assert kl_in_loss("k2")(asked).item() == pytest.approx(log(2) ** 2 / 2)
    assert kl_in_loss("k3")(asked).item() == pytest.approx(1 - log(2))
