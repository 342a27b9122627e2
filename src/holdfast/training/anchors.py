"""The frozen aligned model, three ways: a second model, the policy with its adapters off, or a cache on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from holdfast.heads import Reference
from holdfast.models.head_access import frozen_head_weight, has_trained_rows, head_replaced
from holdfast.training.collate import AnchorPass, MicroBatch


class Anchor(Protocol):
    """Gives what objectives compare with, for the target tokens of a batch in the order of its target table."""

    def begin(self, batch: MicroBatch, policy: Any) -> Callable[[], Reference]:
        """Called before the policy's pass. Returns a function that gives the reference once the policy's head needs it.

        The reference is hidden states and head weight, or cached statistics, of the rows that need an anchor.
        """

    def logits(self, batch: MicroBatch, policy: Any) -> Tensor:
        """The anchor's logits at those tokens, for models whose logits are not hidden states times a weight."""


class _AtOnce(ABC):
    """An anchor that computes: its pass runs before the policy's, so that their activations never meet in memory."""

    def begin(self, batch: MicroBatch, policy: Any) -> Callable[[], Reference]:
        """Run the anchor's pass now; what is returned only hands over its result."""
        reference = self.reference(batch, policy)
        return lambda: reference

    @abstractmethod
    def reference(self, batch: MicroBatch, policy: Any) -> Reference:
        """The anchor's values for the batch, by a forward pass without autograd."""


class ModelAnchor(_AtOnce):
    """A second model in memory. Under FSDP2 it is sharded like the policy; its head is copied whole, once."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.head: Tensor | None = None

    def reference(self, batch: MicroBatch, policy: Any) -> Reference:
        """One forward pass without autograd that keeps the hidden states of the target tokens only."""
        hidden, head = _hidden_and_weight(self.model, _anchor_pass(batch), want_weight=self.head is None)
        self.head = self.head if head is None else head
        return Reference(hidden=hidden, weight=self.head)

    def logits(self, batch: MicroBatch, policy: Any) -> Tensor:
        """Full logits, gathered at the target tokens."""
        return _logits(self.model, _anchor_pass(batch))


class AdapterOffAnchor(_AtOnce):
    """The policy itself with its adapters disabled: no second copy in memory."""

    def __init__(self) -> None:
        self._switch: _AdapterSwitch | None = None

    def reference(self, batch: MicroBatch, policy: Any) -> Reference:
        """The head stays the policy's own unless some of its rows are trained."""
        with self._adapters_off(policy):
            hidden, weight = _hidden_and_weight(policy, _anchor_pass(batch), want_weight=has_trained_rows(policy))
        return Reference(hidden=hidden, weight=weight)

    def logits(self, batch: MicroBatch, policy: Any) -> Tensor:
        """Full logits, gathered at the target tokens."""
        with self._adapters_off(policy):
            return _logits(policy, _anchor_pass(batch))

    def _adapters_off(self, policy: Any) -> AbstractContextManager[None]:
        if self._switch is None or self._switch.policy is not policy:
            self._switch = _AdapterSwitch(policy)
        return self._switch.off()


class _AdapterSwitch:
    """Turns a model's adapters and dropout off and back.

    peft's own switch and ``eval`` walk the whole model, and the former sets requires_grad of every adapter besides, which
    a pass without autograd does not read: for 135M parameters that is more of the host's time than the pass itself. Here
    the modules are looked up once and their flags turned.
    """

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self._modules = list(policy.modules())
        self._adapters = [module for module in self._modules if hasattr(module, PEFT_FLAG)]
        assert self._adapters, "the anchor is the policy without its adapters, and there are none"

    @contextmanager
    def off(self) -> Iterator[None]:
        """Switch adapters and dropout off inside, and back afterwards."""
        in_training = [module for module in self._modules if module.training]
        switched_on = [module for module in self._adapters if not getattr(module, PEFT_FLAG)]
        _set(in_training, "training", False)
        _set(switched_on, PEFT_FLAG, True)
        try:
            yield
        finally:
            _set(switched_on, PEFT_FLAG, False)
            _set(in_training, "training", True)


PEFT_FLAG = "_disable_adapters"  # of every adapter and of every wrapper of a module that is trained whole or in rows


def _set(modules: Sequence[nn.Module], name: str, value: bool) -> None:
    """As ``setattr``, but without nn.Module's test whether the value is a parameter."""
    for module in modules:
        module.__dict__[name] = value


def _anchor_pass(batch: MicroBatch) -> AnchorPass:
    assert batch.anchor is not None, "no row of this batch is compared with the anchor"
    return batch.anchor


@torch.no_grad()
def _hidden_and_weight(model: Any, anchor: AnchorPass, *, want_weight: bool) -> tuple[Tensor, Tensor | None]:
    states: list[Tensor] = []
    weights: list[Tensor] = []

    def select(hidden: Tensor, head: nn.Module) -> Tensor:
        states.append(hidden.flatten(0, 1)[anchor.index])
        if want_weight:
            weights.append(_outliving(frozen_head_weight(head), model))
        return hidden.new_zeros(1)

    with head_replaced(model, select):
        model(**anchor.inputs.model_inputs())
    return states[0], weights[0] if want_weight else None


def _outliving(weight: Tensor, model: Any) -> Tensor:
    """A sharded head is given back after the forward: copy it. An ordinary one is used in place."""
    sharded = any(hasattr(parameter, "device_mesh") for parameter in model.parameters())
    return weight.clone() if sharded else weight


@torch.no_grad()
def _logits(model: Any, anchor: AnchorPass) -> Tensor:
    logits: Tensor = model(**anchor.inputs.model_inputs()).logits
    return logits.flatten(0, 1)[anchor.index]
