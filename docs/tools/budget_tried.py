"""What else might close the gap (docs/results/budget.md): other ways to hold a tiny model, as step rules of the trainer.

`safegrad`: the task's gradient without the part that points against the held streams'. `hidden W`: beside the task, W times the
distance of the hidden states to the anchor's, on the anchor's own answers to the shipped prompts. `norm R`: adapters whose
products, all together, have at most the norm R.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from holdfast.training import Gradient
from holdfast.training.step_rule import StepRule

SAFETY_AND_KEEP = ("safety", "keep")


@dataclass(frozen=True)
class HiddenStates:
    """``weight`` times the mean squared distance of every layer's hidden states, relative to their mean square."""

    weight: float
    num_rows: int  # of each kind of prompts, in a step

    def begin(self) -> HiddenStatesRun:
        """Draws the anchor's answers."""
        return HiddenStatesRun(self)


class HiddenStatesRun:
    """A second copy of the model lends its shape to the parameters that are trained."""

    def __init__(self, rule: HiddenStates) -> None:
        import holdfast as hf
        from holdfast.tokens import tokenize_all
        from holdfast.training.anchor_answers import as_rows, divided, drawn
        from holdfast.worlds.held_prompts import world_prompts

        self.rule = rule
        self.anchor, self.shell = hf.load("tiny:aligned"), hf.load("tiny:aligned").model
        self.rows: dict[str, list[Tensor]] = {}
        for kind in SAFETY_AND_KEEP:
            _, prompts = divided(world_prompts(kind))
            answered = as_rows(prompts, drawn(self.anchor, prompts, 0))
            rows, _ = tokenize_all(answered, self.anchor.tokenizer)
            self.rows[kind] = [torch.tensor(row.ids) for row in rows]
        self.generator = torch.Generator().manual_seed(0)

    def passes(self, step: int, num_streams: int) -> list[frozenset[int]]:
        """The task's gradient; the held one is made in ``combined``."""
        del step, num_streams
        return [frozenset({0})]

    def combined(self, step: int, parameters: Sequence[Tensor], gradients: Sequence[Gradient]) -> Gradient:
        """The task's gradient and that of the distance."""
        del step
        names = [name for name, _ in self.shell.named_parameters()]
        with torch.enable_grad():
            copies = [parameter.detach().requires_grad_() for parameter in parameters]
            loss = sum(self._distance(dict(zip(names, copies, strict=True)), kind) for kind in SAFETY_AND_KEEP)
            held = torch.autograd.grad(self.rule.weight * loss, copies)  # type: ignore[arg-type]
        return [mine + theirs for mine, theirs in zip(gradients[0], held, strict=True)]

    def _distance(self, parameters: dict[str, Tensor], kind: str) -> Tensor:
        chosen = torch.randint(len(self.rows[kind]), (self.rule.num_rows,), generator=self.generator).tolist()
        ids = torch.nn.utils.rnn.pad_sequence([self.rows[kind][number] for number in chosen], batch_first=True)
        lengths = torch.tensor([len(self.rows[kind][number]) for number in chosen])
        mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "output_hidden_states": True}
        with torch.no_grad():
            wanted = torch.stack(self.anchor.model(**inputs).hidden_states[1:])
        states = torch.stack(torch.func.functional_call(self.shell, parameters, kwargs=inputs).hidden_states[1:])
        read = mask.bool()
        return (states - wanted)[:, read].square().mean() / wanted[:, read].square().mean()


@dataclass(frozen=True)
class AdapterNorm:
    """After a step that would leave the ball, the products B A are drawn back into it: all B by one factor."""

    norm: float

    def begin(self) -> AdapterNorm:
        """It remembers nothing."""
        return self

    def passes(self, step: int, num_streams: int) -> list[frozenset[int]]:
        """The task alone."""
        del step, num_streams
        return [frozenset({0})]

    @torch.no_grad()
    def combined(self, step: int, parameters: Sequence[Tensor], gradients: Sequence[Gradient]) -> Gradient:
        """Parameters come as A, B, A, B, ... in the order of the modules."""
        del step
        pairs = list(zip(parameters[::2], parameters[1::2], strict=True))
        norm = torch.stack([(up @ down).square().sum() for down, up in pairs]).sum().sqrt()
        if norm > self.norm:
            for _, up in pairs:
                up.mul_(self.norm / norm)
        return gradients[0]


def rule_of(name: str, num_rows: int) -> StepRule:
    """By the name that an arm has."""
    kind, _, value = name.partition(" ")
    if kind == "safegrad":
        from holdfast_studies.rivals import SafeGrad

        return SafeGrad()
    return HiddenStates(float(value), num_rows) if kind == "hidden" else AdapterNorm(float(value))
