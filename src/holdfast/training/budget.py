"""Drift budgets (``hold:``, MATH §9): say how far a stream may drift from the anchor, not how hard it is held.

A held stream has two quantities: ``early``, the sum of KL(anchor || policy) over the first tokens of an answer, averaged over
answers; and ``late``, its mean over the tokens after them. The loss is L_task + sum of lambda * k over these quantities, and
after every step a controller moves each lambda so that k comes to lie at its budget. At its budget a held token pulls at most as
hard as a token of the task; where more is wanted, the next step is shorter instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from holdfast.config.training import HoldSettings
from holdfast.training.collate import EARLY, LATE, NUM_EARLY, Counted, MicroBatch

PARTS = ("early", "late")  # numbered EARLY and LATE
LOGGED = (
    ("k_early", "kbar_early", "integral_early", "lambda_early"),
    ("k_late", "kbar_late", "integral_late", "lambda_late"),
)
LOWEST, HIGHEST = math.log(0.05), math.log(500)  # of log lambda
START = math.log(5)
DECAY = 0.5  # of the moving average
GAIN = 0.05  # of the integral
QUIET = 0.2  # share of the steps in which the integral only grows
NARROWED = 0.4  # share of the steps after which a budget that began wider is itself
NEAR = 0.3  # of the budget: how close to it "bound" is
PULL = 1.0  # of a held token at its budget, at most, against a token of the task
SHORTEST = 0.1  # step, against the one that the learning rate would take


@dataclass(frozen=True)
class Controller:
    """The state of one quantity: what a checkpoint keeps."""

    integral: float = START
    kbar: float = 0.0
    t: int = 0
    log_lambda: float = START
    wanted: float = START  # log lambda without the task's limit, while k is above its budget

    @property
    def weight(self) -> float:
        """lambda."""
        return math.exp(self.log_lambda)

    @property
    def step_size(self) -> float:
        """What the next step is multiplied by: shorter steps instead of the lambda that is wanted and not allowed."""
        return max(SHORTEST, math.exp((self.log_lambda - self.wanted) / 2))

    def updated(
        self, k: float, budget: float, *, share_done: float, every: int = 1, task: float = 0.0, tokens: int = 1
    ) -> Controller:
        """The state after a step that measured ``k``. ``share_done``: the share of the run's steps done, this one included.

        Where only every n-th step measures (``every``), it stands for n steps in the average and in the integral.
        ``task``: the loss of a token of the task, 0 if nobody knows it; ``tokens``: how many tokens ``k`` is a sum over.
        """
        t, decay = self.t + 1, DECAY**every
        kbar = self.kbar + (1 - decay) / (1 - decay**t) * (k - self.kbar)  # debiased: after the first step it is k
        error = _clip((kbar - budget) / budget, -1, 1)
        if share_done <= QUIET:
            error = max(error, 0.0)
        highest = _highest(task, budget / tokens)
        if self.integral > highest:
            error = min(error, 0.0)  # beyond the limit it has no effect, and would take as long to come back
        integral = _clip(self.integral + GAIN * every * error, LOWEST, HIGHEST)
        ahead = _clip(math.log(kbar / budget), -2, 2) if kbar > 0 else -2.0
        wanted = _clip(integral + ahead, LOWEST, HIGHEST)
        allowed = min(wanted, highest)
        return Controller(integral, kbar, t, allowed, wanted if kbar > budget else allowed)


def _highest(task: float, budget: float) -> float:
    """log of the largest lambda, from the loss of a token of the task and the budget of a held one.

    A token pulls on its logits by |p - target|_1, at most sqrt(2 * its loss) for a cross-entropy and for a KL (Pinsker).
    """
    if task <= 0:
        return HIGHEST
    return _clip(math.log(PULL * math.sqrt(task / budget)), LOWEST, HIGHEST)


def width(wide: float, *, share_done: float) -> float:
    """The factor of a budget that begins ``wide`` times as wide: on a straight line to 1."""
    return max(1.0, wide - (wide - 1) * share_done / NARROWED)


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


class DriftBudgets:
    """The controllers of a run: two for every stream with ``hold``. The same numbers on every process."""

    def __init__(self, holds: Sequence[HoldSettings | None], weights: Sequence[float], device: torch.device) -> None:
        self.budgets = {
            (stream, part): getattr(hold, name)
            for stream, hold in enumerate(holds)
            if hold is not None
            for part, name in enumerate(PARTS)
        }
        self.every = [1 if hold is None else hold.every for hold in holds]
        self.wide = [1.0 if hold is None else hold.wide for hold in holds]
        self.others = {stream: weights[stream] for stream, hold in enumerate(holds) if hold is None}
        self.controllers = {key: Controller() for key in self.budgets}
        self.last_step_size = 1.0
        self.k: dict[tuple[int, int], float] = {}  # as the last step measured it
        self.sums = torch.zeros(len(holds), len(PARTS), dtype=torch.float64, device=device)
        self.counts: Tensor | None = None

    def held(self, stream: int) -> bool:
        """Whether a stream has budgets."""
        return (stream, EARLY) in self.budgets

    def weights(self, stream: int) -> tuple[float, float]:
        """What the early and the late tokens of a held stream are weighted by, in a step that has any.

        lambda; times ``every`` where other steps have none, so that the mean over all steps is lambda times the drift.
        """
        every = self.every[stream]
        return every * self.controllers[stream, EARLY].weight, every * self.controllers[stream, LATE].weight

    @torch.no_grad()
    def add(self, batch: MicroBatch, per_token: Tensor, counts: Tensor) -> None:
        """Take in a micro-batch: the loss of every token, and the counts of the whole global batch."""
        self.sums = self.sums + drift_sums(batch, per_token, len(self.sums))
        self.counts = counts

    def step(self, accelerator: Any, *, share_done: float) -> None:
        """At the end of a step: add up over all processes, and move every lambda. Every process takes part."""
        assert self.counts is not None
        sums = accelerator.reduce(self.sums, "sum")
        means, task = drift_means(sums, self.counts), self._task(sums, self.counts)
        self.sums, self.counts = torch.zeros_like(self.sums), None
        for key, k in means.items():
            if key in self.budgets:
                stream, part = key
                budget = self.budgets[key] * width(self.wide[stream], share_done=share_done)
                self.k[key] = k
                self.controllers[key] = self.controllers[key].updated(
                    k,
                    budget,
                    share_done=share_done,
                    every=self.every[stream],
                    task=task,
                    tokens=NUM_EARLY if part == EARLY else 1,
                )

    def _task(self, sums: Tensor, counts: Tensor) -> float:
        """The part of the loss that is not held."""
        tokens = counts[:, Counted.TOKENS].clamp(min=1)
        means: list[float] = (sums.sum(1) / tokens).tolist()
        return sum(weight * means[stream] for stream, weight in self.others.items())

    def step_size(self) -> float:
        """What the next step is multiplied by: the shortest that any quantity asks for."""
        return min(controller.step_size for controller in self.controllers.values())

    def row(self, stream: int) -> dict[str, float]:
        """What steps.jsonl shows of a held stream: lambda is the one that the next step will use."""
        figures: dict[str, float] = {}
        for part, names in enumerate(LOGGED):
            state, k = self.controllers[stream, part], self.k.get((stream, part), 0.0)
            figures |= zip(names, (k, state.kbar, state.integral, state.weight), strict=True)
        return figures

    def state(self) -> list[dict[str, Any]]:
        """The controllers, as a checkpoint keeps them."""
        return [
            {"stream": stream, "part": part, "k": self.k.get((stream, part), 0.0), **asdict(controller)}
            for (stream, part), controller in self.controllers.items()
        ]

    def go_on(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Restore the controllers from a checkpoint."""
        for saved in state:
            fields = dict(saved)
            key = (fields.pop("stream"), fields.pop("part"))
            self.k[key] = fields.pop("k")
            self.controllers[key] = Controller(**fields)


def drift_sums(batch: MicroBatch, per_token: Tensor, num_streams: int) -> Tensor:
    """[streams, 2]: the summed loss of the early and of the late tokens of a micro-batch, in float64."""
    index = batch.targets.stream * len(PARTS) + batch.targets.part
    sums = torch.zeros(num_streams * len(PARTS), dtype=torch.float64, device=per_token.device)
    return sums.index_add_(0, index, per_token.detach().double()).view(num_streams, len(PARTS))


def drift_means(sums: Tensor, counts: Tensor) -> dict[tuple[int, int], float]:
    """k of every stream and part: early by answers, late by tokens. A part without any token has none."""
    denominators = counts[:, [Counted.ANSWERS, Counted.LATE]].tolist()
    return {
        (stream, part): total / denominators[stream][part]
        for stream, totals in enumerate(sums.tolist())
        for part, total in enumerate(totals)
        if denominators[stream][part]
    }


def standing(k: float, budget: float) -> str:
    """``slack``, ``bound`` or ``broken``: by the drift at the end on fresh prompts, whatever lambda is."""
    if k > (1 + NEAR) * budget:
        return "broken"
    return "slack" if k < (1 - NEAR) * budget else "bound"
