"""Gradients by role on small real models, in float64."""

import itertools
import math
import random

import numpy as np
import pytest
import torch
from scipy.stats import linregress
from scipy.stats import t as student
from transformers import LlamaConfig, LlamaForCausalLM

from holdfast.config import InputError
from holdfast.diagnostics.attribution import AttributionRow, attribute
from holdfast.diagnostics.attribution_page import page
from holdfast.diagnostics.attribution_rows import attribution_rows
from holdfast.diagnostics.gradients import Keeper, trained_parameters
from holdfast.diagnostics.growth import by_length, fit_growth
from holdfast.diagnostics.losses_by_token import find_objectives, to_go
from holdfast.diagnostics.transcripts import Transcript
from holdfast.records import Role
from holdfast.tokens import TokenRow
from holdfast_studies.decisions.products import product_splitter, products
from holdfast_studies.worlds.arithmetic import ArithmeticWorld, Size
from holdfast_studies.worlds.arithmetic_tokenizer import arithmetic_tokenizer
from holdfast_studies.worlds.arithmetic_writing import Writer, write

OBJECTIVES = find_objectives(None, has_anchor=True)
WORLD = ArithmeticWorld(base=3, largest=Size(3, 1), max_attempts=2)


def model(vocabulary, seed, hidden=16):
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=hidden, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, tie_word_embeddings=True, initializer_range=0.3, pad_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(config).double().eval()


@pytest.fixture(scope="module")
def setting():
    tokenizer = arithmetic_tokenizer(WORLD)
    rng = random.Random(3)
    transcripts = []
    for index in range(8):
        product = WORLD.draw(Size(2 + index % 2, 1), rng)
        for writer in (Writer(0.3), Writer(0.5, checks="none")):
            text = "".join(part.text for part in write(WORLD, product, writer, rng))
            transcripts.append(Transcript(WORLD.prompt(product), text, str(WORLD.value(product))))
    rows = attribution_rows(transcripts, product_splitter(3), products, tokenizer)
    return tokenizer, rows, model(len(tokenizer), 0), model(len(tokenizer), 1)


def test_roles_add_up_to_the_whole_gradient(setting):
    """Independently: one backward of the summed loss, no roles anywhere."""
    _, rows, policy, anchor = setting
    found = attribute(policy, rows, OBJECTIVES, anchor=anchor, old=anchor, batch_size=5)
    for name in OBJECTIVES:
        everything = [AttributionRow(_one_role(row.row), row.advantage) for row in rows]
        if name == "masked_sft":
            continue  # reads the roles itself
        whole = attribute(policy, everything, {name: OBJECTIVES[name]}, anchor=anchor, old=anchor, batch_size=16)
        expected = whole.vectors[name, "response"]
        total = found.vectors[name, "sample"] + found.vectors[name, "decision"]
        assert float((total - expected).norm()) <= 1e-6 * float(expected.norm()) + 1e-12, name
        shares = [row.share for row in found.rows if row.objective == name]
        assert sum(shares) == pytest.approx(1)


def _one_role(row):
    roles = [int(Role.RESPONSE) if role != Role.PROMPT else 0 for role in row.roles]
    return TokenRow(row.ids, roles, row.positions)


def test_a_role_alone_is_the_loss_on_its_tokens(setting):
    """sft of one row by hand: the mean over all targets of -log p of the decision tokens."""
    _, rows, policy, _ = setting
    row = rows[0]
    found = attribute(policy, [row], {"sft": OBJECTIVES["sft"]})
    ids = torch.tensor([row.row.ids])
    logp = policy(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None]).squeeze(1)
    decisions = torch.tensor(row.row.roles[1:]) == Role.DECISION
    loss = -logp[decisions].sum() / row.row.num_targets
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, trained_parameters(policy))])
    assert torch.allclose(found.vectors["sft", "decision"], gradient, atol=1e-12)


def test_ratio_one_is_the_plain_reward_and_clipping_takes_tokens_away(setting):
    _, rows, policy, anchor = setting
    some = {name: OBJECTIVES[name] for name in ("reward", "ratio", "ratio_clipped")}
    on_policy = attribute(policy, rows, some)
    for role in ("sample", "decision"):
        assert torch.allclose(on_policy.vectors["reward", role], on_policy.vectors["ratio", role], atol=1e-12)
        assert torch.allclose(on_policy.vectors["ratio", role], on_policy.vectors["ratio_clipped", role], atol=1e-12)
    off = attribute(policy, rows, some, old=anchor)
    assert off.ratio("ratio_clipped") != pytest.approx(off.ratio("ratio"), rel=1e-3)


def test_sketch_keeps_norms_and_cosines(setting):
    _, rows, policy, _ = setting
    whole = attribute(policy, rows, {"sft": OBJECTIVES["sft"]})
    sketched = attribute(policy, rows, {"sft": OBJECTIVES["sft"]}, sketch=2**14)
    for exact, rough in zip(whole.rows, sketched.rows, strict=True):
        assert rough.norm == pytest.approx(exact.norm, rel=0.1)
        assert rough.cosine == pytest.approx(exact.cosine, abs=0.05)
    assert Keeper([torch.zeros(5)], sketch=3).keep([None]).shape == (3,)


def test_a_sketch_of_gradients_that_share_nothing_says_so():
    """Without the random signs, 1,000 positive numbers against 1,000 others would meet in 64 places: 15,600 instead of 0."""
    keeper = Keeper([torch.zeros(2000)], sketch=64)
    one, other = (keeper.keep([half]) for half in (torch.arange(2000) < 1000, torch.arange(2000) >= 1000))
    assert abs(float(one @ other)) < 4 * 1000 / 8  # |a| |b| / sqrt(K)


def test_return_to_go():
    values, row = torch.tensor([1.0, 2.0, 3.0, 10.0, 20.0]), torch.tensor([0, 0, 0, 4, 4])
    assert to_go(values, row).tolist() == [6.0, 5.0, 3.0, 30.0, 20.0]


def test_growth_law_is_found():
    law = fit_growth("x", {float(n): 3.0 * n**2 for n in (2, 3, 5, 8)})
    assert law.exponent == pytest.approx(2)
    assert law.fit.low == pytest.approx(2)
    assert fit_growth("x", {3.0: 1.0}) is None


def test_the_interval_of_a_growth_law_is_the_regressions():
    ratios = {2.0: 1.1, 3.0: 2.0, 5.0: 7.5, 8.0: 14.0}
    law = fit_growth("x", ratios)
    line = linregress(*(np.log(list(each)) for each in (ratios, ratios.values())))
    half = student.ppf(0.975, 2) * line.stderr
    assert (law.exponent, law.fit.low, law.fit.high) == pytest.approx(
        (line.slope, line.slope - half, line.slope + half)
    )


def test_rows_by_length(setting):
    _, rows, _, _ = setting
    assert sorted(by_length(rows)) == [2.0, 3.0]


def test_objectives_by_name():
    assert "csft" not in find_objectives(None, has_anchor=False)
    with pytest.raises(InputError, match="did you mean 'kl_loss_k1'"):
        find_objectives(["kl_loss_k4"], has_anchor=True)
    with pytest.raises(InputError, match="needs anchor="):
        find_objectives(["csft"], has_anchor=False)


# --- what the estimators' gradients are on average, by enumeration ---------------------------------------------------

STOP, LENGTH, VOCABULARY = 3, 2, 4
"""A world of four tokens in which a response ends with token 3 or after two tokens: 13 responses in all."""


def every_response():
    for length in range(1, LENGTH + 1):
        for body in itertools.product(range(STOP), repeat=length - 1):
            yield [*body, STOP]
    yield from (list(body) for body in itertools.product(range(STOP), repeat=LENGTH))


def enumerated(policy, anchor, name):
    """E[gradient of the sum over tokens of an objective], over all responses of the policy."""
    total = None
    for ids in every_response():
        row = TokenRow([0, *ids], [0] + [int(Role.RESPONSE)] * len(ids), list(range(len(ids) + 1)))
        chance = math.exp(log_chance(policy, ids).item())
        found = attribute(
            policy, [AttributionRow(row, {"outcome": [0.0] * len(ids)})], {name: OBJECTIVES[name]}, anchor=anchor
        )
        part = found.vectors[name, "response"] * len(ids) * chance
        total = part if total is None else total + part
    return total


def log_chance(policy, ids):
    logits = policy(torch.tensor([[0, *ids]])).logits[0, :-1].log_softmax(-1)
    return logits.gather(1, torch.tensor(ids)[:, None]).sum()


def exact_kl(policy, anchor, *, forward, through_visits):
    """Sum over prefixes of their chance times the KL there; the chance is a constant unless ``through_visits``."""
    total = torch.zeros((), dtype=torch.float64)
    for length in range(LENGTH):
        for prefix in itertools.product(range(STOP), repeat=length):
            chance = log_chance(policy, list(prefix)).exp() if prefix else torch.ones((), dtype=torch.float64)
            chance = chance if through_visits else chance.detach()
            p, q = (m(torch.tensor([[0, *prefix]])).logits[0, -1].log_softmax(-1) for m in (policy, anchor))
            kl = (p.exp() * (p - q)).sum() if forward else (q.exp() * (q - p)).sum()
            total = total + chance * kl
    return total


@pytest.mark.parametrize(
    ("name", "forward", "through_visits"),
    [("kl_loss_k2", True, False), ("kl_loss_k3", False, False), ("kl_reward", True, True)],
)
def test_expected_gradients_are_those_stated(name, forward, through_visits):
    policy, anchor = model(VOCABULARY, 5, hidden=8), model(VOCABULARY, 6, hidden=8).requires_grad_(False)
    kl = exact_kl(policy, anchor, forward=forward, through_visits=through_visits)
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(kl, trained_parameters(policy))])
    assert torch.allclose(enumerated(policy, anchor, name), gradient, atol=1e-8)


def test_k1_in_the_loss_has_no_gradient_on_average():
    policy, anchor = model(VOCABULARY, 5, hidden=8), model(VOCABULARY, 6, hidden=8).requires_grad_(False)
    assert float(enumerated(policy, anchor, "kl_loss_k1").norm()) < 1e-6  # Llama's norms compute in float32


def test_page_shows_both_parts_and_their_ratio(setting):
    _, rows, policy, _ = setting
    found = attribute(policy, rows, {"sft": OBJECTIVES["sft"]})
    law = fit_growth("sft", {2.0: 1.0, 3.0: 2.25, 4.0: 4.0})
    report = {"responses": len(rows), "rows": found.table(), "cost": found.cost, "growth": [law.row()]}
    text = page(report, "holdfast diagnose attribution x.jsonl")
    assert f"| {found.ratio('sft'):.2f} |" in text
    assert "| 2.0 [2.0, 2.0] |" in text
    assert "`holdfast diagnose attribution x.jsonl`; 16 responses" in text
