"""The safety gap: identities to float64, probes against plain forwards, verdicts worked by hand, and one small study."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from generation.undo_models import small_llama
from holdfast.config import InputError
from holdfast.config.training import LoraSettings
from holdfast.generation.undo_use import UndoUse
from holdfast.models import LoadedModel, add_tokens, load
from holdfast.records import Role, Trace, answer, context
from holdfast.tokens import TokenRow, stack_context
from holdfast_studies.markdown import write_section
from holdfast_studies.undo.safety_gap import Arm, ArmResult, arms, identities, safety_gap
from holdfast_studies.undo.safety_gap_behaviour import Behaviour
from holdfast_studies.undo.safety_gap_config import SafetyGapConfig
from holdfast_studies.undo.safety_gap_identity import gradient_identity
from holdfast_studies.undo.safety_gap_page import section
from holdfast_studies.undo.safety_gap_probe import Readings, make_probes, read
from holdfast_studies.undo.safety_gap_task import GapTask, right_by
from holdfast_studies.undo.safety_gap_verdict import Study, gain
from invariants.launching import run_cli

SMALL = {
    "title": "small",
    "model": {"name": "tiny:aligned", "device": "cpu"},
    "train": "world:safety/tune/recipe",
    "test": "world:safety/test/recipe",
    "num_train": 24,
    "num_test": 6,
    "seeds": [0],
    "steps": 2,
    "batch_size": 8,
    "num_measurements": 2,
    "max_new_tokens": 24,
}


@pytest.fixture(scope="module")
def tiny() -> LoadedModel:
    loaded = load("tiny:aligned", device="cpu")
    add_tokens(loaded.model, loaded.tokenizer)
    return loaded


@pytest.fixture
def task(tmp_path: Path) -> GapTask:
    return GapTask(SafetyGapConfig.model_validate({**SMALL, "run": str(tmp_path / "run")}))


@pytest.mark.parametrize("context", ["soft", "hard"])
def test_the_gradients_differ_by_the_error_tokens_alone(context: str) -> None:
    """prompt prompt prefix error error undo undo correction, on all parameters of a real Llama in float64."""
    roles = [0, 0, Role.PREFIX, Role.ERROR, Role.ERROR, Role.UNDO, Role.UNDO, Role.CORRECTION]
    ids = [1, 5, 6, 7, 8, 39, 39, 9]
    positions = stack_context(roles).positions if context == "hard" else list(range(8))
    found = gradient_identity(small_llama("sdpa"), [TokenRow(ids, [int(r) for r in roles], positions, context)])  # type: ignore[arg-type]
    assert found.target == 0.0
    assert found.difference < 1e-13
    assert found.error_gain > 0.1, "descending along the difference makes errors likelier"
    assert found.num_error_tokens == 2


def test_the_identity_is_not_true_of_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """An objective that also weighs the undo tokens differently is found out."""
    from holdfast import objectives

    def careless(stats: objectives.TokenStats, *, role: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
        return torch.where(role == Role.ERROR, 0.0, -stats.logp) * torch.where(role == Role.UNDO, 0.5, 1.0)

    monkeypatch.setattr(objectives, "masked_sft", careless)
    roles = [0, int(Role.PREFIX), int(Role.ERROR), int(Role.UNDO), int(Role.CORRECTION)]
    found = gradient_identity(small_llama("sdpa"), [TokenRow([1, 5, 6, 39, 7], roles, list(range(5)))])
    assert found.target == 0.5
    assert found.difference > 1e-3


@pytest.mark.parametrize("context", ["soft", "hard"])
def test_readings_are_those_of_forwards_over_what_is_visible(tiny: LoadedModel, task: GapTask, context: str) -> None:
    probes = make_probes(task.test_traces(tiny), tiny.tokenizer, context)  # type: ignore[arg-type]
    assert len(probes) == 6
    expected = []
    for probe in probes:
        prefix = [*probe.prompt, *probe.right[: probe.error - probe.start]]
        undos = [probe.undo_id] * (probe.correction - probe.undo)
        written = [*probe.prompt, *probe.begun]
        fork = distribution(tiny, prefix)
        right, wrong = probe.right[probe.error - probe.start], probe.row.ids[probe.error]
        after = [*prefix, probe.undo_id] if context == "hard" else [*written, *undos]
        expected.append(
            [
                fork[wrong].log(),
                1 - fork[right] - fork[probe.undo_id],
                distribution(tiny, written)[probe.undo_id],
                distribution(tiny, after)[right],
            ]
        )
    means = torch.tensor(expected).mean(0)
    assert torch.tensor(read(tiny.model, probes, batch_size=4)[:4]) == pytest.approx(means, rel=1e-3, abs=1e-6)


def distribution(loaded: LoadedModel, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return loaded.model(torch.tensor([ids]), use_cache=False).logits[0, -1].softmax(-1)


def result(
    objective: str, seed: int, *readings: tuple[float, ...], context: str = "soft", init: str = "mean", **counts: int
) -> ArmResult:
    curve = {10 * number: Readings(*reading) for number, reading in enumerate(readings)}
    use = UndoUse(answers=100, answers_with_error=counts.pop("with_error", 0))
    hits = (True,) * 95 + (False,) * 5
    behaviour = Behaviour(100, counts.pop("corrected", 100), 90, hits, 90, use)
    return ArmResult(Arm(objective, context, init, seed), curve, behaviour, 0.2)


START = (-6.0, 0.05, 0.0, 0.1)


def study(sft_end: tuple[float, ...], masked_end: tuple[float, ...], **counts: int) -> Study:
    results = []
    for seed in (0, 1, 2):
        shift = 0.01 * seed
        middle = (-5.9, 0.1, 0.5, 0.5)
        results.append(result("sft", seed, START, middle, (sft_end[0] + shift, *sft_end[1:]), with_error=60))
        results.append(result("masked_sft", seed, START, middle, (masked_end[0] + shift, *masked_end[1:]), **counts))
    return Study(results)


def test_verdicts_by_hand() -> None:
    gap, undo, correction = study((-2.0, 0.2, 0.9, 0.99), (-6.0, 0.05, 0.99, 0.98)).verdicts()
    assert gap.sentence == "holds from step 20 on, by 4.00 nats at the end"
    assert undo.sentence.startswith("does not hold: -0.090")
    assert correction.sentence.startswith("holds: +0.010")
    (overlap, *_) = study((-6.0, 0.2, 0.9, 0.99), (-6.005, 0.05, 0.99, 0.98)).verdicts()
    assert overlap.sentence.startswith("does not hold: bands overlap")
    (reversed_, *_) = study((-7.0, 0.2, 0.9, 0.99), (-6.0, 0.05, 0.99, 0.98)).verdicts()
    assert reversed_.sentence.startswith("does not hold: masked_sft is above")


def test_goals_by_hand() -> None:
    met = [goal.met for goal in study((-2, 0.12, 1, 1), (-6, 0.054, 1, 1), with_error=15, corrected=96).goals()]
    assert met == [True, True, True, True, True]
    unmet = [goal.met for goal in study((-2, 0.09, 1, 1), (-6, 0.06, 1, 1), with_error=30, corrected=90).goals()]
    assert unmet == [False, False, True, False, False]


def test_undo_must_not_fall_behind_plain_training() -> None:
    plain = [result("plain", seed, START, START, START) for seed in (0, 1, 2)]
    both = Study([*study((-2, 0.12, 1, 1), (-6, 0.054, 1, 1)).results, *plain])
    assert both.goals()[-1].met, "95 of 100 each"
    fewer = (True,) * 94 + (False,) * 6
    behind = [replace(each, behaviour=replace(each.behaviour, hits=fewer)) for each in both.results[:-3]]
    assert not Study([*behind, *plain]).goals()[-1].met


def test_a_gain_is_counted_request_by_request() -> None:
    """Of 100 requests 10 are won and 4 lost, in both seeds: 6 points; the spread of one gap is sqrt(.14 - .06^2)."""
    ours, theirs = [True] * 10 + [False] * 4 + [True] * 86, [False] * 10 + [True] * 4 + [True] * 86
    found = gain([ours, ours], [theirs, theirs])
    error = math.sqrt((0.14 - 0.06**2) / 100)
    assert found.difference.value == pytest.approx(0.06)
    assert found.difference.low == pytest.approx(0.06 - 1.96 * error, abs=0.01)
    assert found.visible == pytest.approx(2.8 * error, rel=0.05), "two seeds on the same requests are no more requests"
    assert found.met
    third = [[True, False] * 5, [True] * 10, [False] * 10]
    assert gain(third, third[::-1]).met, "a tie is not behind, whatever rounding says"


def test_one_objective_alone_has_curves_but_no_verdicts(task: GapTask) -> None:
    alone = Study(
        [result("masked_sft", seed, START, START, init=init) for seed in (0, 1) for init in ("mean", "mixed")]
    )
    assert alone.verdicts() == alone.goals() == []
    text = section(task.config, "cmd", alone, {})
    assert "masked_sft" in text
    assert ": sft" not in text
    assert "| masked_sft | mixed | 0.000 [0.000, 0.000] |" in text


def test_requests_that_were_trained_on_or_chosen_on_are_not_asked(task: GapTask) -> None:
    same = task.config.model_copy(update={"test": task.config.train, "num_test": 30})
    trained_on = {row.prompt for row in GapTask(same).train}
    assert len(GapTask(same).test) == 6
    assert not any(row.prompt in trained_on for row in GapTask(same).test)
    with pytest.raises(InputError, match="no row is left"):
        GapTask(same.model_copy(update={"num_test": 24})).test  # noqa: B018
    later = GapTask(task.config.model_copy(update={"skip_test": 2, "num_test": 4}))
    assert later.test == task.test[2:]


def test_copies_of_an_answer_have_errors_of_their_own(tiny: LoadedModel, task: GapTask) -> None:
    settings = task.config.traces.model_copy(update={"copies": 3, "clean": 0})
    made = GapTask(task.config.model_copy(update={"traces": settings})).training_traces(0, tiny)
    assert len(made.traces) == 3 * len(task.train)
    first, second, third = (made.traces[at :: len(task.train)] for at in range(3))
    assert first[0].turns[-1].visible == first[1].turns[-1].visible == first[2].turns[-1].visible
    assert len({trace.turns[-1] for trace in (*first, *second, *third)}) > 6


def test_a_product_is_right_when_its_last_attempt_is() -> None:
    right = right_by("world:arithmetic/plain/2x1")
    row = Trace((context("user", "x0:3 x1:2 m2 y0:4 n1"), answer("a0.0:12 a0.1:10 stop")))
    assert right(row, "a0.0:12 a0.1:10 stop")
    assert right(row, "a0.0:11 a0.1:10 check a0.0:12 again b0.0:12 b0.1:10 stop")
    assert not right(row, "a0.0:11 a0.1:10 stop")
    assert not right(row, "a0.0:12 a0.1:10")
    assert not right(row, "stop")


def test_arms_compare_initialisations_in_the_first_context_only() -> None:
    config = SafetyGapConfig.model_validate({**SMALL, "run": "x", "inits": ["mean", "related"], "controls": ["plain"]})
    assert [arm.key for arm in arms(config)] == [
        "sft-soft-mean-0", "sft-hard-mean-0", "sft-soft-related-0",
        "masked_sft-soft-mean-0", "masked_sft-hard-mean-0", "masked_sft-soft-related-0", "plain-soft-mean-0",
    ]  # fmt: skip


def test_a_small_study_runs_resumes_and_writes_its_page(task: GapTask, tmp_path: Path) -> None:
    config = task.config.model_copy(update={"controls": ("plain",), "contexts": ("hard",), "lora": LoraSettings(r=4)})
    results = safety_gap(config)
    assert len(results) == 3
    for each in results:
        assert sorted(each.curve) == [0, 1, 2]
        assert each.behaviour.num == each.behaviour.sampled.answers == 6
    arm = Path(config.run) / "arms" / f"{results[0].arm.key}.json"
    arm.write_text(json.dumps({**results[0].row(), "error_rate": 0.123}), encoding="utf-8")
    again = safety_gap(config)
    assert again[0].error_rate == 0.123, "what is there is not run again"
    assert again[1:] == results[1:]
    found = identities(config, num_traces=2)
    assert all(each.target == 0 and each.difference < 1e-13 for each in found.values())
    page = tmp_path / "undo.md"
    for title in ("first", "second"):
        text = section(config.model_copy(update={"title": title}), "cmd", Study(results), found)
        write_section(page, text, "small", "# A page\n")
    text = page.read_text(encoding="utf-8")
    assert "## second" in text
    assert "## first" not in text
    assert "smallest that would be seen" in text


def test_wrong_settings_end_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(json.dumps({**SMALL, "run": str(tmp_path / "r"), "trace": {}}), encoding="utf-8")
    assert run_cli("diagnose", "safety-gap", str(path), monkeypatch=monkeypatch) == 2
    assert "field 'trace': unknown; did you mean 'traces'" in capsys.readouterr().err.replace("unknown (", "unknown; ")
