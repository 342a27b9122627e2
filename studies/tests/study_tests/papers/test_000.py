"""[000]: what the studies of the Safety Gap theorem compute, and that their verdicts follow the figures."""

import json
import math
from copy import deepcopy
from pathlib import Path

import pytest
import torch

from holdfast.records import Role
from holdfast.tokens import tokenize_all
from holdfast_studies.papers import divergence_000, linear_000, smollm2_000, theorem_000
from holdfast_studies.papers.backtracking import cosine, embedded, flat_gradient, in_float64, parameters_of
from holdfast_studies.papers.study import Figures, Study
from holdfast_studies.undo.safety_gap_identity import norms_in_double, statistics_of
from holdfast_studies.undo.safety_gap_task import GapTask


def verdicts(study: Study, figures: Figures) -> dict[str, str]:
    return {claim.id: claim.judge(figures).verdict for claim in study.claims}


@pytest.fixture(scope="module")
def task() -> GapTask:
    return GapTask(embedded("try", num_train=40, num_test=4))


def test_directions_of_the_proof_are_gradients(task: GapTask) -> None:
    """v_error by autograd equals a finite difference along itself; identical directions have cosine 1."""
    loaded = in_float64(task.config.model)
    rows, _ = tokenize_all(task.test_traces(loaded)[:2], loaded.tokenizer)
    parameters = parameters_of(loaded.model)
    with norms_in_double(loaded.model):
        stats, role = statistics_of(loaded.model, rows)
        before = stats.logp[role == Role.ERROR].sum()
        toward = flat_gradient(before, parameters)
        start = torch.cat([weight.detach().flatten() for weight in parameters])
        linear_000._place(parameters, start + 1e-7 * toward / toward.norm())
        stats, role = statistics_of(loaded.model, rows)
        rise = float((stats.logp[role == Role.ERROR].sum() - before).detach()) / 1e-7
    assert rise == pytest.approx(float(toward.norm()), rel=1e-4)
    assert cosine(toward, 3 * toward) == pytest.approx(1)
    assert cosine(toward, -toward) == pytest.approx(-1)


def test_the_identity_is_one_of_sums_not_of_means(task: GapTask) -> None:
    loaded = in_float64(task.config.model)
    traces = task.test_traces(loaded)
    rows, _ = tokenize_all(traces, loaded.tokenizer)
    assert theorem_000.gradient_identity(loaded.model, rows).difference < 1e-12
    assert theorem_000.residue_on_means(loaded, traces, "soft") > 0.1
    found = theorem_000.cosines(loaded, traces, task.test)
    assert all(-1 <= value <= 1 for value in found.values())


@pytest.mark.filterwarnings("ignore:Converting a tensor")
def test_descent_begins_as_the_sketch_says(task: GapTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """After one step the two objectives are apart by exactly eta v_error."""
    monkeypatch.setattr(linear_000, "NUM_STEPS", 1)
    monkeypatch.setattr(linear_000, "EVERY", 1)
    loaded = in_float64(task.config.model)
    rows, _ = tokenize_all(task.training_traces(0, loaded).traces[:4], loaded.tokenizer)
    before = [weight.detach().clone() for weight in parameters_of(loaded.model)]
    with norms_in_double(loaded.model):
        path = linear_000.two_paths(loaded.model, rows)
    assert path["gap"][0][1] < 1e-9
    assert path["sft"][0][1] == path["masked_sft"][0][1] == 0
    assert path["sft"][1][1] - path["masked_sft"][1][1] == pytest.approx(1, rel=1e-9)
    for weight, was in zip(parameters_of(loaded.model), before, strict=True):
        assert torch.equal(weight, was)


THEOREM: Figures = {
    "model": "tiny",
    "contexts": {
        context: {"target": 0.0, "difference": 1e-15, "error_gain": 2.0, "num_parameters": 10, "on_means": 0.7}
        for context in ("soft", "hard")
    },
    "cosines": [{"error_masked": -0.3, "error_correct": -0.5, "printed_trained": 0.1}] * 3,
}


def test_verdicts_of_parts_a_and_b_follow_the_figures() -> None:
    first = verdicts(theorem_000.STUDY, THEOREM)
    assert first == {
        "000-theorem-a": "holds",
        "000-theorem-b": "holds",
        "000-means": "does not hold",
        "000-independence": "does not hold",
        "000-correction-given-prefix": "does not hold",
    }
    other = deepcopy(THEOREM)
    other["contexts"]["hard"] |= {"target": 1e-3, "difference": 1e-3, "on_means": 0.0}
    other["contexts"]["soft"]["on_means"] = 0.0
    other["cosines"] = [{"error_masked": 0.0, "error_correct": 0.0, "printed_trained": 1.0}] * 3
    turned = verdicts(theorem_000.STUDY, other)
    assert all(turned[claim] != first[claim] for claim in first)


def curve(log_p: float, p_wrong: float, p_undo: float, before: float = 0.4) -> dict[str, list[float]]:
    return {"0": [-9.0, 0.01, 0.0, 0.0], "30": [-5.0, before, 0.5, 0.5], "60": [log_p, p_wrong, p_undo, 0.99]}


def test_verdicts_of_part_c_follow_the_figures() -> None:
    figures: Figures = {"rho": [0.5], "readings": list(divergence_000.READINGS), "arms": {}}
    for context in ("soft", "hard"):
        figures["arms"][f"sft, {context}"] = [curve(-2.0, 0.49, 0.9, 0.48), curve(-2.5, 0.48, 0.9, 0.48)]
        figures["arms"][f"masked_sft, {context}"] = [curve(-9.1, 0.01, 0.91), curve(-9.2, 0.01, 0.9)]
    assert verdicts(divergence_000.STUDY, figures) == {
        "000-theorem-c": "holds",
        "000-equal-learning": "holds",
        "000-constant": "holds",
        "000-growth": "does not hold",
    }
    other = deepcopy(figures)
    other["arms"]["masked_sft, hard"] = [curve(-2.2, 0.3, 0.5), curve(-2.2, 0.3, 0.5)]
    other["arms"]["sft, soft"] = [curve(-2.0, 0.9, 0.9, 0.48)] * 2
    assert verdicts(divergence_000.STUDY, other) == {
        "000-theorem-c": "holds in part",
        "000-equal-learning": "holds in part",
        "000-constant": "does not hold",
        "000-growth": "holds",
    }
    unlearned = deepcopy(figures)
    for context in ("soft", "hard"):
        unlearned["arms"][f"masked_sft, {context}"] = [curve(-9.1, 0.01, 0.2)] * 2
    found = verdicts(divergence_000.STUDY, unlearned)
    assert found["000-theorem-c"] == found["000-equal-learning"] == "not testable here", "nothing was learned to undo"


def test_verdicts_of_the_sketch_follow_the_figures() -> None:
    straight = {
        "sft": [[0, 0.0, -9.0], [100, 100.0, -7.0], [200, 200.0, -5.0]],
        "masked_sft": [[0, 0.0, -9.0], [100, 1.0, -8.9], [200, 2.0, -8.8]],
        "gap": [[100, 0.05], [200, 0.09]],
    }
    assert set(verdicts(linear_000.STUDY, {"paths": [straight] * 3}).values()) == {"holds"}
    bent = {
        "sft": [[0, 0.0, -9.0], [100, 100.0, -7.0], [200, 120.0, -7.5]],
        "masked_sft": [[0, 0.0, -9.0], [100, -50.0, -8.0], [200, -60.0, -7.0]],
        "gap": [[100, 0.3], [200, 0.9]],
    }
    assert set(verdicts(linear_000.STUDY, {"paths": [bent] * 3}).values()) == {"does not hold"}


def test_arms_of_a_real_model_are_read_from_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "undo-smollm2-sql" / "arms"
    folder.mkdir(parents=True)
    for objective, log_p in (("sft", -1.0), ("masked_sft", -8.0)):
        for seed in (0, 1):
            reading = {"log_p_error": log_p - seed, "p_wrong": 0.1, "p_undo": 0.9, "p_correction": 0.9}
            row = {
                "arm": {"objective": objective, "context": "soft", "init": "mean", "seed": seed},
                "curve": {"0": {**reading, "log_p_error": -5.0}, "10": reading},
            }
            (folder / f"{objective}-{seed}.json").write_text(json.dumps(row))
    monkeypatch.setenv("HOLDFAST_RUNS", str(tmp_path))
    figures = smollm2_000.run("h200", lambda share: None)
    assert verdicts(smollm2_000.STUDY, figures)["000-theorem-c-smollm2"] == "holds"
    for curves in figures["tasks"]["sql"]["arms"]["masked_sft, soft"]:
        curves["10"][0] = -1.5 + math.log(10)
    assert verdicts(smollm2_000.STUDY, figures)["000-theorem-c-smollm2"] == "does not hold"
    for curves in figures["tasks"]["sql"]["arms"]["masked_sft, soft"]:
        curves["10"][2] = 0.2
    assert set(verdicts(smollm2_000.STUDY, figures).values()) == {"not testable here"}, "nothing was learned to undo"
