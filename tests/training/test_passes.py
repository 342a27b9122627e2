"""How the rows of a step are cut into passes by their tokens."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen2Config, Qwen2ForCausalLM

from holdfast.config.training import StreamSettings
from holdfast.records import Role
from holdfast.tokens import TokenRow
from holdfast.training.anchors import ModelAnchor
from holdfast.training.collate import Collator, StreamRow
from holdfast.training.loss import StepLoss
from holdfast.training.passes import ANCHOR, POLICY, PassRoom, least_worth
from holdfast.training.plan import PlanSampler, StepPlan
from holdfast.training.streams import bind_objective

ANCHORED = (False, True, True)


def price(room: PassRoom, lengths: Sequence[int], anchored: Sequence[bool], ends: Sequence[int]) -> float:
    """What a way to cut costs, said once more; infinite where a pass is too large."""
    total = 0.0
    for start, stop in pairwise([0, *ends]):
        own = lengths[start:stop]
        held = [length for length, is_held in zip(own, anchored[start:stop], strict=True) if is_held]
        tokens, compared = (sum(of) if room.packing else len(of) * max(of, default=0) for of in (own, held))
        if len(own) > 1 and (tokens > room.tokens or (room.rows and len(own) > room.rows)):
            return float("inf")
        fixed = room.floor // 8
        total += POLICY * (max(room.floor, tokens) + fixed)
        total += ANCHOR * (max(room.floor, compared) + fixed) if held else 0
    return total


@given(
    st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=7),
    st.builds(
        PassRoom, st.integers(10, 120), st.integers(0, 100), st.sampled_from([None, 1, 2, 3]), packing=st.booleans()
    ),
)
@settings(max_examples=60, deadline=None)
def test_no_other_way_to_cut_is_cheaper(rows: list[tuple[int, bool]], room: PassRoom) -> None:
    lengths, anchored = [length for length, _ in rows], [is_held for _, is_held in rows]
    ends = room.ends(np.array(lengths), np.array(anchored))
    ways = ([cut for cut in range(1, len(rows)) if bits >> cut & 1] for bits in range(0, 1 << len(rows), 2))
    assert price(room, lengths, anchored, ends) == min(price(room, lengths, anchored, [*w, len(rows)]) for w in ways)


def benchmark_plan(every: int = 1) -> StepPlan:
    """The rows of benchmarks.defended_gpu: 16 of 512 tokens, 8 and 8 of 61 to 157."""
    held = [45 + 16 + 37 * number % 97 for number in range(96)]
    plan = ([512] * 64, held, held)
    counts = {"batch_size": 32, "shares": [2, 1, 1], "epochs": 1, "max_steps": None, "seed": 0}
    return StepPlan.make(plan, **counts, every=[1, every, every])  # type: ignore[arg-type]


def cut(plan: StepPlan, micro_batch: int, room: PassRoom | None) -> list[list[list[int]]]:
    batches = list(PlanSampler(plan, micro_batch, room, ANCHORED))
    size = plan.batch_size // micro_batch
    assert len(batches) == plan.num_steps * size
    return [batches[start : start + size] for start in range(0, len(batches), size)]


@pytest.mark.parametrize(("every", "passes"), [(1, [3, 3, 3, 3]), (2, [2, 3, 2, 3])])
def test_held_rows_of_both_streams_travel_together(every: int, passes: list[int]) -> None:
    """Dealt evenly the same steps have four passes each, two of them with the anchor."""
    plan = benchmark_plan(every)
    room = PassRoom(tokens=8 * 512, floor=least_worth(1_500_000_000, gpu=True))
    steps = cut(plan, 8, room)
    assert [sum(map(bool, step)) for step in steps] == passes
    assert [sum(map(bool, step)) for step in cut(plan, 8, None)] == [4] * 4
    for number, step in enumerate(steps):
        assert sorted(row for rows in step for row in rows) == sorted(plan.rows_of_step(number))
        assert [bool(rows) for rows in step] == sorted(bool(rows) for rows in step)  # the last one is never empty
        assert sum(any(row >= 64 for row in rows) for rows in step) == (passes[number] == 3)


def test_passes_that_do_not_pay_are_not_made_larger() -> None:
    """A model of 70 billion parameters is busy with few tokens: padding costs more than a pass."""
    large, small = (PassRoom(8 * 900, least_worth(size, gpu=True)) for size in (70_000_000_000, 135_000_000))
    lengths = np.array([900] * 4 + [400] * 4)
    assert large.ends(lengths, lengths < 0) == [4, 8]
    assert small.ends(lengths, lengths < 0) == [8]


def step_gradient(batches: Sequence[Sequence[int]], rows: Sequence[StreamRow], models: Any) -> list[torch.Tensor]:
    """Of one step, summed over its passes."""
    policy, anchor = models
    policy.zero_grad()
    streams = [
        bind_objective(StreamSettings(data=name, objective=objective, weight=weight), number)
        for number, (name, objective, weight) in enumerate(
            [("task", "sft", 1.0), ("safety", "distill", 0.7), ("keep", "distill", 0.3)]
        )
    ]
    collator = Collator(0, ANCHORED)
    loss = StepLoss(streams, ModelAnchor(anchor), plain=True)
    made = [collator([rows[number] for number in batch]) for batch in batches if batch]
    counts = torch.stack([batch.counts for batch in made]).sum(0)
    for batch in made:
        loss(policy, batch, counts, progress=0.0, want_grad_norm=False).loss.backward()
    return [weights.grad.clone() for weights in policy.parameters()]


def test_the_gradient_is_the_same_however_a_step_is_cut() -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = Qwen2Config(vocab_size=50, num_key_value_heads=1, **sizes)
    models = [Qwen2ForCausalLM(config).double() for _ in range(2)]
    lengths = [[30] * 4, [6, 9, 12, 15], [5, 10, 14, 8]]
    plan = StepPlan.make(lengths, batch_size=8, shares=[2, 1, 1], epochs=1, max_steps=None, seed=0)
    flat = [(stream, place, length) for stream, of in enumerate(lengths) for place, length in enumerate(of)]
    rows = [
        StreamRow(
            TokenRow(
                torch.randint(50, (length,)).tolist(),
                [int(Role.PROMPT)] * 3 + [int(Role.RESPONSE)] * (length - 3),
                list(range(length)),
            ),
            stream,
            place,
            number,
        )
        for number, (stream, place, length) in enumerate(flat)
    ]
    dealt, filled = cut(plan, 2, None)[0], cut(plan, 1, PassRoom(tokens=60, floor=60))[0]
    assert [len(batch) for batch in dealt] == [2, 2, 2, 2]
    assert [len(batch) for batch in filled if batch] == [2, 2, 4]
    for one, other in zip(*(step_gradient(way, rows, models) for way in (dealt, filled)), strict=True):
        assert one.abs().max() > 1e-6
        assert (one - other).abs().max() < 1e-12
