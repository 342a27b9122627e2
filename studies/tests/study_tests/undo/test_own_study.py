"""A study of own errors: one small run with every control, its probes against plain forwards, its page and its cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.config import InputError
from holdfast.generation.undo_use import UndoUse
from holdfast.models import add_tokens, load
from holdfast_studies.cli.undo import shown_command
from holdfast_studies.undo.own_cost import cost_table, costs
from holdfast_studies.undo.own_figures import OwnFigures, Pool, Way
from holdfast_studies.undo.own_page import section
from holdfast_studies.undo.retry import Try
from holdfast_studies.undo.safety_gap import Arm, ArmResult, arms, check_files, safety_gap
from holdfast_studies.undo.safety_gap_behaviour import Behaviour
from holdfast_studies.undo.safety_gap_config import FileHashes, SafetyGapConfig
from holdfast_studies.undo.safety_gap_probe import Readings, make_probes, make_right_rows, read
from holdfast_studies.undo.safety_gap_task import GapTask
from holdfast_studies.undo.safety_gap_verdict import Study

SMALL: dict[str, Any] = {
    "title": "small",
    "model": {"name": "tiny:base", "device": "cpu"},
    "train": "world:safety/tune/place",
    "test": "world:safety/test/place",
    "num_train": 6,
    "num_test": 5,
    "traces": {
        "builder": "own",
        "clean": 0.3,
        "copies": 2,
        "own": {"num_attempts": 6, "num_rollouts": 3, "temperature": 2.0},
    },
    "objectives": ["masked_sft"],
    "contexts": ["hard"],
    "controls": ["untouched", "own"],
    "seeds": [0],
    "steps": 1,
    "batch_size": 4,
    "num_measurements": 2,
    "max_new_tokens": 10,
    "num_sampled": 2,
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> SafetyGapConfig:
    return SafetyGapConfig.model_validate({**SMALL, "run": str(tmp_path_factory.mktemp("own") / "run")})


@pytest.fixture(scope="module")
def results(config: SafetyGapConfig) -> list[ArmResult]:
    return safety_gap(config)


def test_a_small_study_runs_and_resumes(config: SafetyGapConfig, results: list[ArmResult]) -> None:
    assert [each.arm.key for each in results] == ["masked_sft-hard-mean-0", "untouched-soft-mean-0", "own-soft-mean-0"]
    undo, untouched, own = (each.behaviour for each in results)
    assert sorted(results[0].curve) == [0, 1]
    assert list(results[1].curve) == [0]
    for behaviour in (undo, untouched, own):
        assert len(behaviour.hits) == len(behaviour.tries) == 5
        assert {len(tries) for tries in behaviour.tries} == {2}
        assert behaviour.sampled_right == sum(each.right for tries in behaviour.tries for each in tries)
    assert all(each.mean_logp is None for tries in undo.tries for each in tries)
    assert all(each.mean_logp is not None and not each.num_undos for tries in own.tries for each in tries)
    assert undo.num == len(GapTask(config).own("test").usable)
    assert safety_gap(config) == results


def test_p_undo_after_right_steps_is_that_of_plain_forwards(config: SafetyGapConfig, results: list[ArmResult]) -> None:
    task, tiny = GapTask(config), load("tiny:base", device="cpu")
    add_tokens(tiny.model, tiny.tokenizer, init="mean")
    rows = make_right_rows(task.own("test").right_steps(), tiny.tokenizer, "soft")
    probes = make_probes(task.test_traces(tiny), tiny.tokenizer, "soft")
    expected = []
    for each, attempts in zip(rows, task.own("test").usable, strict=True):
        assert len(each.ends) == len(task.own("test").task.steps(attempts.right[0]))
        with torch.no_grad():
            logits = tiny.model(torch.tensor([each.row.ids]), use_cache=False).logits[0]
        expected.append(torch.stack([logits[end - 1].softmax(-1)[each.undo_id] for end in each.ends]).mean())
    reading = read(tiny.model, probes, rows, batch_size=2)
    assert reading.p_undo_right == pytest.approx(float(torch.stack(expected).mean()), rel=1e-4)
    assert results[1].curve[0].p_undo_right == pytest.approx(reading.p_undo_right, rel=1e-4)


def test_the_cost_is_counted_before_anything_is_drawn(config: SafetyGapConfig, tmp_path: Path) -> None:
    """6 + 5 requests, 6 attempts, 2 wrong ones (test: 1), 3 continuations; arms: 1 with undo, 2 without; 3 answers each."""
    fresh = config.model_copy(update={"run": str(tmp_path / "none")})
    assert [item.answers for item in costs(GapTask(fresh))] == [36, 30, 36, 15, 2 * 5 * 3, 5 * 3 + 5]
    text = cost_table(fresh)
    assert "nothing is drawn yet" in text
    assert "2 trainings of 1 steps with 4 rows: 2 steps, 8 rows." in text
    assert not (tmp_path / "none").exists()


def test_a_file_that_is_not_the_studys_is_refused(config: SafetyGapConfig, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("{}\n", encoding="utf-8")
    named = {"train": f"gsm8k:{path}", "sha256": FileHashes(train="0" * 64)}
    with pytest.raises(InputError, match="another file than that of this study: sha256 ca3d163bab05"):
        check_files(config.model_copy(update=named))
    check_files(config.model_copy(update={"sha256": FileHashes(model="0" * 64)}))  # a name of a hub has no file


def test_controls_need_own_traces() -> None:
    with pytest.raises(ValueError, match="controls: own need"):
        SafetyGapConfig.model_validate(
            {**SMALL, "run": "x", "traces": {"builder": "perturb"}, "controls": ["plain", "own"]}
        )
    both = {**SMALL, "run": "x", "contexts": ["soft", "hard"], "controls": ["random_undo", "plain"]}
    keys = [arm.key for arm in arms(SafetyGapConfig.model_validate(both))]
    assert keys == [
        f"{name}-mean-0" for name in ("masked_sft-soft", "masked_sft-hard", "random_undo-soft", "plain-soft")
    ]


def by_hand(objective: str, context: str, seed: int, tries: list[list[Try]], hits: tuple[bool, ...]) -> ArmResult:
    reading = Readings(-5.0, 0.1, 0.5, 0.5, 0.25)
    behaviour = Behaviour(2, 1, 1, hits, 0, UndoUse(), (), tuple(map(tuple, tries)))
    curve = {0: reading} if objective == "untouched" else {0: reading, 1: reading}
    return ArmResult(Arm(objective, context, "mean", seed), curve, behaviour, 0.2)


def test_figures_by_hand(config: SafetyGapConfig) -> None:
    """Two requests. Undo: right in 3 of 4 samples, 30 tokens a round. Retry by `own`: 16 tokens, then 14 more of 24."""
    undo = [[Try(True, 10, 2), Try(True, 14, 4)], [Try(False, 18), Try(True, 18)]]
    own = [[Try(False, 8, 0, -2.0), Try(True, 12, 0, -1.0)], [Try(False, 8, 0, -2.0), Try(True, 12, 0, -1.0)]]
    results = [
        by_hand("masked_sft", "hard", 0, undo, (True, True)),
        by_hand("untouched", "soft", 0, own, (False, False)),
        by_hand("own", "soft", 0, own, (True, False)),
    ]
    figures = OwnFigures(Study(results))
    ours, _, theirs = figures.ways
    assert ours == Way("masked_sft", "hard")
    assert figures.retrying() == theirs == Way("own", "soft")
    assert figures.accuracy(ours, greedy=False).value == 0.75
    assert figures.tokens(ours) == 15
    assert figures.undo_tokens(ours) == 1.5
    assert figures.undone(ours).value == 0.5
    assert figures.wrong_without_undo(ours).value == 0.5
    assert figures.wrong_with_undo(ours).value == 0
    assert figures.against(ours, theirs, greedy=True).difference.value == 0.5
    (retried,) = figures.retries(ours)
    assert (retried.spent, retried.num_retries, sum(retried.chosen)) == (30, 1, 1)
    gained = figures.against_retry(ours, best=False)
    assert gained is not None
    assert gained.difference.value == 0.25
    pool = Pool(3, 24, 12, 1, 0, 2, 3, 1, 0, 2.5)
    text = section(config, "cmd", figures, {"train": pool, "test": pool}, {})
    assert "| masked_sft on traces, hard | sft on own right answers | +50.0 " in text
    assert "| masked_sft on traces, hard | plain retry, the likeliest | - | - | +25.0 " in text
    assert "15.0 tokens per request for undo, 15.0 for retry, which finished 1.0 further answers." in text
    json.dumps(figures.row())


def test_a_page_names_models_and_files_without_their_folders(config: SafetyGapConfig, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    rows = tmp_path / "rows.jsonl"
    rows.touch()
    words = [f"model.name={tmp_path / 'm'}", f"train=gsm8k:{rows}", "test=world:safety/test/place", "seeds=[0]"]
    command = shown_command("safety-gap", Path("c.yaml"), words)
    assert command.endswith(" c.yaml model.name=m train=gsm8k:rows.jsonl test=world:safety/test/place seeds=[0]")
    model = config.model.model_copy(update={"name": str(tmp_path / "m")})
    figures = OwnFigures(Study([by_hand("own", "soft", 0, [[Try(True, 8, 0, -2.0)]], (True,))]))
    text = section(config.model_copy(update={"model": model}), command, figures, {}, {})
    assert "seeds=[0]`. m, 1 steps of" in text
    assert str(tmp_path) not in text
