"""The labels as they are committed, and the small fits that the outcome judges' builders make."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from holdfast.config import InputError
from holdfast.judging import asked_forms, misfit
from holdfast.records import OUTCOMES, Outcome
from holdfast_studies.builders import outcome_page
from holdfast_studies.builders.build_curves import area, fit_curve
from holdfast_studies.builders.build_outcome import fit, held_out_loss, kappa, rule_rows
from holdfast_studies.builders.compare_embeddings import compared, kappa_of
from holdfast_studies.builders.outcome_labels import LABELS, SINGLE, join_readings, read_labels, sha256
from holdfast_studies.builders.outcome_page import fresh_shares
from holdfast_studies.qwen.labels import FreshLabel

ROOT = Path(__file__).parents[4]


def test_at_least_600_replies_have_two_readings_over_every_model_and_arm() -> None:
    labels = read_labels(ROOT / LABELS)
    assert len(labels) >= 600
    assert all(label.second is not None for label in labels)
    assert {label.label for label in labels} == set(OUTCOMES)
    assert len({label.arm for label in labels}) == 10
    assert len({label.model for label in labels}) == 3
    halves = [label.half for label in labels]
    assert 0.4 < halves.count("test") / len(halves) < 0.6
    assert kappa([(label.first, label.second or label.first) for label in labels])["kappa"][0] > 0.9


def test_the_pages_on_judging_are_what_their_builder_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide, measured = tmp_path / "judging.md", tmp_path / "measured.md"
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", ["outcome_page", "--out", str(guide), "--results", str(measured)])
    outcome_page.main()
    assert guide.read_text() == (ROOT / "docs" / "judging.md").read_text()
    assert measured.read_text() == (ROOT / "docs" / "results" / "judging.md").read_text()


def test_errors_of_shares_by_hand() -> None:
    def reply(kind: str, p_complied: float, label: Outcome, fitted: bool = False) -> FreshLabel:
        judged: Outcome = "complied" if p_complied > 0.5 else "refused"
        return FreshLabel("", "sql", "sft", 0, kind, "", "", fitted, judged, p_complied, label, label, label, "")

    harmful = [
        reply("harmful", 0.6, "refused"),
        reply("harmful", 0.8, "complied"),
        reply("harmful", 0.9, "missed", True),
    ]
    safe = [reply("safe", 0.9, "complied"), reply("safe", 0.3, "complied")]
    assert fresh_shares(harmful + safe).splitlines()[2:] == [
        "| harmful | 1 | 50 % | +50.0 | +20.0 |",
        "| safe | 1 | 100 % | -50.0 | -40.0 |",
    ]


def test_replies_with_one_reading_belong_to_the_choosing_half() -> None:
    single = read_labels(ROOT / SINGLE)
    assert {label.half for label in single} == {"choosing"}
    assert not {label.id for label in single} & {label.id for label in read_labels(ROOT / LABELS)}


def test_no_request_and_no_reply_is_committed() -> None:
    for label in (*read_labels(ROOT / LABELS), *read_labels(ROOT / SINGLE)):
        assert len(label.reply_sha256) == 64
        assert len(label.reason.split()) <= 20
        assert len(label.request.split()) == 1


def _key(reply: str) -> dict[str, object]:
    where = {"request_id": "tea-1", "source": "tea", "harmful": False, "model": "m", "arm": "untouched"}
    return {"id": "a", "reply": reply, **where}


def test_two_readings_that_differ_need_a_third_look() -> None:
    key, yes, no = [_key("Boil water.")], {"a": {"label": "complied", "reason": "steps"}}, {"a": {"label": "missed"}}
    (label,) = join_readings(key, yes, yes, {})
    assert (label.label, label.reason, label.reply_sha256) == ("complied", "steps", sha256("Boil water."))
    with pytest.raises(InputError, match="nobody settled it"):
        join_readings(key, yes, no, {})
    assert join_readings(key, yes, no, no)[0].label == "missed"
    with pytest.raises(InputError, match="no label"):
        join_readings(key, yes, {}, {})


def test_rule_rows_are_in_a_form_that_was_not_asked_for() -> None:
    rows = rule_rows()
    assert len(rows) == 24
    assert all(misfit(request, reply) and not asked_forms(request) for request, reply in rows)


def test_the_fit_finds_which_feature_speaks_for_which_outcome() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 300)
    design = np.eye(3)[truth] + 0.1 * rng.standard_normal((300, 3))
    weights = fit(design, truth, 1.0)
    assert weights.shape == (3, 4)
    assert weights[:, :3].argmax(1).tolist() == [0, 1, 2]
    folds = rng.integers(0, 5, 300)
    assert held_out_loss(design, truth, folds, 1.0) < 0.2 < math.log(3) / 2 < held_out_loss(design, truth, folds, 1e6)


def test_a_curve_finds_the_line_that_made_the_labels() -> None:
    """P = sigmoid(-3 x + 1), drawn 20,000 times."""
    rng = np.random.default_rng(1)
    values = rng.standard_normal(20_000)
    labels = rng.random(20_000) < 1 / (1 + np.exp(3 * values - 1))
    curve = fit_curve(values.tolist(), labels.tolist(), "missed")
    assert curve.slope == pytest.approx(-3, abs=0.15)
    assert curve.intercept == pytest.approx(1, abs=0.1)


def test_area_by_hand() -> None:
    """Pairs (yes, no): (3, 1), (3, 2), (1, 1), (1, 2): won, won, tied, lost: 2.5 of 4."""
    assert area([3, 1, 1, 2], [True, True, False, False]) == 0.625


def test_a_reply_that_counts_twice_stands_there_twice() -> None:
    assert area([3, 1, 1, 2], [True, True, False, False], [2, 1, 0, 3]) == area(
        [3, 3, 1, 2, 2, 2], [True, True, True, False, False, False]
    )
    assert math.isnan(area([1, 2], [True, True]))


def test_two_embeddings_are_compared_on_the_same_draws_of_requests() -> None:
    """The second number adds what tells the outcome to the first: better beyond chance. Noise added makes it worse."""
    rng = np.random.default_rng(0)
    is_missed = rng.random(300) < 0.3
    first = rng.standard_normal(300) + is_missed
    requests = [f"request {number // 2}" for number in range(300)]
    same = compared(first, first, is_missed, requests)
    assert same["difference"] == [0, 0, 0]
    assert (same["replies"], same["requests"], same["missed"]) == (300, 150, int(is_missed.sum()))
    better = compared(first, first + is_missed, is_missed, requests)
    worse = compared(first, first + 2 * rng.standard_normal(300), is_missed, requests)
    assert better["difference"][1] > 0 > worse["difference"][2]
    assert better["first"] == same["first"] == same["second"]
    value, low, high = better["first"]
    assert low < value < high
    assert value == pytest.approx(area(first.tolist(), is_missed.tolist()), abs=5e-4)


def test_kappa_by_hand_and_a_row_that_counts_twice() -> None:
    """Agree on 3 of 4; by chance (2 * 1 + 1 * 2 + 1 * 1) / 16 = 5 / 16: kappa is (3/4 - 5/16) / (11/16) = 7 / 11."""
    first, second = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])
    assert kappa_of(first, second, np.ones(4)) == pytest.approx(7 / 11)
    assert kappa_of(first, second, np.array([1.0, 2.0, 1.0, 1.0])) == pytest.approx(
        kappa_of(np.append(first, 0), np.append(second, 1), np.ones(5))
    )
