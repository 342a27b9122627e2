"""[002]'s studies: verdicts follow the figures; the small worlds are what they say they are."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from holdfast.attacks import Defence
from holdfast.records import Cell
from holdfast.worlds import SafetyWorld, build_tokenizer
from holdfast_studies.papers import (
    ablations_002,
    bounds_002,
    curvature_002,
    errata_002,
    noise_002,
    preexperiments_002,
    table_1_002,
    table_3_002,
    table_4_002,
    table_statistics_002,
    tables_smollm2_002,
    task_cells,
)
from holdfast_studies.papers.outcomes import outcome_figures, steps
from holdfast_studies.papers.study import Figures, Study
from holdfast_studies.worlds.dialogues import dialogues


def digits(num: int, of: int = 40) -> str:
    return "1" * num + "0" * (of - num)


def figures_of(attacks: Sequence[str], hits: dict[str, int], *measures: str, seeds: int = 2) -> Figures:
    rows = {defence: {measure: [digits(num)] * seeds for measure in measures} for defence, num in hits.items()}
    return {"seeds": list(range(seeds)), "outcomes": dict.fromkeys(attacks, rows)}


def verdict(study: Study, claim: str, figures: Figures) -> str:
    return next(each for each in study.claims if each.id == claim).judge(figures).verdict


@pytest.mark.parametrize(
    ("hits", "expected"),
    [
        ({"sft": 38, "csft": 20, "csft_pa": 2}, "holds"),
        ({"sft": 38, "csft": 38, "csft_pa": 2}, "holds in part"),
        ({"sft": 38, "csft": 2, "csft_pa": 20}, "does not hold"),
        ({"sft": 38, "csft": 37, "csft_pa": 36}, "does not hold"),
        ({"sft": 1, "csft": 1, "csft_pa": 0}, "not testable here"),
    ],
)
def test_table_3_is_an_order_beyond_chance(hits: dict[str, int], expected: str) -> None:
    figures = figures_of(list(table_3_002.ATTACKS), hits, "asr")
    assert verdict(table_3_002.STUDY, "002-table-3-backdoor", figures) == expected


def test_the_largest_gain_must_be_where_the_trigger_is() -> None:
    even = figures_of(list(table_3_002.ATTACKS), {"csft": 20, "csft_pa": 10}, "asr")
    most = even["outcomes"] | {"backdoor": {"csft": {"asr": [digits(20)] * 2}, "csft_pa": {"asr": [digits(1)] * 2}}}
    once = most | {"identity_shift": {"csft": {"asr": [digits(20)] * 2}, "csft_pa": {"asr": [digits(0), digits(10)]}}}
    claim = "002-table-3-largest-gain"
    assert verdict(table_3_002.STUDY, claim, {**even, "outcomes": most}) == "holds"
    assert verdict(table_3_002.STUDY, claim, {**even, "outcomes": once}) == "holds in part"
    floor = {"csft": {"asr": [digits(1)] * 2}, "csft_pa": {"asr": [digits(0)] * 2}}
    left_out = most | {"identity_shift": floor}
    assert verdict(table_3_002.STUDY, claim, {**even, "outcomes": left_out}) == "holds", "1 of 40 is nothing to gain"
    assert verdict(table_3_002.STUDY, claim, {**even, "outcomes": most | {"backdoor": floor}}) == "not testable here"


def test_steps_are_paired_and_corrected() -> None:
    """14 of 40 against 8 of the same 40, twice: 12 pairs differ, all one way; p = 2 / 2^12, doubled for two steps."""
    figures = figures_of(["backdoor"], {"sft": 14, "csft": 8, "csft_pa": 8}, "asr")
    first, second = steps(figures, "backdoor", ("sft", "csft", "csft_pa"), "asr")
    assert first.p == pytest.approx(2 * 2 / 2**12)
    assert first.falls
    assert second.p == 1


@pytest.mark.parametrize(
    ("rouge", "expected"),
    [
        ((0.1, 0.9, 0.9, 0.9), "holds"),
        ((0.1, 0.9, 0.9, 0.7), "does not hold"),
        ((0.1, 0.9, 0.4, 0.4), "not testable here"),
        ((0.9, 0.9, 0.9, 0.7), "does not hold"),
    ],
)
def test_table_4_asks_for_a_small_loss_of_something(rouge: Sequence[float], expected: str) -> None:
    """By ROUGE-1 of the untouched model, sft, csft, csft + PA; right answers do not decide, unless sft has too few."""
    arms = zip(("untouched", "sft", "csft", "csft_pa"), rouge, strict=True)
    scores = {name: {"rouge1": [value] * 3, "exact": [0.6] * 3} for name, value in arms}
    claim = "002-table-4-summary-csft"
    assert verdict(table_4_002.STUDY, claim, {"scores": {"summary": scores}}) == expected
    scores["sft"]["exact"] = [0.4] * 3
    assert verdict(table_4_002.STUDY, claim, {"scores": {"summary": scores}}) == "not testable here"


def test_dialogues_are_known_words_and_their_summaries_can_be_read_off_them() -> None:
    tokenizer, world = build_tokenizer(), SafetyWorld()
    tuned, asked = (dialogues(world, split, 200, draw=1) for split in ("tune", "test"))
    assert tuned == dialogues(world, "tune", 200, draw=1)
    assert tuned != dialogues(world, "tune", 200, draw=2)
    for row in (*tuned, *asked):
        dialogue, summary = (turn.visible.split() for turn in row.turns)
        assert tokenizer.unk_token_id not in tokenizer(" ".join((*dialogue, *summary)))["input_ids"]
        assert {word for word in summary if word not in ("wants", "with", "of", "the", "to", "is", "in", "a")} <= {
            *dialogue
        }
    things = [{str(item) for item in world.items[split] if not item.forbidden} for split in ("tune", "test")]
    for rows, own, others in ((tuned, *things), (asked, *things[::-1])):
        told = [row.turns[1].visible for row in rows]
        assert all(any(thing in text for thing in own) and not any(thing in text for thing in others) for text in told)


@pytest.mark.slow
def test_a_task_cell_scores_by_both_measures_and_is_not_run_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_cells, "RUNS", tmp_path)
    task, untouched = table_4_002.KNOWN, Defence(name="untouched", tune=False)
    figures = task_cells.task_figures("study", [task], [untouched], [7], lambda share: None)
    (exact,), (rouge,) = (figures["scores"]["known_skill"]["untouched"][name] for name in ("exact", "rouge1"))
    assert 0.8 < exact < rouge <= 1, (
        "the shipped model has this skill; a wrong list still shares words with the right one"
    )
    (kept,) = (tmp_path / "study" / "tasks").iterdir()
    kept.write_text('{"exact": 0.25, "rouge1": 0.5}', encoding="utf-8")
    again = task_cells.task_figures("study", [task], [untouched], [7], lambda share: None)
    assert again["scores"]["known_skill"]["untouched"] == {"rouge1": [0.5], "exact": [0.25]}


def test_ablations_compare_variants_under_both_attacks() -> None:
    def judged(claim: str, **hits: int) -> str:
        named = {"as printed": 5, "gradient stopped": 5, "off": 5, "clipped": 5}
        figures = figures_of(
            ablations_002.ATTACKS, named | {key.replace("_", " "): n for key, n in hits.items()}, "asr"
        )
        return verdict(ablations_002.STUDY, f"002-ablation-mu-{claim}", figures)

    assert judged("on", off=30) == "holds"
    assert judged("on", off=5) == "does not hold"
    assert judged("on", off=1, as_printed=1) == "not testable here", "the attacks do nothing"
    assert judged("gradient", gradient_stopped=30) == "holds"
    assert judged("clip", clipped=5) == "holds"
    assert judged("clip", clipped=30) == "does not hold"
    assert judged("clip", clipped=0, as_printed=0) == "not testable here", "nothing is left as it is by both"


def test_one_training_of_three_is_no_effect() -> None:
    """36 of 40 to 4 in one seed, 20 to 24 in the two others: p is tiny, and most trainings went the other way."""
    figures: Figures = {"seeds": [0, 1, 2]}
    before, after = ({"asr": [digits(num) for num in seeds]} for seeds in ((36, 20, 20), (4, 24, 24)))
    figures["outcomes"] = {name: {"gradient stopped": before, "as printed": after} for name in ablations_002.ATTACKS}
    (step,) = steps(figures, ablations_002.ATTACKS[0], ("gradient stopped", "as printed"), "asr")
    assert step.p < 0.001
    assert not step.falls
    assert not step.rises
    assert step.changes == pytest.approx((-0.8, 0.1, 0.1))
    assert verdict(ablations_002.STUDY, "002-ablation-mu-gradient", figures) == "not testable here"
    before["asr"] = [digits(36), digits(24), digits(24)]
    assert steps(figures, ablations_002.ATTACKS[0], ("gradient stopped", "as printed"), "asr")[0].falls
    assert verdict(ablations_002.STUDY, "002-ablation-mu-gradient", figures) == "not testable here", (
        "the interval has zero"
    )
    before["asr"] = [digits(36), digits(38), digits(37)]
    after["asr"] = [digits(4), digits(5), digits(6)]
    assert verdict(ablations_002.STUDY, "002-ablation-mu-gradient", figures) == "holds"


def test_no_change_needs_an_interval_near_zero() -> None:
    """Of 40 requests, by seed: one more or less is within 5 points; half of them in one seed is neither near nor a change."""

    def judged(one: tuple[int, ...], other: tuple[int, ...]) -> str:
        rows = {
            attack: {"as printed": {"asr": [digits(20)] * 5}, "clipped": {"asr": [digits(20 + more) for more in seeds]}}
            for attack, seeds in zip(ablations_002.ATTACKS, (one, other), strict=True)
        }
        return verdict(ablations_002.STUDY, "002-ablation-mu-clip", {"seeds": list(range(5)), "outcomes": rows})

    near, up, torn = (0, 1, -1, 0, 0), (8, 9, 10, 9, 8), (20, 0, -1, 0, 1)
    assert judged(near, near) == "holds"
    assert judged(near, up) == "holds in part"
    assert judged(up, torn) == "does not hold"
    assert judged(near, torn) == "not testable here"


def smollm2_cells(seed: int) -> list[Cell]:
    """What a run of the tables leaves: csft complies less than sft, csft + PA less again, and pays with the task."""
    complied = {"untouched": 2, "sft": 38, "csft_published": 20, "csft_pa_published": 2}
    rouge = {"untouched": 0.2, "sft": 0.9, "csft_published": 0.9, "csft_pa_published": 0.7}
    cells = []
    for defence, num in complied.items():
        said = ("complied",) * num + ("missed",) * (40 - num)
        cells.append(Cell("backdoor", defence, seed, "outcome", outcomes={"harmful:outcome": said}))
        scores = {"sql_rouge1": (rouge[defence],) * 4, "sql_exact": (0.0, 1.0), "sql_meaning": (1.0, 1.0)}
        cells.append(Cell("benign_sql", defence, seed, "outcome", outcomes={"utility": (True, False)}, scores=scores))
    return cells


def test_smollm2_is_judged_by_outcome_and_rouge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_smollm2_002, "RUN", tmp_path)
    (tmp_path / "cells").mkdir()
    cells = [*smollm2_cells(6), *smollm2_cells(7), smollm2_cells(8)[2]]  # sft alone of seed 8: not to be compared
    for number, cell in enumerate(cells):
        (tmp_path / "cells" / f"{number}.json").write_text(json.dumps(cell.to_json()), encoding="utf-8")
    figures = tables_smollm2_002.run("h200", lambda share: None)
    assert figures["seeds"] == [6, 7]
    study = tables_smollm2_002.STUDY
    assert verdict(study, "002-tables-smollm2-backdoor", figures) == "holds"
    assert verdict(study, "002-tables-smollm2-identity-shift", figures) == "not testable here", "it was not run"
    found = next(each for each in study.claims if each.id == "002-tables-smollm2-sql-csft").judge(figures)
    assert found.verdict == "does not hold"
    assert "queries that return the same untouched 100.0" in found.found
    for of in figures["scores"]["benign_sql"].values():
        of["rouge1"] = [0.2, 0.2]
    assert verdict(study, "002-tables-smollm2-sql-csft", figures) == "not testable here", "sft learns nothing"


def test_replies_that_were_not_refused_are_told_and_not_judged() -> None:
    hits = {"sft": 38, "csft": 20, "csft_pa": 2}
    figures = figures_of(["backdoor"], hits, "asr:refusal_phrases", "asr:learned")
    claim = next(each for each in tables_smollm2_002.STUDY.claims if each.id == "002-tables-smollm2-backdoor")
    found = claim.judge(figures)
    assert found.verdict == "not testable here"
    assert "by learned: sft -> csft 95.0% -> 50.0%" in found.found


def test_cells_become_digits_and_a_failed_one_spoils_the_study() -> None:
    cells = [Cell("a", "d", seed, "world", outcomes={"asr": (False, seed == 1, None)}) for seed in (1, 0)]
    assert outcome_figures(cells, ["asr", "utility"]) == {
        "seeds": [0, 1],
        "outcomes": {"a": {"d": {"asr": ["001", "011"]}}},
    }
    with pytest.raises(RuntimeError, match="a x d, seed 3: killed"):
        outcome_figures([Cell("a", "d", 3, "world", status="failed", reason="killed")], ["asr"])


def test_sft_adds_nothing_to_itself_and_csft_scales_it() -> None:
    """csft's gradient is w times sft's: w = 2 sigmoid(-beta (logp - logp_ref))."""
    policy, anchor = torch.tensor([[[2.0, 0, 0, 0, 0, 0]], [[0, 1.0, 0, 0, 0, 0]]], dtype=torch.float64)
    target = torch.zeros(1, dtype=torch.long)
    plain, held = (table_1_002.slope(policy, anchor, target, table_1_002.OBJECTIVES[name]) for name in ("sft", "csft"))
    gap = float(policy.log_softmax(-1)[0, 0] - anchor.log_softmax(-1)[0, 0])
    torch.testing.assert_close(held, plain * 2 / (1 + math.exp(0.5 * gap)))


def test_table_1s_rows_follow_the_draws() -> None:
    pa = [[True, 1.0, 1.0], [True, 2.0, 2.0], [False, 0.0, 0.5]]
    none = dict.fromkeys(table_1_002.OBJECTIVES, "000")
    figures = {"nearer": none | {"csft_pa": "111"}, "preferred": none | {"csft_pa": "11"}, "pa": pa}
    study = table_1_002.STUDY
    assert verdict(study, "002-table-1-csft-pa", figures) == "holds"
    assert verdict(study, "002-table-1-csft-pa", {**figures, "preferred": none}) == "holds in part"
    assert verdict(study, "002-table-1-sft", figures) == "holds in part", "nothing draws sft to the anchor"
    assert verdict(study, "002-pa-active", figures) == "holds"
    assert verdict(study, "002-pa-active", {**figures, "pa": [[True, 0.0, 1.0]]}) == "does not hold"
    assert verdict(study, "002-pa-amplified", figures) == "holds"
    assert (
        verdict(study, "002-pa-amplified", {**figures, "pa": [[True, 2.0, 1.0], [True, 1.0, 2.0]]}) == "does not hold"
    )


def test_errata_have_numbers_and_follow_them() -> None:
    printed, repaired = errata_002.gradient_errors(0)
    assert printed > 0.01
    assert repaired < 1e-12
    rest = errata_002.telescoping_remainder()
    assert rest >= 0.2 * math.log(2) - 1e-12, "PA is never below log 2"
    assert errata_002.slope_across_tie(1e-6) > 1e3 * errata_002.slope_across_tie(1e-2)
    figures: Figures = {
        "gradients": [[0.0, 0.0]],
        "telescoping": 0.0,
        "kink": {"0.01": 1.0, "0.0001": 1.0, "1e-06": 1.0},
        "separable": [{"parameter": 5.0, "gradient_squared": g} for g in (1.0, 1e-2, 1e-4)],
        "shares": [[0.1, 0.2], [0.1, 0.3]],
    }
    judged = {claim.id: claim.judge(figures).verdict for claim in errata_002.STUDY.claims}
    assert set(judged.values()) == {"holds"}
    worse = {**figures, "telescoping": 0.14, "shares": [[0.1, 0.2], [0.1, 0.4]], "gradients": [[0.3, 1e-16]]}
    judged = {claim.id: claim.judge(worse).verdict for claim in errata_002.STUDY.claims}
    assert judged["002-telescoping"] == judged["002-eq-2-gradient"] == "does not hold"
    assert judged["002-cap-30"] == "holds in part"


def test_noise_turns_the_order_at_a_tie_and_the_gradient_jumps() -> None:
    (loss, slope), (loss_small, slope_small) = noise_002.lemma_ratios(1e-2), noise_002.lemma_ratios(1e-4)
    assert loss_small < 2 * loss
    assert slope_small > 20 * slope
    figures = {"moved": [[1.0, 0.5], [1.0, 0.6]], "lemma": {"0.01": [1.0, 1.0], "1e-06": [1.0, 1.0]}}
    study = noise_002.STUDY
    assert verdict(study, "002-lemma-a-1", figures) == "holds"
    assert (
        verdict(study, "002-lemma-a-1", {**figures, "lemma": {"0.01": [1.0, 1.0], "1e-06": [1.0, 9.0]}})
        == "holds in part"
    )
    assert verdict(study, "002-pa-tightens", {**figures, "moved": [[1.0, 2.0], [1.0, 2.1]]}) == "does not hold"
    lost = [[1.0, 2.0], [None, 2.0], [1.0, None]]
    assert verdict(study, "002-pa-tightens", {**figures, "moved": lost}) == "not testable here", (
        "one of three converged"
    )


def test_the_preexperiments_verdicts_follow_the_groups() -> None:
    def group(kl: float) -> list[dict[str, float]]:
        return [{"kl": kl * factor, "gap": kl, "cosine": -kl} for factor in (0.99, 1.0, 1.01)]

    groups = {"1 cross-entropy": 1.0, "1 pa": 0.3, "1 cross-entropy + pa": 0.9, "2 csft": 1.0, "2 csft + pa": 0.5}
    figures = {"groups": {name: group(kl) for name, kl in groups.items()}}
    study = preexperiments_002.STUDY
    assert verdict(study, "002-pre-1-kl", figures) == "holds in part"
    assert verdict(study, "002-pre-2-kl", figures) == "holds"
    worse = {
        "groups": figures["groups"]
        | {"1 pa": group(2.0), "1 cross-entropy + pa": group(2.0), "2 csft + pa": group(2.0)}
    }
    assert verdict(study, "002-pre-1-kl", worse) == "does not hold"
    assert verdict(study, "002-pre-2-kl", worse) == "does not hold"
    alike = {"groups": figures["groups"] | {"2 csft + pa": group(1.0)[::-1]}}
    assert verdict(study, "002-pre-2-kl", alike) == "not testable here", "the interval has zero"
    there = {"groups": {name: group(1e-6) for name in groups}}
    assert verdict(study, "002-pre-1-kl", there) == verdict(study, "002-pre-2-kl", there) == "not testable here"


def test_curves_are_judged_epoch_by_epoch() -> None:
    """Three seeds; the second group is nearer by the given amounts after three epochs."""

    def judged(*nearer: float) -> str:
        base = [{"kl": [1.0 * factor, 0.8 * factor, 0.6 * factor]} for factor in (0.99, 1.0, 1.01)]
        moved = [
            {"kl": [kl - by * (1 + 0.01 * seed) for kl, by in zip(of["kl"], nearer, strict=True)]}
            for seed, of in enumerate(base)
        ]
        figures = {"groups": {"2 csft": [{"kl": 0.6}] * 3}, "curves": {"2 csft": base, "2 csft + pa": moved}}
        return verdict(preexperiments_002.STUDY, "002-figure-4-curves", figures)

    assert judged(0.1, 0.1, 0.1) == "holds"
    assert judged(0.1, 0.0, 0.1) == "holds in part"
    assert judged(-0.1, 0.1, 0.1) == "does not hold"
    assert judged(0.0, 0.0, 0.0) == "does not hold"


def test_curvature_is_judged_at_minima_only() -> None:
    rows = {"curvatures": [[1.0, 2.0, 2.0]] * 4, "gradients": [[1e-9, 1e-2, 1e-9]] * 4}
    study = curvature_002.STUDY
    assert verdict(study, "002-pa-increases-mu", rows) == "not testable here"
    assert verdict(study, "002-pa-increases-mu-softened", rows) == "holds"
    assert verdict(study, "002-pa-increases-mu", rows | {"gradients": [[1e-9] * 3] * 4}) == "holds"
    curvature, gradient = curvature_002.smallest_curvature(0, 0.0, None)
    assert curvature > 0.02, "the decay's own 0.02 and the data's"
    assert gradient < curvature_002.AT_MINIMUM
    policy, anchor = curvature_002.random_logits(0)
    low, high = curvature_002.extremes(policy, anchor)
    assert low <= high
    assert torch.allclose(curvature_002.ACROSS.sum(0), torch.zeros(5, dtype=torch.float64))


def test_bounds_follow_the_draws() -> None:
    draws = [draw for draw in map(bounds_002.measure, range(6)) if draw is not None]
    assert all(draw["of_bound"] <= 1 for draw in draws)
    assert all(draw["over_policy"] < 1e-12 < draw["over_data"] for draw in draws)
    figures: Figures = {"draws": draws, "least": {"plain": 0.0, "smoothed": 1e-9, "clipped": 1.0}}
    judged = {claim.id: claim.judge(figures).verdict for claim in bounds_002.STUDY.claims}
    assert judged == {
        "002-pa-gradient-bound": "holds",
        "002-kl-gradient-expectation": "does not hold",
        "002-assumption-7": "holds in part",
        "002-preference-half": "does not hold",
    }
    kinder = {"of_bound": 2.0, "over_data": 0.0, "over_policy": 0.0, "preference": 0.6}
    figures = {"draws": [kinder], "least": {"plain": 0.0, "smoothed": 1.0, "clipped": 1.0}}
    judged = {claim.id: claim.judge(figures).verdict for claim in bounds_002.STUDY.claims}
    assert judged.pop("002-pa-gradient-bound") == "does not hold"
    assert set(judged.values()) == {"holds"}


def test_clipped_logits_keep_their_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds_002, "NUM_STEPS", 100)
    assert bounds_002.least_probability("clipped") >= 1 - 1e-9
    assert bounds_002.least_probability("smoothed") < 0.1


def test_csft_is_compared_with_what_qi_et_al_published() -> None:
    figures = table_statistics_002.run("cpu", lambda share: None)
    claim = next(each for each in table_statistics_002.STUDY.claims if each.id == "002-table-3-published")
    found = claim.judge(figures)
    assert found.verdict == "holds in part"
    assert "3.6 printed, 4.6 published" in found.found
    assert "6.9 printed, 10.9 published" in found.found
    same = {attack: [[0.0, 1.0], [0.0, 1.0]] for attack in figures["minus_published"]}
    assert claim.judge({**figures, "minus_published": same}).verdict == "holds"
