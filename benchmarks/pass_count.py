"""How many passes a step makes, and how many tokens they hold: counted, so that any machine gives the same figures.

    PYTHONPATH=src:studies/src python -m benchmarks.pass_count

The rows of benchmarks.defended_gpu, cut for one GPU: dealt evenly, as it was (and is with several processes), and filled by
tokens, as it is. Operations: 6 a weight and token for the policy, 2 for the anchor, padding included, heads left out.
``launches``: passes, one of the anchor as a third of one, beside those of plain sft. On a GPU that waits for the host this is
about the ratio of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.defended_steps import ANSWERS, CHEAP_TOKENS, EVERY, HELD_PROMPT, RECIPE, STUDY, Load
from holdfast.training.passes import PassRoom, least_worth
from holdfast.training.plan import PlanSampler, StepPlan

PARAMETERS = 1_540_000_000
POOL = 96  # rows of a held stream


def held_lengths(answers: Sequence[int]) -> list[int]:
    """The lengths of the rows that ``defended_steps.held_rows`` makes."""
    return [HELD_PROMPT + answers[(37 * number) % len(answers)] for number in range(POOL)]


def make_plan(load: Load, held: str) -> StepPlan:
    """Eight steps of a way: no held rows, whole ones in every step, or cheap ones in every second."""
    answers = range(CHEAP_TOKENS, CHEAP_TOKENS + 1) if held == "cheap" else ANSWERS
    streams = 0 if held == "no" else 2
    every = [1] + [EVERY if held == "cheap" else 1] * streams
    shares = [load.task] + [load.held] * streams
    return StepPlan.make(
        [[load.length] * load.task * 8, *[held_lengths(answers)] * streams],
        batch_size=sum(shares),
        shares=shares,
        epochs=1,
        max_steps=None,
        seed=0,
        every=every,
    )


def count(plan: StepPlan, batches: Iterable[Sequence[int]], anchored: Sequence[bool]) -> dict[str, float]:
    """Means over the plan's steps."""
    lengths = [(length, is_held) for own, is_held in zip(plan.lengths, anchored, strict=True) for length in own]
    passes = [[lengths[row] for row in batch] for batch in batches if batch]
    held = [[length for length, is_held in batch if is_held] for batch in passes]
    policy, anchor = (
        [len(rows) * max(rows) for rows in of if rows] for of in ([[n for n, _ in b] for b in passes], held)
    )
    figures = {
        "passes": len(policy),
        "anchor's passes": len(anchor),
        "tokens": sum(length for batch in passes for length, _ in batch),
        "padded": sum(policy),
        "anchor's padded": sum(anchor),
    }
    return {name: value / plan.num_steps for name, value in figures.items()}


def table() -> list[tuple[str, ...]]:
    """Rows of figures, each load's plain sft first."""
    rows = []
    for load in (RECIPE, STUDY):
        launched = 0.0
        for held in ("no", "whole", "cheap"):
            plan = make_plan(load, held)
            anchored = [False, *[True] * (len(plan.lengths) - 1)]
            room = PassRoom(load.micro_batch * max(map(max, plan.lengths)), least_worth(PARAMETERS, gpu=True))
            for way, how in (("dealt", None), ("filled", room)):
                own = count(plan, PlanSampler(plan, load.micro_batch, how, anchored), anchored)
                launches = own["passes"] + own["anchor's passes"] / 3
                launched = launched or launches
                work = PARAMETERS * (6 * own["padded"] + 2 * own["anchor's padded"]) / 1e12
                shown = [f"{value:,.1f}" for value in own.values()]
                rows.append((load.name, held, way, *shown, f"{work:.1f}", f"{launches / launched:.2f}"))
    return rows


def main() -> None:
    head = ("rows", "held", "cut", "passes", "anchor's", "tokens", "padded", "anchor's padded", "TFLOP", "launches")
    for row in (head, ("---",) * len(head), *table()):
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
