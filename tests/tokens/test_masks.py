"""Hard and packed context on a real transformer: each token's logits are those of a fresh pass over what it may see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from holdfast.records import Role
from holdfast.tokens import TokenBatch, TokenRow, additive_mask, hard_mask, pack, pad, stack_context
from holdfast.tokens.batch import Context

P, R, E, U, C = Role.PROMPT, Role.RESPONSE, Role.ERROR, Role.UNDO, Role.CORRECTION
PATTERNS = [
    [P, P, R, E, E, U, U, C, C],
    [P, R, E, E, U, E, U, U, C, C],  # an error inside an error
    [P, E, U, E, U, C, P, P, R, E, E, E, U, U, U, C],  # two turns
    [P, P, P, R, U, U, U, R],  # more undos than tokens
    [P, R, R, R],  # none at all
    [P, R, E, E, U],  # cut off inside an undo
]
VOCABULARY, UNDO_ID, PAD_ID = 40, 39, 0


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(
    params=[("sdpa", "float64"), ("sdpa", "float32"), ("eager", "float64"), ("eager", "float32")], scope="module"
)
def model(request: pytest.FixtureRequest) -> LlamaForCausalLM:
    implementation, dtype = request.param
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        initializer_range=0.2,  # large, so that attention is far from uniform
        attn_implementation=implementation,
    )
    return LlamaForCausalLM(config).to(getattr(torch, dtype)).eval()


def is_eager(model: LlamaForCausalLM) -> bool:
    return bool(model.config._attn_implementation == "eager")


def tolerance(model: LlamaForCausalLM) -> float:
    """Eager attention takes its softmax in float32 even in a float64 model. The logits are about 4."""
    return 1e-5 if is_eager(model) or model.dtype == torch.float32 else 1e-13


def make_row(roles: list[Role], context: Context = "hard", seed: int = 0) -> TokenRow:
    drawn = torch.randint(1, UNDO_ID, (len(roles),), generator=torch.Generator().manual_seed(seed)).tolist()
    ids = [UNDO_ID if role == U else token for role, token in zip(roles, drawn, strict=True)]
    positions = stack_context(roles).positions if context == "hard" else list(range(len(roles)))
    return TokenRow(ids, [int(role) for role in roles], positions, context)


@torch.no_grad()
def logits_of(model: LlamaForCausalLM, batch: TokenBatch) -> Tensor:
    return model(**batch.model_inputs()).logits


@torch.no_grad()
def fresh_logits(model: LlamaForCausalLM, rows: list[TokenRow]) -> dict[tuple[int, int], Tensor]:
    """For (row, token): the last logits of a plain pass over what the token sees, with no mask of ours."""
    seen: dict[int, dict[tuple[int, int], list[int]]] = {}
    for number, row in enumerate(rows):
        stack = stack_context(row.roles)
        for token in range(len(row)):
            indices = stack.attends(token) if row.context == "hard" else range(token + 1)
            visible = [row.ids[i] for i in indices]
            seen.setdefault(len(visible), {})[number, token] = visible
    found = {}
    for same_length in seen.values():
        logits = model(input_ids=torch.tensor(list(same_length.values())), use_cache=False).logits[:, -1]
        found.update(zip(same_length, logits, strict=True))
    return found


def worst_difference(model: LlamaForCausalLM, batch: TokenBatch, rows: list[TokenRow]) -> float:
    """Between every token of a batch and a fresh pass over what it sees."""
    logits = logits_of(model, batch)
    found = torch.cat([logits[batch.rows == number] for number in range(len(rows))])
    expected = torch.stack(list(dict(sorted(fresh_logits(model, rows).items())).values()))
    assert len(found) == sum(map(len, rows))
    return float((found - expected).abs().max())


@pytest.mark.parametrize("roles", PATTERNS, ids=lambda roles: "".join(role.name[0] for role in roles))
def test_hard_context_is_a_fresh_pass_over_the_stack(model: LlamaForCausalLM, roles: list[Role]) -> None:
    row = make_row(roles)
    batch = pad([row], PAD_ID, float_mask=is_eager(model))
    assert worst_difference(model, batch, [row]) < tolerance(model)


def mixed_rows() -> list[TokenRow]:
    hard = [make_row(roles, seed=i) for i, roles in enumerate(PATTERNS)]
    return [*hard, make_row(PATTERNS[0], "soft", seed=7)]


@pytest.mark.parametrize("together", ["pad", "pack"])
def test_hard_and_soft_rows_in_one_batch(model: LlamaForCausalLM, together: str) -> None:
    rows, float_mask = mixed_rows(), is_eager(model)
    batch = pad(rows, PAD_ID, float_mask=float_mask) if together == "pad" else pack(rows, float_mask=float_mask)
    assert batch.attention is not None
    assert batch.attention.dtype == (torch.float32 if float_mask else torch.bool)
    assert logits_of(model, batch).isfinite().all()  # padding too: NaN there would spoil gradients
    assert worst_difference(model, batch, rows) < tolerance(model)


@pytest.mark.parametrize("together", ["pad", "pack"])
def test_packed_equals_unpacked(model: LlamaForCausalLM, together: str) -> None:
    rows = [make_row([P] * n + [R] * m, "soft", seed=n) for n, m in ((3, 2), (1, 1), (2, 6), (5, 1))]
    batch = pad(rows, PAD_ID) if together == "pad" else pack(rows)
    assert (batch.attention is None) == (together == "pack")
    assert worst_difference(model, batch, rows) < tolerance(model)


def test_the_comparison_can_fail(model: LlamaForCausalLM) -> None:
    """Soft context, boolean masks under eager attention, and a cache with packed rows are all far off."""
    row = make_row(PATTERNS[2])
    soft = pad([make_row(PATTERNS[2], "soft")], PAD_ID)
    assert worst_difference(model, soft, [row]) > 1e-2
    if is_eager(model):
        assert worst_difference(model, pad([row], PAD_ID, float_mask=False), [row]) > 1e-2
    packed = pack([make_row([P, R, R], "soft", seed=1), make_row([P, R, R], "soft", seed=2)])
    with torch.no_grad():
        cached = model(**{**packed.model_inputs(), "use_cache": True}).logits
    assert float((cached - logits_of(model, packed)).abs().max()) > 1e-2


@given(st.lists(st.lists(st.sampled_from([P, R, E, U, U, C]), min_size=1, max_size=10), min_size=1, max_size=3))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_pattern_of_undos(model: LlamaForCausalLM, patterns: list[list[Role]]) -> None:
    rows = [make_row([P, *roles], seed=i) for i, roles in enumerate(patterns)]
    float_mask = is_eager(model)
    for batch in (pad(rows, PAD_ID, float_mask=float_mask), pack(rows, float_mask=float_mask)):
        assert worst_difference(model, batch, rows) < tolerance(model)


def test_a_mask_by_hand() -> None:
    """Row 0 is p x U, row 1 is one token and two of padding."""
    mask = hard_mask(torch.tensor([[3, 2, 3], [1, 3, 3]]))
    assert mask.shape == (2, 1, 3, 3)
    assert mask[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 0, 1]]
    assert mask[1, 0].int().tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]
    added = additive_mask(mask)
    assert added.dtype == torch.float32
    assert torch.equal(added == 0, mask)
    assert torch.equal(added == torch.finfo(torch.float32).min, ~mask)
