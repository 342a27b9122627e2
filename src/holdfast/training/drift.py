"""How far a model is from its anchor (MATH §9): on any answers, and at the end of a run on prompts that no step has seen.

The latter is ``hold.json``, and a sentence for every held stream.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from holdfast.config.training import StreamSettings
from holdfast.data import atomic_text
from holdfast.models import LoadedModel
from holdfast.models.eval_mode import eval_mode
from holdfast.models.head_access import why_not_plain
from holdfast.tokens import TokenRow
from holdfast.training.anchors import ModelAnchor
from holdfast.training.budget import PARTS, drift_means, drift_sums, standing
from holdfast.training.collate import EARLY, LATE, NUM_EARLY, Collator, Counted, StreamRow
from holdfast.training.loss import StepLoss
from holdfast.training.streams import bind_objective
from holdfast.training.trainer import StreamTrainer

FILE = "hold.json"


class Drift(NamedTuple):
    """One quantity of one held stream at the end: k on fresh prompts, its budget, and the last lambda."""

    k: float
    budget: float
    weight: float

    @property
    def standing(self) -> str:
        """``slack``, ``bound`` or ``broken``."""
        return standing(self.k, self.budget)


def most_lost(k: float) -> float:
    """The largest share of what the anchor surely does that a drift of ``k`` nats per answer can lose: 1 - exp(-k)."""
    return -math.expm1(-k)


class AnswerDrift(NamedTuple):
    """One answer's KL(anchor || policy), summed over its first tokens and over the others, and how many those are."""

    early: float
    late: float
    num_late: int


@torch.no_grad()
def drift_of_answers(
    policy: LoadedModel, anchor: LoadedModel, rows: Sequence[TokenRow], *, batch_size: int = 64
) -> list[AnswerDrift]:
    """The drift of every row's answer, in order, by the loss that training uses. Both models read the same tokens."""
    pad_id = policy.tokenizer.pad_token_id or 0
    # Every answer of a batch is a stream of its own, so the sums of the streams are those of the answers.
    distill = bind_objective(StreamSettings(data="prompts:", objective="distill"), 0)
    loss = StepLoss([distill] * batch_size, ModelAnchor(anchor.model), plain=not why_not_plain(policy.model))
    collator = Collator(pad_id, (True,) * batch_size)
    drifts: dict[int, AnswerDrift] = {}
    by_length = sorted(range(len(rows)), key=lambda number: -len(rows[number]))
    with eval_mode(policy.model), eval_mode(anchor.model):
        for start in range(0, len(rows), batch_size):
            numbers = by_length[start : start + batch_size]
            stream_rows = [StreamRow(rows[number], place, 0, number) for place, number in enumerate(numbers)]
            batch = collator(stream_rows).to(policy.device)
            result = loss(policy.model, batch, batch.counts, progress=1.0, want_grad_norm=False)
            sums, counts = drift_sums(batch, result.per_token, batch_size).tolist(), batch.counts.tolist()
            for place, number in enumerate(numbers):
                early, late = sums[place]
                drifts[number] = AnswerDrift(early, late, counts[place][Counted.LATE])
    return [drifts[number] for number in range(len(rows))]


def write_drift(trainer: StreamTrainer, fresh: Sequence[StreamRow], safety: Sequence[bool]) -> None:
    """Measure every held stream, write ``hold.json`` and say one sentence per stream. Every process takes part.

    ``safety``: of each stream, whether its prompts are the requests that are to be refused.
    """
    budgets = trainer.step_loss.budgets
    assert budgets is not None
    means = measure(trainer, fresh)
    summary: dict[str, Any] = {}
    for number, stream in enumerate(trainer.step_loss.streams):
        if stream.hold is None:
            continue
        parts = {
            part: Drift(means[number, part], getattr(stream.hold, name), budgets.controllers[number, part].weight)
            for part, name in enumerate(PARTS)
            if (number, part) in means
        }
        line = sentence(stream.name, parts, safety=safety[number])
        figures = {PARTS[part]: {**drift._asdict(), "standing": drift.standing} for part, drift in parts.items()}
        num_answers = sum(row.stream == number for row in fresh)
        summary[stream.name] = {**figures, "fresh_answers": num_answers, "sentence": line}
        trainer.say(line)
    if trainer.accelerator.is_main_process:
        with atomic_text(trainer.run.path / FILE) as file:
            json.dump(summary, file, indent=1)
            file.write("\n")


@torch.no_grad()
def measure(trainer: StreamTrainer, rows: Sequence[StreamRow]) -> dict[tuple[int, int], float]:
    """k of every stream and part over these rows, without dropout. Each process goes through all of them."""
    num_streams = len(trainer.step_loss.streams)
    device, at_once = trainer.accelerator.device, trainer.args.per_device_train_batch_size
    sums: Any = 0
    counts: Any = 0
    model: Any = trainer.model
    with eval_mode(model), trainer.accelerator.autocast():
        for start in range(0, len(rows), at_once):
            batch = trainer.collator(rows[start : start + at_once]).to(device)
            result = trainer.step_loss(model, batch, batch.counts, progress=1.0, want_grad_norm=False)
            sums = sums + drift_sums(batch, result.per_token, num_streams)
            counts = counts + batch.counts
    return drift_means(sums, counts)


def sentence(name: str, parts: dict[int, Drift], *, safety: bool) -> str:
    """What the drift means: at most 1 - exp(-k) of what the anchor surely begins its answers with is lost (MATH §9)."""
    early = parts[EARLY]
    what = "refusals" if safety else "beginnings"
    text = (
        f"{name}: {early.standing}, {early.k:.3f} nats per answer: at most {100 * most_lost(early.k):.1f} % of sure {what}"
        f" lost on prompts like these; lambda {early.weight:.2g}"
    )
    if LATE in parts:
        late = parts[LATE]
        text += f"; after {NUM_EARLY} tokens {late.standing}, {late.k:.3f} nats per token, lambda {late.weight:.2g}"
    if any(part.standing == "broken" for part in parts.values()):
        text += "; lower training.lr, train adapters (lora) instead of all weights, or allow more drift"
    return text
