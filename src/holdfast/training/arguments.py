"""Our settings as transformers' TrainingArguments, and the learning rate for ``training.lr: auto``.

Wide models want small steps. The rules of thumb go through rates that are known to work here and elsewhere: 2e-5 (all weights)
and 2e-4 (LoRA) for 7B models, 4,096 wide; 1.4e-4 and 1e-3 for SmolLM2-135M, 576 wide; 1e-3 and 5e-3 for tiny:*, 64 wide.
They are a start, not an optimum: try half and double."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from accelerate import PartialState
from transformers import PreTrainedModel, Trainer, TrainingArguments, get_scheduler
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK, get_available_reporting_integrations
from transformers.trainer_utils import SchedulerType
from transformers.training_args import OptimizerNames

from holdfast.config import FieldError, InputError, TrainConfig, nearest_or_all
from holdfast.config.rl import GrpoSettings
from holdfast.config.training import Precision, TrainingSettings
from holdfast.training.plan import StepPlan
from holdfast.training.processes import Say
from holdfast.training.run_directory import RunDirectory

DEFAULT_MICRO_BATCH = 8
BY_EVALUATION = ("reduce_lr_on_plateau", "greedy")  # schedules


def training_arguments(
    config: TrainConfig, plan: StepPlan, run: RunDirectory, device: torch.device, lr: float
) -> TrainingArguments:
    """One Trainer epoch is the whole plan; Trainer's own label counting and NaN filter are off."""
    settings = config.training
    processes = PartialState().num_processes
    micro_batch = micro_batch_size(settings, processes)
    return TrainingArguments(
        **shared_arguments("training", settings, config.report_to, device),
        output_dir=str(run.path),
        max_steps=plan.num_steps,
        per_device_train_batch_size=micro_batch,
        gradient_accumulation_steps=settings.batch_size // (micro_batch * processes),
        learning_rate=lr,
        optim=optimizer_on(settings.optimizer, device),
        adam_beta1=settings.adam_beta1,
        adam_beta2=settings.adam_beta2,
        weight_decay=settings.weight_decay,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        logging_nan_inf_filter=False,
        save_strategy="steps",
        save_steps=settings.save_every or plan.num_steps,
        remove_unused_columns=False,
        ddp_find_unused_parameters=False,
    )


def shared_arguments(
    section: str, settings: TrainingSettings | GrpoSettings, report_to: Sequence[str], device: torch.device
) -> dict[str, Any]:
    """What tuning and RL tell transformers alike. ``section``: of the config, for a setting that cannot be used."""
    check_precision(f"{section}.precision", settings.precision, device)
    return {
        "lr_scheduler_type": settings.scheduler,
        "warmup_steps": settings.warmup_steps,
        "max_grad_norm": settings.max_grad_norm,
        "bf16": settings.precision == "bf16",
        "fp16": settings.precision == "fp16",
        "gradient_checkpointing": settings.gradient_checkpointing,
        "seed": settings.seed,
        "logging_steps": settings.log_every,
        "report_to": list(report_to) or "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": device.type == "cuda",
        "use_cpu": device.type == "cpu",
    }


def optimizer_on(name: str, device: torch.device) -> str:
    """AdamW on a GPU is torch's fused kernel: the same update, without another copy of the weights while it is computed."""
    fused = name == OptimizerNames.ADAMW_TORCH.value and device.type == "cuda"
    return OptimizerNames.ADAMW_TORCH_FUSED.value if fused else name


def check_arguments(config: TrainConfig) -> None:
    """Raise ``InputError`` for names that transformers does not know, and for a batch that cannot be divided."""
    micro_batch_size(config.training, PartialState().num_processes)
    for field, name, known in (
        ("training.optimizer", config.training.optimizer, [optimizer.value for optimizer in OptimizerNames]),
        *(("report_to", name, [*INTEGRATION_TO_CALLBACK, "all", "none"]) for name in config.report_to),
    ):
        if name not in known:
            raise FieldError(field, f"unknown '{name}'{nearest_or_all(name, known)}")
    for name in config.report_to:
        if name not in (*get_available_reporting_integrations(), "all", "none"):
            raise FieldError("report_to", f"{name} is not installed: pip install {name}")
    check_schedule("training.scheduler", config.training.scheduler)


def check_precision(field: str, precision: Precision, device: torch.device) -> None:
    """Refuse fp16 on a CPU: accelerate would train in float32 and say nothing."""
    if precision == "fp16" and device.type == "cpu":
        raise FieldError(field, "fp16 needs a GPU; on the CPU use bf16 or fp32")


def check_schedule(field: str, name: str) -> None:
    """Refuse schedules that transformers does not know, or that need what a config cannot give."""
    known = [scheduler.value for scheduler in SchedulerType]
    if name not in known:
        raise FieldError(field, f"unknown '{name}'{nearest_or_all(name, known)}")
    if name in BY_EVALUATION:
        raise FieldError(field, f"'{name}' goes by evaluations, and a run makes none; use linear, cosine or constant")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    try:
        get_scheduler(name, optimizer, num_warmup_steps=1, num_training_steps=9)
    except (TypeError, ValueError) as error:
        raise FieldError(
            field, f"'{name}' wants settings of its own ({error}); use linear, cosine or constant"
        ) from None


def check_optimizer(trainer: Trainer) -> None:
    """Raise ``FieldError`` for an optimizer whose package is missing, or that wants settings of its own."""
    model: Any = trainer.model
    try:
        trainer.get_optimizer_cls_and_kwargs(trainer.args, model)
    except (ImportError, ValueError) as error:  # transformers' own words name the package
        raise FieldError("training.optimizer", str(error)) from None


def micro_batch_size(settings: TrainingSettings, processes: int) -> int:
    """Rows of one pass on one process, if all are as long as the longest; must divide the step evenly."""
    rows, uneven = divmod(settings.batch_size, processes)
    if uneven:
        raise InputError(
            f"training.batch_size: {settings.batch_size} rows cannot be dealt to {processes} processes evenly"
        )
    if settings.tokens_per_pass is not None:
        if processes > 1:
            raise InputError("training.tokens_per_pass takes one process, not several; use training.micro_batch")
        return 1  # as many micro-batches as rows: those that tokens_per_pass leaves empty cost nothing
    if settings.micro_batch is None:
        return next(size for size in range(min(rows, DEFAULT_MICRO_BATCH), 0, -1) if rows % size == 0)
    if rows % settings.micro_batch:
        raise InputError(
            f"training.micro_batch: {settings.micro_batch} does not divide the {rows} rows that each process gets"
            f" (batch_size {settings.batch_size} / {processes} processes)"
        )
    return settings.micro_batch


WIDTH = 4096  # of a 7B model
FULL, FULL_POWER = 2e-5, 1.0
LORA, LORA_POWER = 2e-4, 0.77


def choose_learning_rate(config: TrainConfig, model: PreTrainedModel, say: Say) -> float:
    """The configured rate. For ``auto``: a rate by the model's width, which is printed."""
    if config.training.lr != "auto":
        return config.training.lr
    width = getattr(model.config.get_text_config(), "hidden_size", None)
    if not isinstance(width, int):
        raise FieldError("training.lr", "auto goes by the model's width, which its config does not say; give a number")
    lr = learning_rate(width, lora=config.lora is not None)
    say(f"training.lr: {lr:g}, chosen for a model {width} wide{' with LoRA' if config.lora else ''}")
    return lr


def learning_rate(width: int, *, lora: bool) -> float:
    """The rate by the rule of thumb, to two digits."""
    rate, power = (LORA, LORA_POWER) if lora else (FULL, FULL_POWER)
    return float(f"{rate * (WIDTH / width) ** power:.1e}")
