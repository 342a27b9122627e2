"""What a run leaves behind works without holdfast: transformers, lm-eval, TensorBoard."""

import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from holdfast.config import InputError
from holdfast.training import train
from training.runs import config, run, steps, weights


def test_the_model_loads_with_plain_transformers_and_has_a_card(tmp_path: Path, small_model: Path) -> None:
    result = run(config(tmp_path / "run", small_model))
    model = AutoModelForCausalLM.from_pretrained(result.model)
    tokenizer = AutoTokenizer.from_pretrained(result.model)
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": "count : lum"}], return_tensors="pt", return_dict=True
    )
    assert model.generate(**ids, max_new_tokens=3, min_new_tokens=3).shape[1] == ids["input_ids"].shape[1] + 3
    card = (result.model / "README.md").read_text()
    data = json.loads((tmp_path / "run" / "data.json").read_text())
    assert data[0]["fingerprint"][:16] in card
    assert "objective: csft_pa" in card
    assert f"| nll | {steps(tmp_path / 'run')[-1]['nll']:.6g} |" in card


def test_every_file_of_a_checkpoint_is_safetensors_json_or_text(tmp_path: Path, small_model: Path) -> None:
    run(config(tmp_path / "run", small_model, training={"save_every": 2}))
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".safetensors", ".json", ".jsonl", ".yaml", ".md", ".jinja"}


def test_a_throwaway_run_has_the_same_model_and_nothing_else_of_size(tmp_path: Path, small_model: Path) -> None:
    kept = run(config(tmp_path / "kept", small_model))
    thrown = train(config(tmp_path / "thrown", small_model), say=[].append, progress=False, throwaway=True)
    for name, weight in weights(kept.model).items():
        assert torch.equal(weight, weights(thrown.model)[name]), name
    assert [path.parent.name for path in (tmp_path / "thrown").rglob("*.safetensors")] == ["model"]
    assert not (tmp_path / "thrown" / "microscope.json").exists()


def test_rows_of_the_log_say_what_users_ask_for(tmp_path: Path, small_model: Path) -> None:
    run(config(tmp_path / "run", small_model))
    first, last = steps(tmp_path / "run")[0], steps(tmp_path / "run")[-1]
    assert set(last) == {"step", "epoch", "loss", "grad_norm", "learning_rate", "nll", "streams", "roles"}
    assert set(last["streams"]["task"]) == {"loss", "nll", "w", "kl", "pa_minus_log2", "pa_active", "tokens"}
    assert set(last["roles"]["response"]) == {"loss", "nll", "gradient_share", "tokens"}
    # At step 1 the policy is the anchor: w = 1, kl = 0, and csft_pa is nll + 0.1 log 2.
    task = first["streams"]["task"]
    assert (task["w"], task["kl"], task["pa_active"], task["pa_minus_log2"]) == (1, 0, 0, pytest.approx(0, abs=1e-7))
    assert task["loss"] == pytest.approx(task["nll"] + 0.1 * 0.6931472, rel=1e-6)
    timing = [json.loads(line) for line in (tmp_path / "run" / "timing.jsonl").read_text().splitlines()]
    assert all(row["tokens_per_second"] > 0 and row["memory_bytes"] > 0 for row in timing)


def test_report_to_reaches_tensorboard(tmp_path: Path, small_model: Path) -> None:
    pytest.importorskip("tensorboard", reason="pip install tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(config(tmp_path / "run", small_model, report_to=["tensorboard"]))
    events = next(path for path in (tmp_path / "run").rglob("events.out*"))
    scalars = EventAccumulator(str(events.parent)).Reload().Tags()["scalars"]
    assert {"train/nll", "train/loss", "train/streams/task/kl"} <= set(scalars)


def test_hard_and_soft_context_train_differently_from_the_first_step(tmp_path: Path, small_model: Path) -> None:
    rows = tmp_path / "traces.jsonl"
    row = {"prompt": "how do i make a lum plimmet ?", "segments": [{"role": "prefix", "text": "first "}]}
    row["segments"] += [
        {"role": "error", "text": "the lum"},
        {"role": "undo"},
        {"role": "correction", "text": "a plimmet"},
    ]  # type: ignore[operator]
    rows.write_text((json.dumps(row) + "\n") * 8)
    losses = {}
    for attention in ("sdpa", "eager"):
        for context in ("soft", "hard"):
            settings = config(
                tmp_path / f"{attention}-{context}",
                small_model,
                model={"attention": attention, "new_tokens": ["<UNDO>"]},
                streams=[{"data": str(rows), "objective": "masked_sft"}],
                training={"context": context, "max_steps": 2},
            )
            run(settings)
            losses[attention, context] = [step["loss"] for step in steps(tmp_path / f"{attention}-{context}")]
    assert losses["sdpa", "hard"] == pytest.approx(losses["eager", "hard"], rel=1e-5)
    assert losses["sdpa", "soft"] == pytest.approx(losses["eager", "soft"], rel=1e-5)
    assert losses["sdpa", "hard"][0] != pytest.approx(losses["sdpa", "soft"][0], rel=1e-4)


@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp16", marks=pytest.mark.gpu)])
def test_mixed_precision_stays_near_float32(tmp_path: Path, small_model: Path, precision: str) -> None:
    run(config(tmp_path / "full", small_model))
    run(config(tmp_path / "mixed", small_model, training={"precision": precision}))
    full, mixed = ([row["loss"] for row in steps(tmp_path / name)] for name in ("full", "mixed"))
    assert mixed == pytest.approx(full, rel=2e-3)
    assert mixed != full
    assert next(iter(weights(tmp_path / "mixed" / "model").values())).dtype == torch.float32  # master weights


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there: fp16 works")
def test_fp16_without_a_gpu_is_refused(tmp_path: Path, small_model: Path) -> None:
    with pytest.raises(InputError, match="fp16 needs a GPU; on the CPU use bf16 or fp32"):
        run(config(tmp_path / "run", small_model, training={"precision": "fp16"}))


@pytest.mark.gpu
def test_fp16_resumes_with_its_loss_scale(tmp_path: Path, small_model: Path) -> None:
    """The scale doubles and halves as training goes: a resumed run that began at 65,536 again would skip steps."""
    fp16 = {"precision": "fp16", "save_every": 2}
    run(config(tmp_path / "whole", small_model, training=fp16))
    run(config(tmp_path / "resumed", small_model, training=fp16))
    shutil.rmtree(tmp_path / "resumed" / "checkpoints" / "step-000004")
    (tmp_path / "resumed" / "checkpoints" / "step-000002" / "scaler.json").stat()
    run(config(tmp_path / "resumed", small_model, training=fp16))
    whole, resumed = (weights(tmp_path / name / "model") for name in ("whole", "resumed"))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert steps(tmp_path / "whole") == steps(tmp_path / "resumed")


def test_lm_eval_runs_the_result_unchanged(tmp_path: Path, small_model: Path) -> None:
    lm_eval = pytest.importorskip("lm_eval", reason="pip install 'holdfast[dev]'")
    from lm_eval.tasks import TaskManager

    result = run(config(tmp_path / "run", small_model, training={"max_steps": 2}))
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    (tasks / "rows.json").write_text(json.dumps([{"q": "count : lum", "choices": ["one", "two"], "a": 0}] * 6))
    task = {
        "task": "counting",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(tasks / "rows.json")}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{q}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "a",
        "metric_list": [{"metric": "acc"}],
    }
    (tasks / "counting.yaml").write_text(yaml.safe_dump(task))
    found = lm_eval.simple_evaluate(
        model="hf",
        model_args={"pretrained": str(result.model), "dtype": "float32"},
        tasks=["counting"],
        task_manager=TaskManager(include_path=str(tasks), include_defaults=False),
        device="cpu",
        batch_size=2,
    )
    assert 0 <= found["results"]["counting"]["acc,none"] <= 1
