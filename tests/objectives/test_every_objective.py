"""What holds for all of them: one loss per token from its own statistics alone, and what they say they need."""

import inspect
from dataclasses import fields, replace

import pytest
import torch

from holdfast import objectives
from holdfast.config import InputError
from holdfast.heads import TokenStats, token_stats
from objectives.objective_cases import NUM, POSITION, ROLE, bound, random_head, random_stats

pytestmark = pytest.mark.parametrize("name", objectives.REGISTRY)


def taken(stats: TokenStats, rows: object) -> TokenStats:
    values = {field.name: getattr(stats, field.name) for field in fields(stats)}
    return TokenStats(**{name: None if value is None else value[rows] for name, value in values.items()})


def test_one_loss_per_token_not_reduced(name: str) -> None:
    loss = bound(name)(random_stats())
    assert loss.shape == (NUM,)
    assert loss.dtype is torch.float64
    assert bound(name)(random_stats(dtype=torch.float32)).dtype is torch.float32


def test_a_tokens_loss_does_not_depend_on_its_batch(name: str) -> None:
    """Any subset, in any order, doubled: the same numbers; so padding and packing cannot matter."""
    stats = random_stats()
    whole = bound(name)(stats)
    for rows in (torch.tensor([4]), torch.tensor([7, 2, 2, 0]), slice(3, 8), torch.randperm(NUM)):
        assert torch.equal(bound(name)(taken(stats, rows), rows), whole[rows])


@pytest.mark.parametrize("chunk_tokens", [1, 4])
def test_chunking_does_not_matter(name: str, chunk_tokens: int) -> None:
    hidden, weight, ref_hidden, ref_weight, targets = random_head()
    results = []
    for size in (chunk_tokens, None):
        stats = token_stats(hidden, weight, targets, ref_hidden=ref_hidden, ref_weight=ref_weight, chunk_tokens=size)
        loss = bound(name)(stats)
        results.append((loss, *torch.autograd.grad(loss.sum(), (hidden, weight))))
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)


def test_reads_what_it_says_and_all_of_it(name: str) -> None:
    stats = random_stats()
    reads = objectives.stats_read(name)
    lean = stats.only(reads)
    assert torch.equal(bound(name)(lean), bound(name)(stats))
    for missing in set(reads) - {"logp"}:
        with pytest.raises(InputError, match=f"'{missing}' is missing"):
            bound(name)(replace(lean, **{missing: None}))
    if "logp" not in reads:
        other = replace(lean, logp=torch.full_like(lean.logp, float("nan")))
        assert torch.equal(bound(name)(other), bound(name)(stats))


def test_what_it_needs_follows_from_what_it_reads(name: str) -> None:
    anchor = {"csft", "pa", "csft_pa", "kl_sft", "distill"}
    assert objectives.needs_anchor(name) == (name in anchor)
    assert objectives.needs_kl(name) == (name in anchor - {"csft"})
    assert not objectives.needs_kl(name, {"kl": "ignore"}) or name in ("kl_sft", "distill")


def test_its_options_are_keywords_with_defaults(name: str) -> None:
    """Besides role and position, which the data give."""
    parameters = list(inspect.signature(objectives.REGISTRY[name]).parameters.values())
    assert parameters[0].name == "stats"
    for parameter in parameters[1:]:
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert (parameter.default is inspect.Parameter.empty) == (parameter.name in ("role", "position"))


def test_leaves_its_inputs_alone(name: str) -> None:
    stats, again = random_stats(), random_stats()
    role, position = ROLE.clone(), POSITION.clone()
    bound(name)(stats)
    assert all(torch.equal(getattr(stats, f.name), getattr(again, f.name)) for f in fields(stats))
    assert torch.equal(role, ROLE)
    assert torch.equal(position, POSITION)
