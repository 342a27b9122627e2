"""Streams with a budget (``hold:``): what the loss is, that it does not matter how a step is divided, and how a run ends."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import GenerationConfig

import holdfast as hf
from conftest import save_small_model
from holdfast.config import InputError, TrainConfig, dump_config
from holdfast.config.loading import validated
from holdfast.config.training import HoldSettings
from holdfast.records import Role
from holdfast.tokens import TokenRow
from holdfast.training.anchor_answers import SAMPLES, answer_prompts, divided
from holdfast.training.budget import Controller, DriftBudgets, drift_means, drift_sums, width
from holdfast.training.collate import EARLY, LATE, Collator, StreamRow
from holdfast.training.drift import Drift, sentence
from holdfast.training.policy import load_model
from holdfast.training.streams import fresh_file, read_data
from holdfast.worlds.tokenizer import build_tokenizer
from invariants.launching import figures, launch, steps
from training.runs import config, run, weights

TASK = {"data": "world:safety/train/recipe", "objective": "sft", "name": "task", "limit": 32}
SAFETY = {"data": "prompts:safety", "objective": "distill", "name": "safety", "limit": 20, "hold": True}
TRAINING = {"batch_size": 8, "micro_batch": 8, "max_steps": 6, "lr": 5e-3, "save_every": 2, "keep": 9}


def held_config(folder: Path, model: Path | str, **changes: Any) -> TrainConfig:
    training = {**TRAINING, **changes.pop("training", {})}
    return config(folder, model, **{"streams": [TASK, SAFETY], "training": training, **changes})


def drift_of(folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((folder / "hold.json").read_text(encoding="utf-8"))
    return summary


@pytest.fixture(scope="module")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every twelfth word ends its answers. A random model's have no end of their own, and drawing them is most of a run."""
    folder = save_small_model(tmp_path_factory.mktemp("small"))
    tokenizer = build_tokenizer()
    ends = [tokenizer.eos_token_id, *range(11, len(tokenizer), 12)]
    GenerationConfig(eos_token_id=ends, pad_token_id=tokenizer.pad_token_id).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, small_model: Path) -> Path:
    """8 rows in one pass of one process."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(held_config(folder, small_model))
    return folder


def stream_error(**changes: Any) -> str:
    settings = {"run": "r", "model": "m", "streams": [{**SAFETY, **changes}]}
    with pytest.raises(InputError) as caught:
        validated(TrainConfig, settings, "c.yaml")
    return str(caught.value)


def test_what_hold_may_stand_beside() -> None:
    assert "give one of the two" in stream_error(weight=1)
    assert "the prompt would count as their beginning" in stream_error(train_on_prompt=True)
    assert "objective: distill" in stream_error(objective="sft")
    assert "without options" in stream_error(options={"soften": 2})
    assert "prompts that the anchor answers" in stream_error(data="rows.jsonl")
    assert "hold.early" in stream_error(hold={"early": 0})
    assert "hold.erly" in stream_error(hold={"erly": 0.1})
    assert "hold.wide" in stream_error(hold={"wide": 0.5})
    assert "hold.tokens" in stream_error(hold={"tokens": 4})
    assert "the first stream sets the steps" in stream_error(hold={"every": 2})


def test_hold_in_a_config(tmp_path: Path) -> None:
    """What is written out loads back; true is the default budgets, false none."""
    settings = held_config(tmp_path, "m")
    assert settings.streams[1].hold == HoldSettings(early=0.03, late=0.02, wide=30)
    assert TrainConfig.model_validate(yaml.safe_load(dump_config(settings))) == settings
    one = held_config(tmp_path, "m", streams=[TASK, {**SAFETY, "hold": {"early": 0.1}}]).streams[1]
    assert one.hold == HoldSettings(early=0.1, late=0.02)
    assert held_config(tmp_path, "m", streams=[TASK, {**SAFETY, "hold": False}]).streams[1].hold is None


def test_hold_in_python(tmp_path: Path) -> None:
    streams = hf.held("safety", ["one", "two"], hold={"early": 0.05})
    assert [stream.settings()["hold"] for stream in streams] == [{"early": 0.05}] * 2
    assert "weight" not in streams[0].settings()
    both = hf.held("safety", weight=2.0, hold=True)
    with pytest.raises(InputError, match="give one of the two"):
        hf.train("tiny:aligned", both, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_prompts_that_measure_are_not_those_that_are_held() -> None:
    prompts = [f"prompt {number}" for number in range(50)]
    fresh, rest = divided(prompts)
    assert (len(fresh), len(rest)) == (10, 40)
    assert set(fresh) | set(rest) == set(prompts)
    again, others = divided([*prompts[::-1], prompts[3]])  # by what they say, in whatever order and however often
    assert (set(again), set(others)) == (set(fresh), set(rest))


def test_answers_are_sampled_and_the_fresh_ones_kept_apart(tmp_path: Path) -> None:
    settings = held_config(tmp_path / "run", "tiny:aligned")
    loaded, _ = load_model(settings, "tiny:aligned")
    stream = answer_prompts(settings, loaded, tmp_path / "run", lambda _: None)[1]
    held = Path(stream.data)
    assert len(read_data(stream).traces) == 16 * SAMPLES, "the limit counts prompts, not answers"
    files = {path: [json.loads(line) for line in path.read_text().splitlines()] for path in (held, fresh_file(held))}
    prompts = {path: [row["messages"][0]["content"] for row in rows] for path, rows in files.items()}
    assert len(set(prompts[held])) == 16
    assert len(prompts[held]) == 16 * SAMPLES
    assert len(set(prompts[fresh_file(held)])) == 4
    assert not set(prompts[held]) & set(prompts[fresh_file(held)])
    answers = {
        row["messages"][1]["content"] for row in files[held] if row["messages"][0]["content"] == prompts[held][0]
    }
    text = held.read_text()
    shutil.rmtree(held.parent)
    assert Path(answer_prompts(settings, loaded, tmp_path / "run", lambda _: None)[1].data) == held
    assert held.read_text() == text, "the same seed draws the same answers"
    assert answers


def test_other_weights_in_the_anchors_folder_answer_anew(tmp_path: Path, small_model: Path) -> None:
    """The files of answers are named by what the anchor holds, not by where it lies."""
    folder = shutil.copytree(small_model, tmp_path / "model")
    settings = held_config(tmp_path / "run", folder)
    loaded, _ = load_model(settings, str(folder))

    def held() -> Path:
        return Path(answer_prompts(settings, loaded, tmp_path / "run", lambda _: None)[1].data)

    first = held()
    (folder / "model.safetensors").touch()
    assert held() == first, "the same weights"
    weights_file = folder / "model.safetensors"
    changed = bytearray(weights_file.read_bytes())
    changed[-1] ^= 1
    weights_file.write_bytes(changed)
    assert held() != first


def test_the_loss_is_the_task_and_lambda_times_the_drift(whole: Path) -> None:
    """Row by row, with the lambda that the row before has left."""
    lambdas = {"early": Controller().weight, "late": Controller().weight}
    rows = steps(whole)
    for row in rows:
        safety = row["streams"]["safety"]
        held = sum(lambdas[part] * safety[f"k_{part}"] for part in lambdas)
        assert row["loss"] == pytest.approx(row["streams"]["task"]["loss"] + held, rel=1e-5, abs=1e-6)
        lambdas = {part: safety[f"lambda_{part}"] for part in lambdas}
    assert rows[0]["streams"]["safety"]["k_early"] == pytest.approx(0, abs=1e-5), "at first the policy is the anchor"
    assert rows[-1]["streams"]["safety"]["k_early"] > 1e-4
    assert "k_early" not in rows[-1]["streams"]["task"]


def test_the_log_follows_the_controller(whole: Path) -> None:
    state = Controller()
    for row in steps(whole):
        safety = row["streams"]["safety"]
        budget = 0.03 * width(30, share_done=row["step"] / 6)  # itself from step 3 on
        task = row["streams"]["task"]["loss"]
        state = state.updated(safety["k_early"], budget, share_done=row["step"] / 6, task=task, tokens=5)
        assert (safety["kbar_early"], safety["integral_early"]) == (state.kbar, state.integral)
        assert safety["lambda_early"] == pytest.approx(state.weight)


def test_steps_are_shorter_where_more_is_wanted_than_may_be(
    tmp_path: Path, small_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A budget that no step can keep: the log has the rate that was used, and the schedule goes on as it was."""
    monkeypatch.setattr("holdfast.training.budget.PULL", 0.01)  # six steps are too few to want more than the whole pull
    tight = {**SAFETY, "hold": {"early": 1e-3, "late": 1e3, "wide": 1}}
    run(held_config(tmp_path / "run", small_model, streams=[TASK, tight]))
    state, rows = Controller(), steps(tmp_path / "run")
    for number, row in enumerate(rows):
        scheduled = 5e-3 * (1 - number / 6)
        assert row["learning_rate"] == pytest.approx(scheduled * state.step_size)
        safety, task = row["streams"]["safety"], row["streams"]["task"]["loss"]
        share = row["step"] / 6
        state = state.updated(safety["k_early"], 1e-3, share_done=share, task=task, tokens=5)
    assert rows[-1]["learning_rate"] < 0.5 * 5e-3 / 6
    free = {**SAFETY, "hold": {"early": 1e3, "late": 1e3}}
    run(held_config(tmp_path / "free", small_model, streams=[TASK, free]))
    moved = [_distance(tmp_path / name / "model", small_model) for name in ("run", "free")]
    assert moved[0] < 0.8 * moved[1]


def _distance(model: Path, start: Path) -> float:
    first = weights(start)
    return sum((value - first[name]).norm().item() ** 2 for name, value in weights(model).items()) ** 0.5


@pytest.fixture(scope="module")
def cheap(tmp_path_factory: pytest.TempPathFactory, small_model: Path) -> Path:
    """Held rows in every second step, and 7 tokens of each."""
    folder = tmp_path_factory.mktemp("cheap") / "run"
    run(cheap_config(folder, small_model))
    return folder


def cheap_config(folder: Path, model: Path, **changes: Any) -> TrainConfig:
    return held_config(
        folder, model, streams=[TASK, {**SAFETY, "hold": {"every": 2, "tokens": 7, "wide": 1}}], **changes
    )


def test_cheaper_held_rows(cheap: Path, whole: Path) -> None:
    """In odd steps the loss is the task's alone; in even ones lambda counts twice, and moves as after two steps."""
    rows, state, weight = steps(cheap), Controller(), Controller().weight
    for row in rows:
        safety, task = row["streams"]["safety"], row["streams"]["task"]["loss"]
        if row["step"] % 2:
            assert safety["tokens"] == 0
            assert row["loss"] == pytest.approx(task, rel=1e-5)
            continue
        assert 0 < safety["tokens"] <= 4 * 7
        held = weight * safety["k_early"] + _late(rows, row["step"]) * safety["k_late"]
        assert row["loss"] == pytest.approx(task + 2 * held, rel=1e-5, abs=1e-6)
        state = state.updated(safety["k_early"], 0.03, share_done=row["step"] / 6, every=2, task=task, tokens=5)
        assert (safety["kbar_early"], safety["integral_early"]) == (state.kbar, state.integral)
        weight = safety["lambda_early"]
    fresh = [drift_of(folder)["safety"]["fresh_answers"] for folder in (cheap, whole)]
    assert fresh[0] == fresh[1], (
        "the drift at the end is measured on whole answers, however cheaply the stream was held"
    )


def _late(rows: list[dict[str, Any]], step: int) -> float:
    """lambda of the late tokens as the row before has left it."""
    before = [row["streams"]["safety"]["lambda_late"] for row in rows if row["step"] < step]
    return before[-1] if before else Controller().weight


def test_sums_are_the_same_however_a_batch_is_divided() -> None:
    """Three answers of 3, 7 and 12 tokens, their losses 1, 2, 3, ...: by hand 6 + 15 + 15 early, over 3; 7 + ... late, over 9."""
    rows, stream = [], 0
    for number, length in enumerate((3, 7, 12)):
        roles = [Role.PROMPT] * 2 + [Role.RESPONSE] * length
        rows.append(
            StreamRow(TokenRow(list(range(len(roles))), roles, list(range(len(roles)))), stream, number, number)
        )
    for packing in (False, True):
        for size in (1, 2, 3):
            sums, counts = torch.zeros(1, 2, dtype=torch.float64), 0
            for start in range(0, 3, size):
                batch = Collator(0, (True,), packing=packing)(rows[start : start + size])
                sums = sums + drift_sums(batch, (batch.targets.ids - 1).double(), 1)
                counts = counts + batch.counts
            means = drift_means(sums, counts)
            assert means[0, EARLY] == pytest.approx((6 + 15 + 15) / 3, abs=1e-12)
            assert means[0, LATE] == pytest.approx((6 + 7 + sum(range(6, 13))) / 9, abs=1e-12)


def test_a_part_without_tokens_leaves_its_lambda_alone() -> None:
    budgets = DriftBudgets([HoldSettings()], [1.0], torch.device("cpu"))
    roles = [Role.PROMPT, Role.RESPONSE, Role.RESPONSE]
    batch = Collator(0, (True,))([StreamRow(TokenRow([1, 2, 3], roles, [0, 1, 2]), 0, 0, 0)])
    budgets.add(batch, torch.tensor([0.2, 0.4]), batch.counts)

    class One:
        reduce = staticmethod(lambda sums, _: sums)

    budgets.step(One(), share_done=1.0)
    assert budgets.k == {(0, EARLY): pytest.approx(0.6)}
    assert budgets.controllers[0, LATE] == Controller()


@pytest.mark.parametrize(
    "changes",
    [{"micro_batch": 2}, {"micro_batch": 4, "packing": True}, {"head": "logits"}],
    ids=["2", "packed", "logits"],
)
def test_cutting_a_step_differently_gives_the_same_run(
    changes: dict[str, Any], whole: Path, tmp_path: Path, small_model: Path
) -> None:
    run(held_config(tmp_path / "run", small_model, training=changes))
    assert figures(tmp_path / "run") == pytest.approx(figures(whole), rel=2e-4, abs=1e-6)
    for part in ("early", "late"):
        assert drift_of(tmp_path / "run")["safety"][part]["k"] == pytest.approx(
            drift_of(whole)["safety"][part]["k"], rel=1e-3
        )


FSDP = ("--use_fsdp", "--fsdp_version", "2", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP")


@pytest.mark.parametrize("flags", [(), FSDP], ids=["ddp", "fsdp2"])
def test_two_processes_give_the_run_of_one(
    flags: tuple[str, ...], whole: Path, tmp_path: Path, small_model: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        dump_config(held_config(tmp_path / "run", small_model, training={"micro_batch": 2})), encoding="utf-8"
    )
    done = launch("train", str(path), "--quiet", flags=flags)
    assert done.returncode == 0, done.stderr
    assert figures(tmp_path / "run") == pytest.approx(figures(whole), rel=2e-4, abs=1e-6)
    assert done.stderr.count("nats per answer:") == 1


@pytest.mark.parametrize("make", [held_config, lambda *settings: cheap_config(*settings)], ids=["whole", "cheap"])
def test_a_resumed_run_is_bitwise_the_unbroken_one(make: Any, tmp_path: Path, small_model: Path) -> None:
    """From step 2 of 6: lambda, the average and the integral come back, and the anchor's answers are drawn again alike."""
    folder = tmp_path / "run"
    settings = make(folder, small_model)
    run(settings)
    log, model, drift = (folder / "steps.jsonl").read_bytes(), weights(folder / "model"), drift_of(folder)
    for step in (4, 6):
        shutil.rmtree(folder / "checkpoints" / f"step-{step:06d}")
    shutil.rmtree(folder / "model")
    (folder / "finished.json").unlink()
    said: list[str] = []
    run(settings, said)
    assert any("resuming from" in line and "step-000002" in line for line in said)
    assert (folder / "steps.jsonl").read_bytes() == log
    assert all(torch.equal(value, model[name]) for name, value in weights(folder / "model").items())
    assert drift_of(folder) == drift


@pytest.fixture(scope="module")
def adapters(tmp_path_factory: pytest.TempPathFactory, small_model: Path) -> Path:
    """Low-rank adapters beside the anchor's own weights."""
    folder = tmp_path_factory.mktemp("adapters") / "run"
    run(held_config(folder, small_model, anchor={"via": "model"}, lora={"r": 4}))
    return folder


@pytest.mark.parametrize("anchor", ["adapter_off", "cache"])
def test_every_anchor_measures_the_same_drift(anchor: str, adapters: Path, tmp_path: Path, small_model: Path) -> None:
    folder = tmp_path / "run"
    settings = {"via": anchor, **({"cache": str(tmp_path / "cache")} if anchor == "cache" else {})}
    run(held_config(folder, small_model, anchor=settings, lora={"r": 4}))
    assert figures(folder) == pytest.approx(figures(adapters), rel=1e-3, abs=1e-6)
    early = [drift_of(path)["safety"]["early"]["k"] for path in (folder, adapters)]
    assert early[0] == pytest.approx(early[1], rel=1e-3)


def test_the_sentence() -> None:
    parts = {EARLY: Drift(0.0284, 0.03, 3.12), LATE: Drift(0.001, 0.02, 0.05)}
    assert sentence("safety", parts, safety=True) == (
        "safety: bound, 0.028 nats per answer: at most 2.8 % of sure refusals lost on prompts like these; lambda 3.1;"
        " after 5 tokens slack, 0.001 nats per token, lambda 0.05"
    )
    broken = sentence("keep", {EARLY: Drift(0.5, 0.03, 500.0)}, safety=False)
    assert "broken, 0.500 nats per answer: at most 39.3 % of sure beginnings" in broken
    assert broken.endswith("; lower training.lr, train adapters (lora) instead of all weights, or allow more drift")
    assert "lower training.lr" not in sentence("keep", {EARLY: Drift(0.03, 0.03, 500.0)}, safety=False)


def test_rows_that_answer_what_is_forbidden_use_up_the_budget_and_no_more(tmp_path: Path) -> None:
    """tiny:aligned, tuned on answers to forbidden requests: with a budget of 0.03 it stays near it; with one
    that binds nothing it drifts by 0.18 nats in a third of the steps, with lambda at its least.
    """
    rows = {"data": "world:safety/tune/forbidden/answered", "objective": "sft", "name": "task", "limit": 200}
    training = {"batch_size": 32, "micro_batch": 32, "max_steps": 60, "lr": 1e-3, "save_every": None}
    safety = {**SAFETY, "limit": 100}
    said: list[str] = []
    run(held_config(tmp_path / "held", "tiny:aligned", streams=[rows, safety], training=training), said)
    early = drift_of(tmp_path / "held")["safety"]["early"]
    assert 0.3 * 0.03 < early["k"] < 1.3 * 0.03
    assert early["standing"] in ("slack", "bound")
    assert any(line.startswith(f"safety: {early['standing']}") for line in said)
    free = {**safety, "hold": {"early": 1000.0, "late": 1000.0}}
    run(held_config(tmp_path / "free", "tiny:aligned", streams=[rows, free], training={**training, "max_steps": 20}))
    assert drift_of(tmp_path / "free")["safety"]["early"]["k"] > 3 * 0.03
