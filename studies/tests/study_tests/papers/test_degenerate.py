"""A comparison whose arms are degenerate earns no verdict: every study that compares some trips on its own stored figures."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from holdfast_studies.papers.decision_runs import BASE
from holdfast_studies.papers.registry import find_study, studies
from holdfast_studies.papers.study import Figures
from study_tests.papers.test_stored import FOLDER, KEPT, altered

Spoil = Callable[[Figures], Figures]
"""Makes stored figures degenerate."""


def nothing_answered(figures: Figures) -> Figures:
    """0 % against 0 %."""
    return altered(figures, lambda x: 0 * x)


def not_learned_to_undo(figures: Figures) -> Figures:
    for seen in figures.get("tasks", {"": figures}).values():
        place = seen["readings"].index("p_undo")
        for curves in (curves for arm, curves in seen["arms"].items() if arm.startswith("masked_sft")):
            for curve in curves:
                curve[list(curve)[-1]][place] = 0.0
    return figures


def never_right_nor_unsafe(figures: Figures) -> Figures:
    def zero(gold: dict[str, Any]) -> None:
        gold.update(dict.fromkeys(("value", "low", "high"), 0.0))

    for seen in (*figures["ways"].values(), figures["forbidden"]):
        seen["plain_gold"] = 0.0
        for point in seen["points"]:
            zero(point["gold"])
    zero(figures["forbidden"]["plain"])
    return figures


def by_outcome_nothing(figures: Figures) -> Figures:
    for defences in figures["outcomes"].values():
        for held in defences.values():
            held["asr:outcome"] = ["0" * len(seed) for seed in next(iter(held.values()))]
    return figures


def sft_did_not_learn(figures: Figures) -> Figures:
    """At the sizes that it was trained on, or at any."""
    for study in figures.values():
        for model, cells in study["models"].items():
            if model != BASE:
                for cell in cells.values():
                    cell["observed"] = [0.0, 0.0, 0.01]
    return figures


def no_reward_anywhere(figures: Figures) -> Figures:
    figures["reward"]["bins"][0] = 0
    return figures


SPOILED: dict[str, tuple[Spoil, set[str]]] = {
    "000-theorem-c": (not_learned_to_undo, {"000-constant", "000-growth"}),
    "000-theorem-c-smollm2": (not_learned_to_undo, set()),
    "001-claims": (never_right_nor_unsafe, {"001-claim-3-figures"}),
    "001-modularity": (nothing_answered, set()),
    "002-ablation": (nothing_answered, set()),
    "002-preexperiments": (nothing_answered, set()),
    "002-table-3": (nothing_answered, set()),
    "002-table-4": (nothing_answered, set()),
    "002-tables-qwen": (nothing_answered, set()),
    "002-tables-smollm2": (by_outcome_nothing, set()),
    "004-attribution-smollm2": (no_reward_anywhere, {"004-attribution-smollm2-kl", "004-attribution-smollm2-sft"}),
    "004-cited": (sft_did_not_learn, set()),
    "004-figure-1": (sft_did_not_learn, {"004-figure-1-exclusion"}),
    "004-table-1": (sft_did_not_learn, set()),
    "004-table-2": (nothing_answered, set()),
}
"""By study: what makes its arms degenerate, and the claims that compare nothing and keep their verdict."""
NOTHING_COMPARED = {
    "001-extensions": "whether something exists",
    "001-legacy": "functions on programs whose truth is known",
    "001-statistics": "printed figures with each other",
    "002-errata": "identities, and one share of a loss",
    "002-tables-statistics": "printed figures with each other",
}


def test_every_study_of_experiments_is_here() -> None:
    ran = {
        study.id
        for study in studies().values()
        if study.seconds and any((claim.about or study.about) == "experiments" for claim in study.claims)
    }
    assert ran == SPOILED.keys() | NOTHING_COMPARED.keys()


def figures_of(name: str) -> Figures:
    """The stored ones; of a study that an older version of its code made, what that left: its rows wait for another run."""
    if name in KEPT:
        return deepcopy(KEPT[name].figures)
    (file,) = FOLDER.glob(f"{name}.*.json")
    figures: Figures = json.loads(file.read_text(encoding="utf-8"))["figures"]
    return figures


@pytest.mark.parametrize("name", SPOILED)
def test_degenerate_arms_earn_no_verdict(name: str) -> None:
    spoil, others = SPOILED[name]
    figures = spoil(figures_of(name))
    found = {claim.id: claim.judge(figures) for claim in find_study(name).claims}
    judged = {claim for claim, finding in found.items() if finding.verdict != "not testable here"}
    assert judged == others
    assert all(finding.found.startswith("needed: ") for claim, finding in found.items() if claim not in others)
