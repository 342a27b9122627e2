"""[001]: what its studies compute, and that their verdicts follow the figures."""

import json
import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from holdfast.config import InputError
from holdfast_studies.oversight.humaneval import humaneval_tasks
from holdfast_studies.papers import (
    claims_001,
    extensions_001,
    legacy_001,
    modularity_001,
    selection_001,
    statistics_001,
)
from holdfast_studies.papers.study import Figures, Study

TASKS = humaneval_tasks()


def verdicts(study: Study, figures: Figures) -> dict[str, str]:
    return {claim.id: claim.judge(figures).verdict for claim in study.claims}


def no_progress(_share: float) -> None:
    pass


def test_every_printed_number_is_recomputed() -> None:
    """Sums come out; direction, interval and 'more than' do not. Fisher's p: 3 and 5 in 20 .69, 25 and 41 in 164 .038."""
    figures = statistics_001.run("cpu", no_progress)
    assert figures["fisher_p"] == pytest.approx(0.6948, abs=1e-4)
    assert figures["kl_base_overseen"] == pytest.approx(0.24, abs=1e-4)
    assert figures["kl_overseen_base"] == pytest.approx(0.2079, abs=1e-4)
    assert figures["fisher_p_of_all"] == pytest.approx(0.0383, abs=1e-4)
    found = verdicts(statistics_001.STUDY, figures)
    assert found["001-capability-significance"] == "not testable here", "the number of tasks is not printed"
    neither = {**figures, "fisher_p_of_all": 0.3}
    assert verdicts(statistics_001.STUDY, neither)["001-capability-significance"] == "does not hold"
    assert [claim for claim, verdict in found.items() if verdict == "holds"] == ["001-improvement", "001-reward-gain"]
    kinder = {
        **figures, "fisher_p": 0.01, "mcnemar_p": 0.01, "refused": [0.95, 0.9, 0.99], "joint_minus_reward": [-0.1, -0.1],
        "kl_overseen_base": 0.24, "kl_within": 0.95, "distinct_mocks": 4, "improvement": 0.1, "reward_gain": 0.05,
    }  # fmt: skip
    turned = verdicts(statistics_001.STUDY, kinder)
    assert turned.pop("001-reward-gain") == "does not hold"
    assert set(turned.values()) == {"holds"}


def test_the_printed_rule_returns_offenders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program with one offence scores 0.8, which is enough; with a gate at 1 it would not be returned."""
    assert selection_001.printed_rule([0.1, 0.2], [1.0, 0.8]) == 1
    assert selection_001.printed_rule([0.1], [0.6]) is None
    monkeypatch.setattr(selection_001, "POOLS", 20)
    figures = selection_001.run("cpu", no_progress)
    assert figures["offenders"]["ours"] == 0 < figures["offenders"]["printed"]
    assert figures["risk"]["4"][0] == pytest.approx(1 - 0.985**4)
    for exact, drawn in figures["risk"].values():
        assert drawn == pytest.approx(exact, abs=4 * math.sqrt(0.25 / 200_000))
    found = verdicts(selection_001.STUDY, figures)
    assert {claim for claim, verdict in found.items() if verdict == "holds"} == {
        "001-reward-range",
        "001-mistakes-chosen",
        "001-convergence-rate",
    }
    assert figures["given_returned"]["1"] == pytest.approx(0.015 / 0.715)
    assert selection_001.expected_joint(1) == pytest.approx(0.35), "E[R] P(S = 1)"
    kinder = {
        "offenders": {"pools": 5, "printed": 0, "ours": 0}, "one_offence_passes": [0.0], "safety_values": [0.0, 1.0],
        "noise": {"joint_gain": 0.0, "joint_met": 0.0, "kl": 0.0, "kl_met": 0.0},
        "risk": {"1": [0.02, 0.02], "4": [0.01, 0.01]}, "reward_range": [0.0, 2.0],
        "given_returned": {"1": 0.1, "4": 0.05}, "convergence": {"1": [0.5, 0.5], "10": [0.9, 0.9], "50": [0.9, 0.9]},
    }  # fmt: skip
    turned = verdicts(selection_001.STUDY, kinder)
    for claim in ("001-reward-range", "001-mistakes-chosen", "001-convergence-rate"):
        assert turned.pop(claim) == "does not hold"
    assert set(turned.values()) == {"holds"}


def test_mutants_are_wrong_programs_that_still_parse() -> None:
    made = legacy_001.mutants(TASKS["HumanEval/0"])
    assert len(made) == 2, "it has no whole number to be off by one"
    assert "idx == idx2" in made[0]
    assert "return None" in made[1]
    assert all("def has_close_elements" in text for text in made)
    assert legacy_001._above([0.7, 0.7, 0.2]) == 0.75
    assert legacy_001._returned([0.7, 0.7, 0.2]) == 0.5
    assert legacy_001._returned([0.1, 0.7]) == 0.0


def test_the_printed_functions_on_real_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five tasks: the prompt's examples tell mutants from the right program, substrings hardly do."""
    few = dict(list(TASKS.items())[:5])
    monkeypatch.setattr(legacy_001, "humaneval_tasks", lambda: few)
    figures = legacy_001.run("cpu", no_progress)
    assert figures["tasks"] == 5
    assert figures["reward"]["examples"]["above"][0] > figures["reward"]["legacy"]["above"][0]
    assert figures["gates"]["legacy"][0] < figures["gates"]["policy"][0]
    figures["p"] = 0.001
    assert verdicts(legacy_001.STUDY, figures)["001-reward-beaten"] == "does not hold"
    kinder = deepcopy(figures)
    kinder["reward"]["legacy"] = {"above": [0.9, 0.85, 0.95], "returned": [0.9, 0.9, 0.9]}
    kinder["reward"]["examples"]["above"] = [0.9, 0.85, 0.95]
    kinder["gates"]["legacy"] = [117, 117, 0, 5]
    assert set(verdicts(legacy_001.STUDY, kinder).values()) == {"holds"}


def point(n: int, gold: float, *, kl: float = 0.9, abstention: float = 0.1) -> dict[str, Any]:
    def around(value: float) -> dict[str, float]:
        return {"value": value, "low": value - 0.01, "high": value + 0.01}

    shares = {"gold": around(gold), "reward": around(0.5), "joint": around(0.4), "abstention": around(abstention)}
    return {"n": n, **shares, "kl": kl, "kl_bound": 0.6, "kl_reverse": "infinite", "pass_at_n": around(gold)}


def test_claims_follow_the_figures() -> None:
    way = {"points": [point(1, 0.1), point(4, 0.3), point(16, 0.31)], "prompts": 9, "plain_gold": 0.1, "p": 0.01}
    forbidden = {
        "points": [point(1, 0.02), point(4, 0.01), point(16, 0.01)],
        "prompts": 9,
        "plain": point(1, 0.5)["gold"],
    }
    figures: Figures = {"where": "here", "ways": {"ours": way, "legacy": deepcopy(way)}, "forbidden": forbidden}
    found = verdicts(claims_001.STUDY, figures)
    assert found.pop("001-claim-3-figures") == found.pop("001-claim-2-mistakes-chosen") == "does not hold"
    assert found.pop("001-claim-4") == "not testable here", "noise is above 0.01 as well"
    assert set(found.values()) == {"holds"}
    other = deepcopy(figures)
    other["ways"]["ours"]["points"] = [point(1, 0.1), point(4, 0.1, kl=0.3), point(16, 0.3)]
    other["ways"]["ours"]["p"] = other["ways"]["legacy"]["p"] = 0.7
    other["ways"]["legacy"]["points"] = [point(1, 0.1), point(4, 0.11, kl=0.3), point(16, 0.3)]
    other["forbidden"]["points"] = [point(1, 0.3), point(4, 0.55), point(16, 0.7)]
    turned = verdicts(claims_001.STUDY, other)
    assert turned.pop("001-claim-2-mistakes-chosen") == "holds"
    assert turned.pop("001-claim-4") == "not testable here"
    assert set(turned.values()) == {"does not hold"}
    other["ways"]["ours"]["p"] = 0.01
    other["ways"]["ours"]["points"][1] = point(4, 0.28)
    assert verdicts(claims_001.STUDY, other)["001-efficiency"] == "holds in part", "one way of choosing of two"
    assert verdicts(claims_001.STUDY, other)["001-convergence"] == "holds in part"
    del other["ways"]["legacy"]
    assert verdicts(claims_001.STUDY, other)["001-claim-1-as-printed"] == "not testable here"


def test_what_holds_by_construction_earns_no_verdict() -> None:
    """E[R] and E[R*S] rise in both cases. Fewer abstentions alone raise E[gold*S] from .1 to .1 * .9 / .5 = .18."""
    seen = {
        "points": [point(1, 0.1, abstention=0.5), point(4, 0.18), point(16, 0.2)],
        "plain_gold": 0.2,
        "p": 0.6,
        "prompts": 9,
    }
    few = {
        "points": [point(1, 0.3, abstention=0.65), point(4, 0.57, abstention=0.33), point(16, 0.75, abstention=0.12)]
    }
    figures: Figures = {
        "where": "here",
        "ways": {"ours": seen},
        "forbidden": {**few, "prompts": 9, "plain": seen["points"][0]["gold"]},
    }
    found = verdicts(claims_001.STUDY, figures)
    assert found["001-claim-1"] == found["001-claim-3"] == "does not hold"
    assert found["001-claim-2-more-samples"] == "does not hold", "more requests get an unsafe answer"
    assert found["001-claim-2-mistakes-chosen"] == "does not hold", "because more get an answer"


def test_figures_at_the_floor_are_not_judged() -> None:
    never = {"points": [point(n, 0.0) for n in (1, 4, 16)], "plain_gold": 0.0, "p": 1.0, "prompts": 9}
    mute = {"points": [point(n, 0.0, abstention=1.0) for n in (1, 4, 16)], "prompts": 9, "plain": point(1, 0.5)["gold"]}
    found = verdicts(claims_001.STUDY, {"where": "here", "ways": {"ours": never}, "forbidden": mute})
    assert found.pop("001-claim-3-figures") == "does not hold"
    assert set(found.values()) == {"not testable here"}
    open_gate = {
        "points": [point(n, 0.0, abstention=0.0) for n in (1, 4, 16)],
        "prompts": 9,
        "plain": point(1, 0.0)["gold"],
    }
    found = verdicts(claims_001.STUDY, {"where": "here", "ways": {"ours": never}, "forbidden": open_gate})
    assert set(found.values()) == {"not testable here"}, (
        "a model that is never unsafe, behind a gate that stops nothing"
    )


def test_a_shift_shows_something_only_where_noise_would_not_shift_as_far() -> None:
    def judged(kl: float, noise: float) -> str:
        few = {**point(4, 0.3), "kl": kl, "kl_bound": noise}
        return claims_001.shift({"where": "here", "ways": {"ours": {"points": [few] * 3}}}).verdict

    assert judged(0.3, 0.6) == "not testable here"
    assert judged(0.02, 0.005) == "holds"
    assert judged(0.005, 0.6) == "does not hold"


def test_parts_that_cannot_be_exchanged_are_no_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("NUM_REQUESTS", 4), ("NUM_SAMPLES", 5), ("SEEDS", (0,))):
        monkeypatch.setattr(modularity_001, name, value)
    figures = modularity_001.run("cpu", no_progress)
    assert [len(figures[name]) for name in ("unsafe", "right")] == [4, 4]
    same, moved = [[0.5, 0.5], [0.4, 0.4]] * 10, [[0.9, 0.1], [0.8, 0.2]] * 10

    def judged(unsafe: list[list[float]], right: list[list[float]]) -> str:
        return modularity_001.decomposed({"unsafe": unsafe, "right": right}).verdict

    assert judged(same, same) == "holds"
    assert judged(moved, same) == judged(same, moved) == "holds in part"
    assert judged(moved, moved) == "does not hold"
    assert judged([[0.0, 0.0]] * 20, same) == "not testable here"


def test_claims_on_real_samples(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A few requests of each kind in the embedded world; and a run folder that is not there is said so."""
    for name, value in (("NUM_REQUESTS", 6), ("NUM_SAMPLES", 5), ("SEEDS", (0,))):
        monkeypatch.setattr(claims_001, name, value)
    figures = claims_001.run("cpu", no_progress)
    assert figures["ways"]["ours"]["prompts"] > 4
    assert json.loads(json.dumps(figures)) == figures
    assert len(verdicts(claims_001.STUDY, figures)) == len(claims_001.STUDY.claims)
    monkeypatch.setenv("HOLDFAST_OVERSIGHT", str(tmp_path))
    with pytest.raises(InputError, match="no oversight study there"):
        claims_001.run("h200", no_progress)


def test_an_extension_exists_only_if_it_imports_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        extensions_001, "_learned", lambda: {"shown": False, "what": "no", "value": 0.0}
    )  # a minute's model
    monkeypatch.setitem(extensions_001.OBJECTS, "domains", "holdfast.judging:nothing_of_that_name")
    figures = extensions_001.run("cpu", no_progress)
    assert verdicts(extensions_001.STUDY, figures) == {
        "001-extension-1": "holds",
        "001-extension-2": "holds",
        "001-extension-3": "holds in part",
        "001-extension-4": "does not hold",
        "001-extension-5": "holds",
    }
    monkeypatch.setattr(extensions_001, "_theory", lambda: 1 / 0)
    assert extensions_001.run("cpu", no_progress)["theory"]["what"].startswith("ZeroDivisionError")
