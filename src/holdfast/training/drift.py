"""The drift of held streams at the end of a run, measured on prompts that no step has seen: ``hold.json`` and a sentence each."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from holdfast.data import atomic_text
from holdfast.models.eval_mode import eval_mode
from holdfast.training.budget import PARTS, drift_means, drift_sums, standing
from holdfast.training.collate import EARLY, LATE, NUM_EARLY, StreamRow
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


def write_drift(
    trainer: StreamTrainer, fresh: Sequence[StreamRow], safety: Sequence[bool], run: Path, say: Callable[[str], None]
) -> None:
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
            part: Drift(means[number, part], getattr(stream.hold, name), budgets.weights(number)[part])
            for part, name in enumerate(PARTS)
            if (number, part) in means
        }
        line = sentence(stream.name, parts, safety=safety[number])
        figures = {PARTS[part]: {**drift._asdict(), "standing": drift.standing} for part, drift in parts.items()}
        num_answers = sum(row.stream == number for row in fresh)
        summary[stream.name] = {**figures, "fresh_answers": num_answers, "sentence": line}
        say(line)
    if trainer.accelerator.is_main_process:
        with atomic_text(run / FILE) as file:
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
        f"{name}: {early.standing}, {early.k:.3f} nats per answer: at most {-100 * math.expm1(-early.k):.1f} % of sure {what}"
        f" lost on prompts like these; lambda {early.weight:.2g}"
    )
    if LATE in parts:
        late = parts[LATE]
        text += f"; after {NUM_EARLY} tokens {late.standing}, {late.k:.3f} nats per token, lambda {late.weight:.2g}"
    return text
