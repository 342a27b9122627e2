"""Settings that a config file cannot check by itself: refused in one line before the run directory is anybody's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from conftest import save_learned_positions, save_small_model
from holdfast import objectives
from holdfast.config import InputError
from holdfast.config.training import StreamSettings
from holdfast.heads import TokenStats
from holdfast.objectives import Objective
from holdfast.training.streams import bind_objective
from training.runs import config, run

ROWS = "world:safety/tune/guide"


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"streams": [{"data": ROWS, "objective": "csft", "options": {"beta": {"frist": 1}}}]}, "did you mean 'first'"),
        (
            {"streams": [{"data": ROWS, "objective": "csft", "options": {"beta": "abc"}}]},
            "wrong kind in {'beta': 'abc'}",
        ),
        ({"streams": [{"data": ROWS, "objective": "first_k_masked", "options": {"k": "abc"}}]}, "{'k': 'abc'}"),
        ({"streams": [{"data": ROWS, "objective": "pa", "options": {"kl": "foo"}}]}, "kl: unknown 'foo'; known: grad"),
        ({"streams": [{"data": ROWS, "objective": "pa", "options": {"soften": -1}}]}, "expected a temperature above 0"),
        (
            {"streams": [{"data": ROWS, "objective": "csft", "options": {"soften": 1.0}}]},
            "field 'streams.0.options.soften': csft has no such option; it takes: beta, floor",
        ),
        (
            {"streams": [{"data": ROWS, "objective": "csft", "train_on_prompt": True}]},
            "field 'streams.0.train_on_prompt': csft counts from the start of an answer",
        ),
        ({"training": {"scheduler": "linaer"}}, "field 'training.scheduler': unknown 'linaer'; did you mean 'linear'"),
        ({"training": {"scheduler": "cosine_with_min_lr"}}, "'cosine_with_min_lr' wants settings of its own"),
        ({"training": {"scheduler": "reduce_lr_on_plateau"}}, "'reduce_lr_on_plateau' goes by evaluations"),
        ({"training": {"optimizer": "schedule_free_adamw"}}, "field 'training.optimizer': You need to install"),
        ({"training": {"optimizer": "foo"}}, "field 'training.optimizer': unknown 'foo'; known: "),
        ({"report_to": ["tensorbord"]}, "field 'report_to': unknown 'tensorbord'; did you mean 'tensorboard'"),
        ({"lora": {"targets": "nosuch"}}, "field 'lora': Target modules nosuch not found"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_it_is_refused_and_the_right_settings_then_run_there(
    wrong: dict[str, Any], line: str, tmp_path: Path, small_model: Path
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(InputError) as caught:
        run(config(folder, small_model, **wrong))
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (folder / "config.yaml").exists()


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"streams": [{"data": ROWS, "objective": "csf"}]}, "field 'streams.0.objective': unknown 'csf'"),
        ({"streams": [{"data": "gone.jsonl"}]}, "field 'streams.0.data': gone.jsonl: no such file"),
        ({"streams": [{"data": "world:safety/tune/guid"}]}, "field 'streams.0.data': kind of request 'guid'"),
        (
            {"streams": [{"data": ROWS}, {"data": "prompts:safty", "objective": "distill"}]},
            "field 'streams.1.data': 'prompts:safty'",
        ),
        ({"streams": [{"data": ROWS, "vet": "outcom"}]}, "field 'streams.0.vet': judge 'outcom': no such judge"),
        ({"streams": [{"data": ROWS, "vet": "at:0.5:outcom"}]}, "field 'streams.0.vet': judge 'outcom'"),
        ({"streams": [{"data": "prompts:safety", "vet": "world"}]}, "field 'streams.0.vet': the anchor's own answers"),
        ({"streams": [{"data": ROWS, "name": "a"}, {"data": ROWS, "name": "a"}]}, "field 'streams.1.name': 'a' is"),
        ({"training": {"scheduler": "linaer"}}, "field 'training.scheduler': unknown 'linaer'"),
        ({"training": {"optimizer": "adamm"}}, "field 'training.optimizer': unknown 'adamm'"),
        ({"training": {"micro_batch": 3}}, "training.micro_batch: 3 does not divide"),
        ({"anchor": {"model": "./gone"}}, "field 'anchor.model': model './gone': there is no such folder"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value.partition(" ")[2][:30],
)
def test_what_needs_no_model_is_checked_before_one_is_loaded(wrong: dict[str, Any], line: str, tmp_path: Path) -> None:
    """There is no such model either, and that is told second."""
    with pytest.raises(InputError) as caught:
        run(config(tmp_path / "run", "./no/such/model", **wrong))
    assert line in str(caught.value)


def test_bad_rows_are_told_before_the_model_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "hello", "completion": 3}\n')
    with pytest.raises(InputError, match=rf"^{path}:1: field 'completion'"):
        run(config(tmp_path / "run", "./no/such/model", streams=[{"data": str(path)}]))


def test_after_a_mistake_the_same_folder_can_be_used(tmp_path: Path, small_model: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(InputError):
        run(config(folder, small_model, training={"scheduler": "foo"}))
    assert run(config(folder, small_model)).model.is_dir()


def test_rows_beyond_the_models_positions(tmp_path: Path) -> None:
    """Learned positions (GPT-2) end: refused with the setting that helps. Rotary ones do not: it is said."""
    save_learned_positions(tmp_path / "learned", 16)
    with pytest.raises(InputError, match=r"rows of up to \d\d tokens, .* 16 positions: set training.max_length: 16"):
        run(config(tmp_path / "run", tmp_path / "learned"))
    run(config(tmp_path / "run", tmp_path / "learned", training={"max_length": 16}))
    rotary = save_small_model(tmp_path / "rotary", max_position_embeddings=16)
    said: list[str] = []
    run(config(tmp_path / "rotary-run", rotary), said)
    assert any("16 positions: what it makes of those beyond is untrained" in line for line in said)


def test_a_file_is_no_run(tmp_path: Path, small_model: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(InputError, match=r"field 'run': .* is a file; expected a folder"):
        run(config(tmp_path / "run", small_model))


def test_a_run_that_cannot_be_written_is_told_before_the_model_is_loaded(tmp_path: Path, small_model: Path) -> None:
    (tmp_path / "file").write_text("")
    said: list[str] = []
    with pytest.raises(InputError, match=r"field 'run': .*/file/run cannot be made: .*/file is no folder"):
        run(config(tmp_path / "file" / "run", small_model), said)
    assert said == []


def _mean(stats: TokenStats) -> Tensor:
    return -stats.logp.mean()


def _undeclared(stats: TokenStats) -> Tensor:
    return -stats.logp + stats.need("kl")


def _demanding(stats: TokenStats, *, strength: float) -> Tensor:
    return -strength * stats.logp


def _detached(stats: TokenStats) -> Tensor:
    return -stats.logp.detach()


@pytest.mark.parametrize(
    ("function", "reads", "line"),
    [
        (_mean, ("logp",), "expected a loss for each of 2 tokens, got shape ()"),
        (_undeclared, ("logp",), "'kl' is missing"),
        (_undeclared, ("logp", "kll"), "reads 'kll'; did you mean 'kl'?"),
        (_undeclared, None, "expected objectives.REGISTRY['own'] = Objective('own', function, reads="),
        (_demanding, ("logp",), "missing 1 required keyword-only argument: 'strength'"),
        (_detached, ("logp",), "its loss has no gradient"),
    ],
)
def test_a_wrong_objective_of_ones_own_is_told_before_training(
    function: Callable[..., Tensor], reads: tuple[str, ...] | None, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = function if reads is None else Objective("own", function, reads=reads)
    monkeypatch.setitem(objectives.REGISTRY, "own", own)  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        bind_objective(StreamSettings(data=ROWS, objective="own"), 0)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("gauge", "line"),
    [
        (lambda stats: stats.need("kl"), "gauge 'far': InputError: "),
        (lambda stats: stats.logp.mean(), "gauge 'far': expected a figure for each of 2 tokens"),
    ],
)
def test_a_wrong_gauge_of_ones_own_is_told_before_training(
    gauge: Callable[..., Tensor], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Objective("own", objectives.sft, reads=("logp",), gauges={"far": gauge})
    monkeypatch.setitem(objectives.REGISTRY, "own", own)
    with pytest.raises(InputError) as caught:
        bind_objective(StreamSettings(data=ROWS, objective="own"), 0)
    assert line in str(caught.value)


def test_gauges_get_their_options_and_a_schedule_yields_to_the_config(monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(stats: TokenStats, *, strength: float = 1.0, near: float = 2.0) -> Tensor:
        return -strength * near * stats.logp

    own = Objective(
        "own",
        loss,
        reads=("logp",),
        gauges={"nearness": lambda stats, *, near=2.0: near * torch.ones_like(stats.logp)},
        schedule={"strength": lambda progress: 1 + progress},
    )
    monkeypatch.setitem(objectives.REGISTRY, "own", own)
    logp, place = torch.tensor([-1.0]), torch.tensor([0])
    stats = TokenStats(logp, place)
    free = bind_objective(StreamSettings(data=ROWS, objective="own", options={"near": 3.0}), 0)
    assert [free.loss(stats, place, place, progress).item() for progress in (0.0, 0.5, 1.0)] == [3.0, 4.5, 6.0]
    assert free.gauges["nearness"](stats, place).item() == 3.0
    fixed = bind_objective(StreamSettings(data=ROWS, objective="own", options={"strength": 7.0}), 0)
    assert [fixed.loss(stats, place, place, progress).item() for progress in (0.0, 1.0)] == [14.0, 14.0]
    assert fixed.gauges["nearness"](stats, place).item() == 2.0


@pytest.mark.parametrize(
    ("objective", "options", "gauges"),
    [
        ("sft", {}, []),
        ("csft", {}, ["w", "pa_active"]),
        ("pa", {}, ["kl", "pa_minus_log2", "pa_active"]),
        ("pa", {"kl": "ignore"}, ["pa_minus_log2", "pa_active"]),
        ("csft_pa", {}, ["w", "kl", "pa_minus_log2", "pa_active"]),
        ("csft_pa", {"kl": "ignore"}, ["w", "pa_minus_log2", "pa_active"]),
        ("kl_sft", {}, ["kl", "pa_active"]),
        ("distill", {}, ["kl_rev", "pa_active"]),
    ],
)
def test_gauges_keep_their_order(objective: str, options: dict[str, Any], gauges: list[str]) -> None:
    """A checkpoint keeps their sums in this order, without names."""
    assert list(bind_objective(StreamSettings(data=ROWS, objective=objective, options=options), 0).gauges) == gauges


def test_an_objective_of_ones_own_may_read_entropy_and_be_called_anything(
    tmp_path: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name with csft or pa in it brought gauges of csft and pa, which need an anchor."""
    own = Objective("my_pa_csft", lambda stats: -stats.logp - 0.1 * stats.need("entropy"), reads=("logp", "entropy"))
    monkeypatch.setitem(objectives.REGISTRY, "my_pa_csft", own)
    result = run(config(tmp_path / "run", small_model, streams=[{"data": ROWS, "objective": "my_pa_csft"}]))
    assert result.model.is_dir()


def test_rows_that_the_tokenizer_refuses_count_among_those_that_may_be_skipped(
    tmp_path: Path, small_model: Path
) -> None:
    good = {"prompt": "sort : 3 1 2", "segments": [{"role": "response", "text": "1 2 3"}]}
    undo = {"prompt": "sort : 3 1 2", "segments": [{"role": "error", "text": "3"}, {"role": "undo"}]}  # no such token
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in (undo, good, good, {"prompt": 1, "segments": []})))
    said: list[str] = []
    with pytest.raises(InputError, match=r"rows\.jsonl:1: this tokenizer has no <UNDO>"):
        run(config(tmp_path / "run", small_model, streams=[{"data": str(path), "skip_bad": 1}]))
    run(config(tmp_path / "run", small_model, streams=[{"data": str(path), "skip_bad": 2}]), said)
    assert any(f"3 conversations -> 2 rows; 1 bad ones skipped: {path}:1: this tokenizer" in line for line in said)
