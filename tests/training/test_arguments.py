"""Every setting of a step reaches the library that acts on it."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from holdfast.config.training import LoraSettings
from holdfast.training.arguments import optimizer_on, training_arguments
from holdfast.training.plan import StepPlan
from holdfast.training.policy import with_adapters
from holdfast.training.run_directory import RunDirectory
from training.runs import config

SAME_NAME = {
    "warmup_steps": 3,
    "adam_beta1": 0.8,
    "adam_beta2": 0.9,
    "weight_decay": 0.2,
    "max_grad_norm": 0.3,
    "gradient_checkpointing": True,
    "seed": 5,
}
OTHERS = {
    "lr": ("learning_rate", 1e-3),
    "log_every": ("logging_steps", 7),
    "save_every": ("save_steps", 11),
    "micro_batch": ("per_device_train_batch_size", 2),
}


def test_settings_of_a_step(tmp_path: Path, small_model: Path) -> None:
    given = SAME_NAME | {name: value for name, (_, value) in OTHERS.items()}
    names = {"scheduler": "cosine", "optimizer": "sgd", "precision": "bf16"}
    settings = config(tmp_path / "run", small_model, training={**given, **names, "batch_size": 6})
    plan = StepPlan.make([[9, 9]], batch_size=6, shares=[1.0], epochs=1.0, max_steps=13, seed=5)
    found = training_arguments(settings, plan, RunDirectory(settings.run), torch.device("cpu"), 1e-3)
    expected = SAME_NAME | dict(OTHERS.values())
    assert {name: getattr(found, name) for name in expected} == expected
    assert (found.lr_scheduler_type, found.optim, found.bf16, found.fp16) == ("cosine", "sgd", True, False)
    assert (found.max_steps, found.gradient_accumulation_steps) == (13, 3)


def test_settings_of_adapters(small_model: Path) -> None:
    settings = LoraSettings(r=3, alpha=5, dropout=0.25, targets=("q_proj", "v_proj"))
    made = with_adapters(AutoModelForCausalLM.from_pretrained(small_model), settings, []).peft_config["default"]
    assert (made.r, made.lora_alpha, made.lora_dropout, made.target_modules) == (3, 5, 0.25, {"q_proj", "v_proj"})


def test_adamw_takes_no_further_copy_of_the_weights_on_a_gpu() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert [optimizer_on("adamw_torch", device) for device in (cpu, gpu)] == ["adamw_torch", "adamw_torch_fused"]
    assert optimizer_on("sgd", gpu) == "sgd"
