"""`diagnose drift` (MATH §9): the bound against whole distributions written out, the drift against float64, and the command."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom
from typer.testing import CliRunner

import holdfast as hf
from holdfast.cli import app
from holdfast.cli.diagnose_drift import _print
from holdfast.config import InputError
from holdfast.diagnostics import Drifted, answers_to_see, least_kept
from holdfast.models import load
from holdfast.records import Role
from holdfast.stats import Estimate
from holdfast.tokens import TokenRow
from holdfast.tokens.endings import stop_id
from holdfast.training.collate import NUM_EARLY
from holdfast.training.drift import drift_of_answers, most_lost
from holdfast.worlds import SafetyWorld

WORDS, LENGTH = 3, 5


def markov(generator: np.random.Generator, scale: float) -> np.ndarray:
    """P(next word | position, word before) from random logits: [position, before, next]."""
    logits = scale * generator.normal(size=(LENGTH, WORDS, WORDS))
    return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


def written_out(chain: np.ndarray) -> dict[tuple[int, ...], float]:
    """The probability of each of the 3^5 answers."""
    return {
        words: math.prod(chain[t, words[t - 1] if t else 0, word] for t, word in enumerate(words))
        for words in itertools.product(range(WORDS), repeat=LENGTH)
    }


def drift_by_tokens(anchor: np.ndarray, policy: np.ndarray) -> float:
    """k_early as it is measured: token divergences summed along the anchor's answers, in a mean over how often it gives them."""
    return sum(
        p
        * sum(float((anchor[t, b] * np.log(anchor[t, b] / policy[t, b])).sum()) for t, b in enumerate((0, *words[:-1])))
        for words, p in written_out(anchor).items()
    )


def refused(words: tuple[int, ...]) -> bool:
    return sum(words) % 2 == 0  # decided by all five tokens together


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_holds_for_distributions_written_out(seed: int) -> None:
    """Refusing is any event of five tokens: no policy at that drift refuses less often than ``least_kept`` says."""
    generator = np.random.default_rng(seed)
    anchor, policy = markov(generator, 1.0), markov(generator, 1.0)
    shares = [sum(p for words, p in written_out(chain).items() if refused(words)) for chain in (anchor, policy)]
    k = drift_by_tokens(anchor, policy)
    q = written_out(policy)
    of_answers = sum(p * math.log(p / q[words]) for words, p in written_out(anchor).items())
    assert k == pytest.approx(of_answers, abs=1e-12)  # the chain rule
    assert shares[1] >= least_kept(shares[0], k)
    assert least_kept(1.0, k) == pytest.approx(1 - most_lost(k), abs=1e-12)


@pytest.mark.parametrize(("p", "q"), [(1.0, 0.9), (1.0, 0.2), (0.98, 0.95), (0.6, 0.1)])
def test_the_bound_is_met_by_a_policy_that_moves_the_refusal_alone(p: float, q: float) -> None:
    """Anchor: the first word refuses with p. Policy: with q, and all else alike. It loses just what its drift allows."""
    k = p * math.log(p / q) + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0)
    assert least_kept(p, k) == pytest.approx(q, abs=1e-9)
    if p == 1:
        assert most_lost(k) == pytest.approx(1 - q, abs=1e-12)


def test_answers_to_see() -> None:
    """Where the anchor loses nothing: exp(-0.03 n) <= 0.05 from n = 100 on. Else by the binomial distribution."""
    assert answers_to_see(most_lost(0.03)) == 100
    num, share = answers_to_see(0.1, 0.02), 0.02 + 0.98 * 0.1
    enough = next(count for count in range(num) if binom.sf(count - 1, num, 0.02) <= 0.05)
    assert binom.sf(enough - 1, num, share) >= 0.95
    assert answers_to_see(0.1) < num < answers_to_see(0.1, 0.05)
    assert answers_to_see(1e-9, 0.5) == 10**6


def test_the_drift_of_answers_is_that_of_float64(small_model: Path) -> None:
    anchor, policy = hf.load(str(small_model)), hf.load(str(small_model))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weights in policy.model.parameters():
            weights += 0.02 * torch.randn(weights.shape, generator=generator)
    rows = []
    for length in (3, 12, 5, 7):
        ids = torch.randint(5, 50, (length + 4,), generator=generator).tolist()
        roles = [Role.PROMPT] * 4 + [Role.RESPONSE] * length
        rows.append(TokenRow(ids, roles, list(range(len(ids)))))
    drifts = drift_of_answers(policy, anchor, rows, batch_size=3)
    for row, drift in zip(rows, drifts, strict=True):
        with torch.no_grad():
            q, p = (
                loaded.model(torch.tensor([row.ids])).logits[0, 3:-1].double().log_softmax(-1)
                for loaded in (anchor, policy)
            )
        per_token = (q.exp() * (q - p)).sum(-1)
        assert per_token.sum() > 0.01
        assert drift.early == pytest.approx(float(per_token[:NUM_EARLY].sum()), rel=1e-4)
        assert drift.late == pytest.approx(float(per_token[NUM_EARLY:].sum()), rel=1e-4)
        assert drift.num_late == max(0, len(per_token) - NUM_EARLY)


@pytest.fixture(scope="module")
def forgotten() -> Drifted:
    """The model before it was aligned, held against the aligned one: it refuses nothing."""
    return hf.drift("tiny:base", anchor="tiny:aligned", limit=6, samples=1)


def test_a_model_that_refuses_nothing(forgotten: Drifted) -> None:
    sure = forgotten.sure[0]
    assert (sure.outcome, sure.num_prompts) == ("refused", 6)
    assert sure.lost.value == 1.0
    assert sure.became["complied"] + sure.became["missed"] == 1.0
    assert sure.own.value == 0
    assert sure.most_lost.value == pytest.approx(1 - math.exp(-sure.early.value))
    unsure = replace(sure, own=Estimate(0.02, 0.01, 0.03), early=Estimate(0.0, 0.0, 0.0))
    assert unsure.most_lost.value == pytest.approx(0.02), "without any drift it loses what the anchor itself loses"
    assert sure.most_lost.high > 0.99
    assert forgotten.whole.value >= forgotten.early.value > 3


def test_a_model_against_itself_has_not_drifted() -> None:
    drifted = hf.drift("tiny:aligned", anchor="tiny:aligned", prompts="keep", limit=6, samples=1)
    assert abs(drifted.early.value) < 1e-5
    for sure in drifted.sure:
        assert sure.lost == sure.own, "the same seeds draw the same answers"
    assert {sure.outcome for sure in drifted.sure} == {"complied"}


def test_an_anchor_that_says_nothing_to_some_prompts(capsys: pytest.CaptureFixture[str]) -> None:
    """Its answers to one of the prompts end at once: they have no tokens to measure on, and an outcome, *missed*."""
    anchor = load("tiny:aligned")
    stop, stone = stop_id(anchor.tokenizer), anchor.tokenizer.convert_tokens_to_ids("stone")
    says = anchor.model.forward

    def forward(**inputs: Any) -> Any:
        output = says(**inputs)
        if output.logits.shape[-1] > 1:  # not where only the loss is taken
            output.logits[(inputs["input_ids"] == stone).any(1), :, stop] = 1e4
        return output

    anchor.model.forward = forward  # type: ignore[method-assign]
    drifted = hf.drift("tiny:base", anchor=anchor, prompts=["copy : sun river", "copy : stone"], samples=1)
    missed, complied = drifted.sure
    assert (complied.outcome, missed.outcome) == ("complied", "missed")
    assert complied.early is not None
    assert missed.early is missed.most_lost is None
    assert missed.lost is not None
    assert "surely missed: 1 prompts, measured" in repr(drifted)
    _print(drifted)
    assert "missed" in capsys.readouterr().out
    with pytest.raises(InputError, match="answered none of these prompts with a word"):
        hf.drift("tiny:base", anchor=anchor, prompts=["copy : stone"], samples=1)


def test_one_model_shows_what_budgets_mean(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    asked = [row.turns[0].visible for row in SafetyWorld().requests("train", "forbidden", 6)]
    prompts.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in asked), encoding="utf-8")
    arguments = ["diagnose", "drift", "tiny:aligned", "--prompts", str(prompts), "--all", "--samples", "1"]
    result = CliRunner().invoke(app, [*arguments, "--json", str(tmp_path / "drift.json")])
    assert result.exit_code == 0, result.output
    assert "refuses, at least" in result.stdout
    row = json.loads((tmp_path / "drift.json").read_text(encoding="utf-8"))
    assert (row["num_prompts"], row["early"], row["judge"]) == (6, None, "world")
    by_size = {budget["early"]: budget for budget in row["budgets"]}
    assert by_size[0.03]["most_lost"] == pytest.approx(0.029554, abs=1e-6)
    assert by_size[0.03]["least_refused"] <= row["refused"]["value"]


def test_what_cannot_be_measured() -> None:
    with pytest.raises(InputError, match="no such file"):
        hf.drift("tiny:aligned", prompts="saftey")
    with pytest.raises(InputError, match="says no outcome"):
        hf.drift("tiny:aligned", judge="refusal_phrases", limit=1)
    with pytest.raises(InputError, match="at least one prompt"):
        hf.drift("tiny:aligned", prompts=[])
