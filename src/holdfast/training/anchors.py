"""The frozen aligned model, three ways: a second model, the policy with its adapters off, or a cache on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from holdfast.heads import Reference
from holdfast.models.head_access import frozen_head_weight, has_trained_rows, head_replaced

MODEL_INPUTS = ("input_ids", "position_ids", "attention_mask", "use_cache")


class Anchor(Protocol):
    """Gives what objectives compare with, for the target tokens of a batch in the order of its target table."""

    only_reads: bool  # computes nothing, so it may be asked as late as the policy's head

    def reference(self, batch: Mapping[str, Any], policy: Any) -> Reference:
        """Hidden states and head weight, or cached statistics, of the rows that need an anchor."""

    def logits(self, batch: Mapping[str, Any], policy: Any) -> Tensor:
        """The anchor's logits at those tokens, for models whose logits are not hidden states times a weight."""


class ModelAnchor:
    """A second model in memory. Under FSDP2 it is sharded like the policy; its head is copied whole, once."""

    only_reads = False

    def __init__(self, model: Any) -> None:
        self.model = model
        self.head: Tensor | None = None

    def reference(self, batch: Mapping[str, Any], policy: Any) -> Reference:
        """One forward pass without autograd that keeps the hidden states of the target tokens only."""
        hidden, self.head = _hidden_and_weight(self.model, batch["anchor"], keep=self.head)
        return Reference(hidden=hidden, weight=self.head)

    def logits(self, batch: Mapping[str, Any], policy: Any) -> Tensor:
        """Full logits, gathered at the target tokens."""
        return _logits(self.model, batch["anchor"])


class AdapterOffAnchor:
    """The policy itself with its adapters disabled: no second copy in memory."""

    only_reads = False

    def reference(self, batch: Mapping[str, Any], policy: Any) -> Reference:
        """The head stays the policy's own unless some of its rows are trained."""
        with _adapters_off(policy):
            hidden, weight = _hidden_and_weight(policy, batch["anchor"], keep=None)
        return Reference(hidden=hidden, weight=weight if has_trained_rows(policy) else None)

    def logits(self, batch: Mapping[str, Any], policy: Any) -> Tensor:
        """Full logits, gathered at the target tokens."""
        with _adapters_off(policy):
            return _logits(policy, batch["anchor"])


@contextmanager
def _adapters_off(policy: Any) -> Iterator[None]:
    """Adapters off and dropout off; both as they were afterwards."""
    was_training = policy.training
    policy.eval()
    try:
        with policy.disable_adapter():
            yield
    finally:
        policy.train(was_training)


def model_inputs(fed: Mapping[str, Any]) -> dict[str, Any]:
    """Of a batch, what the model is called with."""
    return {name: fed[name] for name in MODEL_INPUTS if name in fed}


@torch.no_grad()
def _hidden_and_weight(model: Any, fed: Mapping[str, Any], *, keep: Tensor | None) -> tuple[Tensor, Tensor]:
    found: list[Tensor] = []

    def select(hidden: Tensor, head: nn.Module) -> Tensor:
        found.append(hidden.flatten(0, 1)[fed["index"]])
        if keep is None:
            found.append(_outliving(frozen_head_weight(head), model))
        return hidden.new_zeros(1)

    with head_replaced(model, select):
        model(**model_inputs(fed))
    return found[0], found[1] if keep is None else keep


def _outliving(weight: Tensor, model: Any) -> Tensor:
    """A sharded head is given back after the forward: copy it. An ordinary one is used in place."""
    sharded = any(hasattr(parameter, "device_mesh") for parameter in model.parameters())
    return weight.clone() if sharded else weight


@torch.no_grad()
def _logits(model: Any, fed: Mapping[str, Any]) -> Tensor:
    logits: Tensor = model(**model_inputs(fed)).logits
    return logits.flatten(0, 1)[fed["index"]]
