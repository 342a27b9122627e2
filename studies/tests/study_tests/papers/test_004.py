"""Studies of [004]: the small world against hand-worked cases, and verdicts that follow their figures."""

import copy
import json

import pytest
import torch

from holdfast.config import InputError
from holdfast_studies.papers import (
    appendix_c_004,
    cited_004,
    clipping_004,
    figure_1_004,
    figure_3_004,
    formula_004,
    identities_004,
    table_1_004,
    table_2_004,
    table_5_004,
    theorem_3_1_004,
    theorem_3_2_004,
    theorem_d_004,
)
from holdfast_studies.papers.decision_runs import fault, read_runs
from holdfast_studies.papers.token_world import RESAMPLE, TokenWorld, attempt_ends, attempt_of, given_so_far


def verdict(study, claim, figures):
    return next(each for each in study.claims if each.id == claim).judge(figures).verdict


# --- the world ------------------------------------------------------------------------------------------------------


def test_every_response_is_listed_once_and_chances_add_up():
    world = TokenWorld(length=2, max_attempts=3)
    assert len(world.responses) == 4 + 4**2 + 4**3
    assert float(world.response_logps(world.logps(world.policy(0))).exp().sum()) == pytest.approx(1)
    one = next(each for each in world.responses if each.attempts == ((1, 0), (0, 0)))
    assert [act.decides for act in one.acts] == [False, False, True, False, False, True]
    assert one.acts[2].action == RESAMPLE
    assert one.right
    assert attempt_of(one) == [0, 0, 0, 1, 1, 1]
    assert attempt_ends(one) == [1, 1, 2, 4, 4, 5]


def test_expectations_given_so_far():
    """After everything is written the value is known; before anything but the first token it is a mean."""
    world = TokenWorld(length=1, max_attempts=1)
    chances = world.response_logps(world.logps(world.policy(0))).exp()
    values = [[float(number)] for number in range(len(world.responses))]
    assert given_so_far(world, chances, values) == values
    deeper = TokenWorld(length=2, max_attempts=1)
    chances = deeper.response_logps(deeper.logps(deeper.policy(0))).exp()
    found = given_so_far(deeper, chances, [[float(each.right)] * 2 for each in deeper.responses])
    zero_first = chances[0] / (chances[0] + chances[1])  # texts come in order: 00, 01, 10, 11
    assert found[0] == [pytest.approx(float(zero_first)), 1.0]
    assert found[2] == [0.0, 0.0]


def test_a_head_moves_its_own_policy_only():
    world = TokenWorld()
    theta = world.policy(0)
    moved = theta.clone()
    moved[world.token_head] += 1
    due = torch.tensor([decides for _, _, decides in world.contexts])
    change = (world.logps(moved) - world.logps(theta)).abs().sum(1)
    assert float(change[due].max()) == 0
    assert float(change[~due].max()) > 0


# --- exact studies --------------------------------------------------------------------------------------------------


def test_identities():
    figures = {**identities_004.errors(TokenWorld(length=1, max_attempts=2)), "worlds": 1}
    for claim in ("lemma-1", "corollary-1", "lemma-3", "lemma-4"):
        assert verdict(identities_004.STUDY, f"004-{claim}", figures) == "holds"
    assert verdict(identities_004.STUDY, "004-lemma-2", figures) == "holds in part"
    assert verdict(identities_004.STUDY, "004-lemma-2", {**figures, "lemma_2_discounted": 0.0}) == "holds"
    assert verdict(identities_004.STUDY, "004-lemma-2", {**figures, "lemma_2": 0.1}) == "does not hold"
    assert verdict(identities_004.STUDY, "004-equation-24", figures) == "does not hold"
    assert verdict(identities_004.STUDY, "004-lemma-1", {**figures, "lemma_1": 1e-3}) == "does not hold"


def test_theorem_3_1():
    world = TokenWorld(length=1, max_attempts=2)
    assert theorem_3_1_004.equation_9_error(world, 1.0) < 1e-12
    assert theorem_3_1_004.equation_9_error(world, 0.9) > 1e-3
    assert theorem_3_1_004.exponent_ratio(world, 0.9) == pytest.approx(0.9)  # one token too many
    assert theorem_3_1_004.sft_weights(world) == pytest.approx([1, 1])
    figures = {
        "errors": {"1.0": 0.0, "0.99": 0.1, "0.9": 0.2},
        "exponent_ratio": [0.9],
        "open": [0.5],
        "ratios": {"reward": [1.0, 1.5], "sft": [1.0, 1.5]},
        "exponents": {"reward": 0.5, "sft": 0.5},
        "weights": {"sft": [1.0, 1.0]},
    }
    study = theorem_3_1_004.STUDY
    assert verdict(study, "004-theorem-3-1-weights", figures) == "holds in part"
    assert verdict(study, "004-theorem-3-1-exponent", figures | {"exponent_ratio": [1.0]}) == "holds"
    assert verdict(study, "004-theorem-3-1-q-values", figures | {"open": [0.01]}) == "holds"
    assert verdict(study, "004-balanced", figures) == "holds"
    assert verdict(study, "004-balanced", figures | {"ratios": {"reward": [1.0, 5.0]}}) == "holds in part"
    assert verdict(study, "004-sft-unbalanced", figures) == "does not hold"
    assert verdict(study, "004-sft-unbalanced", figures | {"weights": {"sft": [2.0, 1.0]}}) == "holds"


def test_theorem_3_2():
    assert max(theorem_3_2_004.recursion_errors(TokenWorld(length=1))) < 1e-12
    assert theorem_3_2_004.scale_ratio(1, 0.1) == pytest.approx(1)
    assert theorem_3_2_004.gradient_ratio("k3 in the loss", 200) == pytest.approx(
        2 * theorem_3_2_004.gradient_ratio("k3 in the loss", 100)
    )
    figures = {"recursion_error": 0.0, "value_error": 0.0, "scale_exponents": {"0.1": 0.5}}
    study = theorem_3_2_004.STUDY
    assert verdict(study, "004-theorem-3-2-impossibility", figures) == "does not hold"
    assert verdict(study, "004-footnote-11", figures) == "holds"
    assert verdict(study, "004-theorem-3-2-impossibility", figures | {"value_error": 0.1}) == "holds"
    assert verdict(study, "004-footnote-11", figures | {"value_error": 0.1}) == "does not hold"
    assert verdict(study, "004-theorem-3-2-scale", figures) == "holds in part"
    assert verdict(study, "004-theorem-3-2-scale", figures | {"scale_exponents": {"0.1": 1.0}}) == "holds"
    growth = {"k1 in the reward": 0.2, "k3 in the loss": 1.0}
    assert verdict(study, "004-footnote-10", {"gradient_exponents": growth}) == "does not hold"
    assert verdict(study, "004-footnote-10", {"gradient_exponents": growth | {"k1 in the reward": 1.0}}) == "holds"


def test_appendix_d():
    """By hand: probabilities .5, .25, .2 give eq. 17's 4 + 5, 5 and 0."""
    assert theorem_d_004.equation_17([0.5, 0.25, 0.2]) == [9, 5, 0]
    found = theorem_d_004.measure(TokenWorld(length=1, max_attempts=2))
    figures = {name: [value] for name, value in found._asdict().items()}
    study = theorem_d_004.STUDY
    for claim in ("theorem-d-1", "corollary-2", "theorem-d-2", "theorem-d-2-independent", "equation-33"):
        assert verdict(study, f"004-{claim}", figures) == "does not hold"
    assert verdict(study, "004-theorem-d-1", figures | {"sft_error": [0.0]}) == "holds"
    assert verdict(study, "004-corollary-2", figures | {"constant_error": [0.1]}) == "holds"
    assert verdict(study, "004-equation-33", figures | {"decision_over_sampling": [3.0]}) == "holds"


def test_table_5():
    no, yes = {"sft": 0.0, "dft": 0.0, "rl": 0.0}, {"sft": 1.0, "dft": 0.0, "rl": 0.0}
    figures = {"changes": {"decisions": yes, "tokens": no, "lengths": no}, "rl_lengths_discounted": 0.1}
    study = table_5_004.STUDY
    assert verdict(study, "004-table-5-decisions", figures) == "holds"
    assert verdict(study, "004-table-5-sampling", figures) == "holds in part"
    world = TokenWorld(length=1, max_attempts=3)
    weights = table_5_004.weights(world, world.policy(0), "rl")
    assert table_5_004.spread_over_futures(world, weights) == pytest.approx(0)
    assert table_5_004.spread_over_futures(world, table_5_004.discounted_returns(world, 0.5)) == pytest.approx(1 / 8)


def test_clipping():
    still = clipping_004.measure(TokenWorld(length=1, max_attempts=2), 1e-6)
    assert still["tokens"] == still["decisions"] == 0
    assert still["change"] == pytest.approx(0)
    far = clipping_004.measure(TokenWorld(length=1, max_attempts=2), 0.5)
    assert far["tokens"] > 0
    quiet = {"tokens": [0.1, 0.1], "decisions": [0.1, 0.1], "change": [0.0, 0.0], "change_whole": [0.0, 0.0]}
    figures = {str(step): copy.deepcopy(quiet) for step in clipping_004.STEPS}
    assert verdict(clipping_004.STUDY, "004-clipping-preserves", figures) == "holds"
    assert verdict(clipping_004.STUDY, "004-clipping-symmetric", figures) == "holds"
    figures["0.5"]["change"] = [0.0, 1.0]
    figures["0.5"]["decisions"] = [0.3, 0.3]
    assert verdict(clipping_004.STUDY, "004-clipping-preserves", figures) == "holds in part"
    assert verdict(clipping_004.STUDY, "004-clipping-symmetric", figures) == "does not hold"


def test_clipping_is_uneven_only_beyond_chance():
    def figures(tokens, decisions):
        return {str(step): {"tokens": tokens, "decisions": decisions} for step in clipping_004.STEPS}

    assert clipping_004.symmetric(figures([0.2, 0.3], [0.2, 0.3])).verdict == "holds"
    assert clipping_004.symmetric(figures([0.0, 0.5, 0.1], [0.4, 0.0, 0.5])).verdict == "holds in part"
    assert clipping_004.symmetric(figures([0.1, 0.11, 0.12], [0.4, 0.42, 0.41])).verdict == "does not hold"


def test_figure_3():
    assert figure_3_004.minima([3, 1, 2, 1, 4]) == 2
    figures = figure_3_004.run("cpu", lambda _: None)
    study = figure_3_004.STUDY
    assert verdict(study, "004-footnote-16", figures) == "holds"
    assert verdict(study, "004-footnote-16", figures | {"no_updates": {"minima": 3}}) == "does not hold"
    assert verdict(study, "004-footnote-12", figures) == "holds"
    assert verdict(study, "004-footnote-12", figures | {"negative_push_on_dC": -0.1}) == "does not hold"
    small = copy.deepcopy(figures)
    small["reward"]["drag_ratio_min"] = 0.5
    assert verdict(study, "004-figure-3-drag", figures) == "holds"
    assert verdict(study, "004-figure-3-drag", small) == "holds in part"


def test_the_formula_is_judged_with_first_attempts():
    """Attempts that tire are told apart, decisions that tire are not; pooled p_s would tell nothing apart."""
    made = {kind: formula_004.formula_errors(formula_004.responses(3, kind)) for kind in formula_004.KINDS}
    assert all(abs(pooled) < 1e-9 for pooled, _ in made.values()), "an identity"
    assert abs(made["attempts"][1]) > 0.05 > 0.02 > max(abs(made["kept"][1]), abs(made["decisions"][1]))
    claim = "004-formula-validates"

    def figures(**errors):
        rows = {kind: [(0.0, errors.get(kind, 0.001))] * 20 for kind in formula_004.KINDS}
        return {"errors": rows, "coverage": [0.95] * 4, "low_end": 0.0}

    assert verdict(formula_004.STUDY, claim, figures(attempts=0.1)) == "holds in part"
    assert verdict(formula_004.STUDY, claim, figures(attempts=0.1, decisions=0.1)) == "holds"
    assert verdict(formula_004.STUDY, claim, figures()) == "does not hold"
    assert verdict(formula_004.STUDY, claim, figures(kept=0.2, attempts=0.3)) == "not testable here", (
        "too noisy to tell"
    )
    assert verdict(formula_004.STUDY, "004-table-1-intervals", figures()) == "holds"


def test_appendix_c():
    exact, study = appendix_c_004.run("cpu", lambda _: None), appendix_c_004.STUDY
    assert verdict(study, "004-appendix-c-length", exact) == "holds in part"
    tokens = exact | {"token_by_token": {"s": -1.0, "dC": 0.1, "dW": 0.1}}
    assert verdict(study, "004-appendix-c-length", tokens) == "holds", "the example shows it in every reading"
    assert verdict(study, "004-appendix-c-length", tokens | {"expected_8": exact["expected_1"]}) == "does not hold"
    assert verdict(study, "004-appendix-c-stable", exact) == "does not hold"
    held = [row | {"exact": 0.001} if row["name"] == "net s" else row for row in exact["table"]]
    assert verdict(study, "004-appendix-c-stable", exact | {"table": held}) == "holds"


# --- studies that read the arithmetic runs --------------------------------------------------------------------------


def cell(model, size, accuracy, p_s, p_dc, p_dw, *, echo=0.1, later=0.1, error=0.01):
    def known(value):
        return {"value": value} if value is None else {"value": value, "low": value - 0.05, "high": value + 0.05}

    rates = {"observed": accuracy, "observed_stopped": accuracy, "p_s": p_s, "p_dC": p_dc, "p_dW": p_dw}
    rates |= {"echo": echo, "wrong_to_right": later}
    by_seed = [accuracy - 0.01, accuracy, accuracy + 0.01]
    return {
        "model": model,
        "size": size,
        "accuracy_by_seed": by_seed,
        "held_out_error": error,
        **{name: known(value) for name, value in rates.items()},
    }


@pytest.fixture
def runs(tmp_path):
    """RL keeps what SFT loses at the harder of two sizes."""
    cells = [
        cell("base", "4x1", 0.6, 0.6, 0.95, 0.3),
        cell("base", "9x1", 0.3, 0.3, 0.95, 0.3),
        cell("grpo", "4x1", 0.9, 0.7, 0.97, 0.9),
        cell("grpo", "9x1", 0.8, 0.5, 0.95, 0.8),
        cell("sft_reflection", "4x1", 0.92, 0.66, 0.99, 0.85, echo=0.3),
        cell("sft_reflection", "9x1", 0.2, 0.2, 0.95, 0.05, echo=0.6),
        cell("sft_plain", "4x1", 0.8, 0.8, 1.0, 0.0),
        cell("sft_plain", "9x1", 0.1, 0.1, 1.0, 0.0),
        cell("dft_reflection", "4x1", 0.9, 0.7, 1.0, 0.6),
        cell("dft_reflection", "9x1", 0.4, 0.3, 0.9, 0.5),
    ]
    (tmp_path / "micro.json").write_text(json.dumps({"kind": "decisions", "cells": cells}))
    return read_runs("micro", "h200", folder=tmp_path)


def changed(figures, model, size, **values):
    other = copy.deepcopy(figures)
    row = other["micro"]["models"][model][size]
    for name, value in values.items():
        row[name] = value if name == "by_seed" or value is None else [value, value, value]
    return other


def test_runs_that_are_not_there(tmp_path):
    with pytest.raises(InputError, match="make it with `holdfast diagnose decisions"):
        read_runs("micro", folder=tmp_path)


def test_table_1(runs):
    study = table_1_004.STUDY
    assert fault(runs["micro"]) is None
    assert verdict(study, "004-table-1-far", runs) == "holds"
    assert verdict(study, "004-table-1-far", changed(runs, "sft_reflection", "9x1", observed=0.5)) == "does not hold"
    assert verdict(study, "004-table-1-near", runs) == "holds"
    assert verdict(study, "004-table-1-near", changed(runs, "grpo", "4x1", observed=0.7)) == "does not hold"
    assert verdict(study, "004-table-1-reflection", runs) == "holds in part"
    assert verdict(study, "004-table-1-decisions", runs) == "holds"
    assert verdict(study, "004-table-1-decisions", changed(runs, "grpo", "9x1", p_dW=0.05, p_s=0.9)) == "does not hold"
    vague = copy.deepcopy(runs)
    for size in ("4x1", "9x1"):
        vague["micro"]["models"]["sft_reflection"][size]["p_dC"] = [0.0, 0.0, 0.8]
    assert verdict(study, "004-table-1-decisions", vague) == "not testable here"
    easy = copy.deepcopy(runs)
    easy["micro"]["models"]["sft_reflection"]["9x1"]["p_dC"] = None
    assert verdict(study, "004-table-1-decisions", easy) == "not testable here", (
        "4x1 was trained on: the claim is not made there"
    )
    assert verdict(study, "004-table-1-decisions", {**easy, "sweep": runs["micro"]}) == "holds", "gentler SFT can say"
    assert verdict(study, "004-table-1-decisions-over-base", runs) == "holds"
    better = changed(runs, "grpo", "9x1", p_s=0.9, p_dC=0.95, p_dW=0.3)
    assert verdict(study, "004-table-1-decisions-over-base", better) == "does not hold"
    assert verdict(study, "004-table-1-sampling", runs) == "holds"
    assert verdict(study, "004-table-1-sampling", changed(runs, "grpo", "9x1", p_dW=0.1)) == "does not hold"


@pytest.mark.parametrize(
    ("model", "size", "accuracy", "says"),
    [
        ("sft_reflection", "4x1", 0.3, "sft_reflection did not learn its training size (30% at 4x1)"),
        ("grpo", "4x1", 0.4, "RL is below its base model at its training size (40% against 60% at 4x1)"),
    ],
)
def test_a_study_at_fault_is_left_out(runs, model, size, accuracy, says):
    broken = changed(runs, model, size, observed=accuracy)
    assert fault(broken["micro"]) == says
    for study in (table_1_004.STUDY, figure_1_004.STUDY, cited_004.STUDY):
        for claim in study.claims:
            if claim.id != "004-figure-1-exclusion":
                found = claim.judge(broken)
                assert found.verdict == "not testable here", claim.id
                assert found.found.startswith("needed: ")
    both = {"broken": broken["micro"], **runs}
    found = next(claim for claim in table_1_004.STUDY.claims if claim.id == "004-table-1-far").judge(both)
    assert (found.verdict, found.found.partition(";")[0]) == ("holds", f"broken is left out: {says}")


def test_training_sizes_that_were_not_evaluated_are_a_fault(runs):
    other = copy.deepcopy(runs["micro"]) | {"trained": ["4x5", "5x4"]}
    assert str(fault(other)).startswith("its training sizes 4x5, 5x4 were not evaluated")


def test_figure_1(runs):
    study = figure_1_004.STUDY
    for claim in ("rl-sampling", "rl-decisions", "sft", "gap", "prediction", "echo", "exclusion"):
        assert verdict(study, f"004-figure-1-{claim}", runs) == "holds"
    assert verdict(study, "004-figure-1-gap", changed(runs, "sft_reflection", "9x1", p_dW=0.7)) == "does not hold"
    assert verdict(study, "004-figure-1-sft", changed(runs, "sft_reflection", "9x1", p_dW=0.7)) == "holds in part"
    unknown = copy.deepcopy(runs)
    unknown["micro"]["models"]["sft_reflection"]["9x1"] |= {"p_dC": None, "p_dW": [0.5, 0.4, 0.6]}
    assert verdict(study, "004-figure-1-sft", unknown) == "does not hold", "an unknown p_dC is not 'high'"
    still = copy.deepcopy(runs)
    for size in ("4x1", "9x1"):
        still["micro"]["models"]["grpo"][size]["p_dW"] = [0.02, 0.0, 0.04]
    assert verdict(study, "004-figure-1-prediction", still) == "not testable here", "without resampling it is p_s"
    assert verdict(study, "004-figure-1-rl-decisions", changed(runs, "grpo", "9x1", p_dW=0.2)) == "does not hold"
    assert verdict(study, "004-figure-1-echo", changed(runs, "grpo", "9x1", echo=0.9)) == "does not hold"
    assert (
        verdict(study, "004-figure-1-exclusion", changed(runs, "base", "9x1", observed_stopped=0.5)) == "does not hold"
    )


def test_cited_claims(runs):
    study = cited_004.STUDY
    assert verdict(study, "004-cited-out-of-distribution", runs) == "holds"
    better = changed(runs, "sft_plain", "9x1", by_seed=[0.9, 0.9, 0.9])
    assert verdict(study, "004-cited-out-of-distribution", better) == "holds in part"
    assert verdict(study, "004-cited-dft", runs) == "holds"
    assert verdict(study, "004-cited-structure", runs) == "not testable here"
    swept = {**runs, "sweep": runs["micro"]}
    assert verdict(study, "004-cited-structure", swept) == "not testable here", "other settings are no control"
    own = copy.deepcopy(runs)
    own["micro"]["models"]["sft_own"] = own["micro"]["models"]["base"]
    assert verdict(study, "004-cited-structure", own) == "holds"
    own["micro"]["models"]["sft_own"] = own["micro"]["models"]["grpo"]
    assert verdict(study, "004-cited-structure", own) == "does not hold"
    floor = copy.deepcopy(runs)
    for model in ("dft_reflection", "sft_reflection"):
        floor["micro"]["models"][model]["9x1"] |= {"observed": [0.0, 0.0, 0.01], "by_seed": [0.0, 0.0, 0.0]}
    found = next(claim for claim in study.claims if claim.id == "004-cited-dft").judge(floor)
    assert found.verdict == "does not hold", "below the base model"
    assert "both at the floor" in found.found


def test_table_2(tmp_path):
    shares = {"corrective_0": (0.8, 0.0), "corrective_50": (0.6, 0.3), "corrective_100": (0.3, 0.5)}
    cells = [cell(model, "4x1", p_s + 0.1, p_s, 0.9, 0.5, later=later) for model, (p_s, later) in shares.items()]
    (tmp_path / "corrective.json").write_text(json.dumps({"kind": "decisions", "cells": cells}))
    figures = read_runs("corrective", folder=tmp_path)
    assert verdict(table_2_004.STUDY, "004-table-2-flat", figures) == "does not hold"
    assert verdict(table_2_004.STUDY, "004-table-2-first-answers", figures) == "does not hold"
    for model in shares:
        figures["corrective"]["models"][model]["4x1"]["wrong_to_right"] = [0.05, 0.0, 0.1]
    assert verdict(table_2_004.STUDY, "004-table-2-flat", figures) == "holds"
    for model in shares:
        figures["corrective"]["models"][model]["4x1"]["wrong_to_right"] = [0.01, 0.0, 0.02]
    assert verdict(table_2_004.STUDY, "004-table-2-flat", figures) == "not testable here", "flat at the floor"
    for model in shares:
        figures["corrective"]["models"][model]["4x1"]["observed"] = [0.0, 0.0, 0.01]
    assert verdict(table_2_004.STUDY, "004-table-2-first-answers", figures) == "not testable here", "nothing is right"
