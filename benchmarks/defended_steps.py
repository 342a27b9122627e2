"""Optimizer steps of the real trainers on rows of random ids: ours plain, ours defended, and TRL's SFTTrainer.

Every step has the same task rows. A defended one has two held streams beside them (objective distill), as the recipe
`defended` and the study's `vetted@1/1` have; the cheap one holds the first 16 tokens of an answer, in every second step.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from transformers import PrinterCallback
from transformers.trainer_utils import SaveStrategy
from transformers.training_args import OptimizerNames
from transformers.utils import logging

from benchmarks.random_models import Shape, make_loaded, make_model, make_tokenizer
from benchmarks.step_clock import WARM_UP, HeadWatch, StepClock
from holdfast.config import TrainConfig
from holdfast.records import Role
from holdfast.tokens import TokenRow, TokenRows
from holdfast.training.anchors import AdapterOffAnchor, Anchor, ModelAnchor
from holdfast.training.arguments import training_arguments
from holdfast.training.attention import sound_gradients
from holdfast.training.budget import DriftBudgets
from holdfast.training.loss import StepLoss
from holdfast.training.policy import keep_as_autocast_reads, with_adapters
from holdfast.training.run import make_collator, make_plan
from holdfast.training.run_directory import RunDirectory
from holdfast.training.streams import ReadStream, bind_objective, number_rows
from holdfast.training.trainer import StreamTrainer

EVERY, CHEAP_TOKENS = 2, 16
HELD_PROMPT, ANSWERS = 45, range(16, 113)  # tokens: a template and a request; the lengths of answers, evenly spread


@dataclass(frozen=True)
class Load:
    """The rows of a step: all of the task's have one length, so that TRL's random order wastes nothing on padding."""

    name: str
    task: int
    length: int
    held: int  # rows of each of the two held streams
    micro_batch: int
    steps: int = 8  # measured, after the warm-up

    @property
    def task_tokens(self) -> int:
        """Tokens of the task's rows in a step."""
        return self.task * self.length


RECIPE = Load("recipe `defended`", task=16, length=512, held=8, micro_batch=8)
STUDY = Load("study's `vetted@1/1`", task=64, length=128, held=32, micro_batch=32)


@dataclass(frozen=True)
class Way:
    """How to take the steps. ``held``: no, whole (all of an answer, every step) or cheap."""

    name: str
    held: str = "no"
    lora: bool = False
    checkpointing: bool = False
    foreach: bool = False  # torch's AdamW without its fused kernel
    trl: bool = False


def random_rows(shape: Shape, lengths: Sequence[int], prompt: int, seed: int) -> tuple[TokenRow, ...]:
    """Rows of a prompt and an answer."""
    random = torch.Generator().manual_seed(seed)
    rows = []
    for length in lengths:
        roles = [int(Role.PROMPT)] * prompt + [int(Role.RESPONSE)] * (length - prompt)
        ids = torch.randint(7, shape.num_vocab, (length,), generator=random).tolist()
        rows.append(TokenRow(ids, roles, list(range(length))))
    return tuple(rows)


def task_rows(shape: Shape, load: Load) -> tuple[TokenRow, ...]:
    """As many rows as all steps take; an eighth of each is its prompt."""
    num = load.task * (WARM_UP + load.steps)
    return random_rows(shape, [load.length] * num, load.length // 8, seed=0)


def held_rows(shape: Shape, seed: int, answers: Sequence[int], num: int = 96) -> tuple[TokenRow, ...]:
    """A pool of rows for one held stream."""
    lengths = [HELD_PROMPT + answers[(37 * number) % len(answers)] for number in range(num)]
    return random_rows(shape, lengths, HELD_PROMPT, seed)


def make_config(load: Load, way: Way, device: str, folder: Path) -> TrainConfig:
    """The config that a user would write."""
    streams: list[dict[str, Any]] = [{"name": "task", "data": "task.jsonl", "share": load.task}]
    for kind in ("safety", "keep") if way.held != "no" else ():
        held: dict[str, Any] = {"name": kind, "data": f"prompts:{kind}", "objective": "distill", "share": load.held}
        if way.held == "cheap":
            held["hold"] = {"every": EVERY, "tokens": CHEAP_TOKENS}
        streams.append(held)
    return TrainConfig.model_validate(
        {
            "run": str(folder),
            "model": {"name": "random", "device": device, "dtype": "bfloat16" if way.lora else "float32"},
            "streams": streams,
            "training": {
                "max_steps": WARM_UP + load.steps,
                "batch_size": sum(stream["share"] for stream in streams),
                "micro_batch": load.micro_batch,
                "precision": "fp32" if way.lora else "bf16",
                "gradient_checkpointing": way.checkpointing,
                "lr": 1e-5,
            },
            "lora": {"r": 16, "alpha": 32} if way.lora else None,
        }
    )


def read_streams(shape: Shape, load: Load, way: Way, config: TrainConfig) -> list[ReadStream]:
    """Streams of rows of ids, as if they had been read and tokenised."""
    answers = ANSWERS if way.held != "cheap" else range(CHEAP_TOKENS, CHEAP_TOKENS + 1)
    rows = [task_rows(shape, load), held_rows(shape, 1, answers), held_rows(shape, 2, answers)]
    return [
        ReadStream(settings, cast(Any, None), TokenRows(rows[number]), bind_objective(settings, number))
        for number, settings in enumerate(config.streams)
    ]


def make_trainer(shape: Shape, load: Load, way: Way, device: str, folder: Path) -> StreamTrainer:
    """The trainer as `holdfast train` makes it, but without a model on disk or a file of rows."""
    config = make_config(load, way, device, folder)
    folder.mkdir(parents=True)
    run, streams = RunDirectory(folder), read_streams(shape, load, way, config)
    loaded = make_loaded(shape, torch.bfloat16 if way.lora else torch.float32, device)
    anchor: Anchor | None = None
    if way.held != "no" and way.lora:
        anchor = AdapterOffAnchor()
    elif way.held != "no":
        second = make_model(shape, torch.float32, device).requires_grad_(False)
        keep_as_autocast_reads(second, config.training.precision)
        anchor = ModelAnchor(second)
    model = with_adapters(loaded.model, config.lora, []) if config.lora else loaded.model
    plan, losses = make_plan(config, streams), [stream.loss for stream in streams]
    budgets = None
    if way.held == "cheap":
        budgets = DriftBudgets([own.hold for own in losses], [own.weight for own in losses], loaded.device)
    arguments = training_arguments(config, plan, run, loaded.device, 1e-5)
    arguments.save_strategy = SaveStrategy.NO
    if way.foreach:
        arguments.optim = OptimizerNames.ADAMW_TORCH
    trainer = StreamTrainer(
        model,
        arguments,
        rows=number_rows(streams),
        plan=plan,
        collator=make_collator(config, loaded, streams),
        step_loss=StepLoss(losses, anchor, plain=True, budgets=budgets),
        settings=config.training,
        run=run,
        describe_rows=lambda numbers: f"rows {list(numbers)}",
        say=lambda _: None,
        processing_class=loaded.tokenizer,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def trl_trainer(shape: Shape, load: Load, way: Way, device: str, folder: Path) -> Any:
    """TRL's SFTTrainer on the same task rows, with the loss on the same tokens and as many rows in a pass."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    rows = task_rows(shape, load)
    labels = [[i if role else -100 for i, role in zip(row.ids, row.roles, strict=True)] for row in rows]
    arguments = SFTConfig(
        output_dir=str(folder),
        per_device_train_batch_size=load.micro_batch,
        gradient_accumulation_steps=load.task // load.micro_batch,
        max_steps=WARM_UP + load.steps,
        learning_rate=1e-5,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=device == "cpu",
        max_length=None,
        bf16=not way.lora,
        gradient_checkpointing=way.checkpointing,
    )
    peft = {}
    if way.lora:
        from peft import LoraConfig

        peft["peft_config"] = LoraConfig(task_type="CAUSAL_LM", r=16, lora_alpha=32, target_modules="all-linear")
    trainer = SFTTrainer(
        make_model(shape, torch.bfloat16 if way.lora else torch.float32, device),
        arguments,
        train_dataset=Dataset.from_dict({"input_ids": [row.ids for row in rows], "labels": labels}),
        processing_class=make_tokenizer(shape.num_vocab),
        **peft,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def steps(shape: Shape, load: Load, way: Way, device: str, folder: Path) -> dict[str, Any]:
    """Milliseconds and peak bytes of a step; of our steps also where the memory goes."""
    logging.set_verbosity_error()
    watch = HeadWatch(device)
    clock = StepClock(device, watch)
    before = torch.cuda.memory_allocated() if device == "cuda" else 0
    make = trl_trainer if way.trl else make_trainer
    trainer = make(shape, load, way, device, folder)
    trainer.add_callback(clock)
    with watch.at_work(), nullcontext() if way.trl else sound_gradients():
        trainer.train()
    figures: dict[str, Any] = {"model": shape.name, "rows": load.name, "way": way.name}
    figures |= clock.figures(EVERY if way.held == "cheap" else 1)
    figures |= {**_memory(trainer, watch), "left from before GB": round(before / 1e9, 2)}
    if not way.trl:
        figures["tokens"] = round(_mean_tokens(trainer), 1)
        figures["products"] = products(trainer, lora=way.lora)
    del trainer
    forget()
    return figures


def _memory(trainer: Any, watch: HeadWatch) -> dict[str, float]:
    """Bytes by purpose. Activations: alive when the head begins, beside the state; the head's own come on top."""
    trained = [weights for weights in trainer.model.parameters() if weights.requires_grad]
    state = {
        "weights": _nbytes(trainer.model.parameters()),
        "gradients": _nbytes(trained),
        "optimizer": _nbytes(
            value
            for own in trainer.optimizer.state.values()
            for value in own.values()
            if isinstance(value, torch.Tensor)
        ),
        "anchor": 0,
    }
    step_loss = getattr(trainer, "step_loss", None)
    if step_loss is not None and isinstance(step_loss.anchor, ModelAnchor):
        state["anchor"] = _nbytes(step_loss.anchor.model.parameters())
    if watch.before:
        state |= {"activations": max(0, watch.before - sum(state.values())), "head": watch.head}
    return {f"{name} GB": round(num / 1e9, 2) for name, num in state.items()}


def _nbytes(tensors: Any) -> int:
    return sum({tensor.data_ptr(): tensor.nbytes for tensor in tensors}.values())


def _rows_of(trainer: StreamTrainer) -> list[list[Any]]:
    """The rows of the last steps, as many as make a whole window."""
    rows = trainer.train_dataset
    last = range(trainer.plan.num_steps - EVERY, trainer.plan.num_steps)
    return [[rows[number] for number in trainer.plan.rows_of_step(step)] for step in last]  # type: ignore[index]


def _mean_tokens(trainer: StreamTrainer) -> float:
    return statistics.mean(sum(len(row.row) for row in step) for step in _rows_of(trainer))


def products(trainer: StreamTrainer, *, lora: bool) -> dict[str, float]:
    """Tokens that pass through body and head of policy and anchor in a step, without padding, and operations in all.

    Policy: 6 operations a weight and token, or 4 where the weights are frozen; anchor: 2. The head reads targets only.
    """
    body, head = num_weights(trainer.model)
    tokens = {"policy": 0.0, "policy's head": 0.0, "anchor": 0.0, "anchor's head": 0.0}
    for step in _rows_of(trainer):
        for row in step:
            for name in ("policy", "anchor") if trainer.collator.needs_anchor[row.stream] else ("policy",):
                tokens[name] += len(row.row) / EVERY
                tokens[f"{name}'s head"] += row.row.num_targets / EVERY
    own = 4 if lora else 6
    work = body * (own * tokens["policy"] + 2 * tokens["anchor"])
    work += head * (own * tokens["policy's head"] + 2 * tokens["anchor's head"])
    return {**tokens, "operations": work}


def num_weights(model: Any) -> tuple[int, int]:
    """The number of weights in the linear layers of the body, without adapters, and in the head."""
    head = model.get_output_embeddings()
    linear = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and module is not head
    ]
    return sum(module.weight.numel() for name, module in linear if "lora_" not in name), head.weight.numel()


def floor(defended: dict[str, Any], plain: dict[str, Any]) -> float:
    """The plain step's time for the operations of the defended one, and the optimizer once: no way of ours can be faster."""
    more = defended["products"]["operations"] / plain["products"]["operations"]
    return float(plain["optimizer ms"] + (plain["ms"] - plain["optimizer ms"]) * more)


def forget() -> None:
    """Free the memory between two models."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def tiny(load: Load) -> Load:
    """The same load, small enough for a CPU."""
    return replace(load, task=4, length=64, held=2, micro_batch=2, steps=4)
