"""Work with hidden states where the head would have run: inside the model's root forward.

Reading the head's weight outside the root forward breaks under FSDP2, once without an error. So the head's own forward is
replaced for one call: it gets the hidden states and the head as it is at that moment, gathered if it was sharded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.models.eval_mode import eval_mode

HeadWork = Callable[[Tensor, nn.Module], Tensor]


def output_head(model: Any) -> nn.Module:
    """The module that makes logits of hidden states."""
    head = model.get_output_embeddings()
    assert isinstance(head, nn.Module), "a causal language model has an output head"
    return head


@contextmanager
def head_replaced(model: Any, work: HeadWork) -> Iterator[None]:
    """Within, the model's forward calls ``work(hidden, head)`` instead of its head and returns the result as logits."""
    head = output_head(model)
    assert "forward" not in head.__dict__, "the head is replaced already"
    head.forward = lambda hidden: work(hidden, head)
    try:
        yield
    finally:
        del head.__dict__["forward"]


def head_weight(head: nn.Module) -> Tensor:
    """The weight in force: with newly trained token rows merged in, where peft trains some."""
    weight = head.weight
    assert isinstance(weight, Tensor)
    return weight


def has_trained_rows(model: Any) -> bool:
    """Whether peft trains some rows of the head (new tokens)."""
    return hasattr(output_head(model), "original_module")


def frozen_head_weight(head: nn.Module) -> Tensor:
    """The weight without any adapter's rows."""
    return head_weight(getattr(head, "original_module", head)).detach()


@torch.no_grad()
def why_not_plain(model: Any) -> str | None:
    """Why hidden states @ weight are not this model's logits (a bias, soft-capping, a scale, an adapter), or None.

    Types are looked at first; then eight tokens are run both ways, because architectures invent new ways to touch logits.
    """
    head = output_head(model)
    linear: Any = getattr(head, "original_module", head)
    if not isinstance(linear, nn.Linear) or type(linear).__module__.startswith("peft"):
        return f"its head is a {type(linear).__name__}"
    if getattr(linear, "bias", None) is not None:
        return "its head has a bias"
    seen: list[Tensor] = []

    def keep_hidden(hidden: Tensor, head: nn.Module) -> Tensor:
        seen.append(hidden)
        logits: Tensor = type(head).forward(head, hidden)
        return logits

    ids = torch.arange(1, 9, device=linear.weight.device).remainder(linear.weight.shape[0])[None]
    with eval_mode(model), head_replaced(model, keep_hidden):
        logits = model(input_ids=ids, use_cache=False).logits
    expected = seen[0] @ head_weight(head).T
    if not torch.allclose(logits.float(), expected.float(), rtol=1e-3, atol=1e-3):
        return "it changes its logits after the head"
    return None
