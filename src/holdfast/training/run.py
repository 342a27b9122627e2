"""`holdfast train`: a config becomes a run directory with a trained model in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from peft import PeftModel
from transformers import PrinterCallback, TrainerCallback
from transformers.trainer_utils import SaveStrategy
from transformers.utils import logging as transformers_logging

from holdfast.config import FieldError, InputError, TrainConfig, look_up, naming_field
from holdfast.config.base import why_not_writable
from holdfast.config.errors import OutOfMemory, is_out_of_memory
from holdfast.config.training import StreamSettings
from holdfast.data.default_prompts import PREFIX
from holdfast.data.fields import listed
from holdfast.models import LoadedModel
from holdfast.models.head_access import why_not_plain
from holdfast.models.load import check_there
from holdfast.models.positions import num_learned_positions, num_positions
from holdfast.objectives import REGISTRY, Objective
from holdfast.objectives.function_hash import function_hash
from holdfast.training.anchor_answers import answer_prompts, check_asked, forget_answers, prompt_file
from holdfast.training.arguments import check_arguments, check_optimizer, choose_learning_rate, training_arguments
from holdfast.training.attention import sound_gradients
from holdfast.training.budget import DriftBudgets
from holdfast.training.checkpoints.folders import resume_point, step_of
from holdfast.training.collate import Collator
from holdfast.training.drift import write_drift
from holdfast.training.loss import StepLoss
from holdfast.training.microscope import Microscope, prepare_microscope, write_microscope
from holdfast.training.plan import StepPlan
from holdfast.training.policy import choose_anchor, freeze, load_model, say_lost_steps, with_adapters
from holdfast.training.processes import Say, ignore
from holdfast.training.progress import ProgressBar, SaveOnInterrupt, ServeCallbacks
from holdfast.training.result import last_checkpoint, write_finished, write_result
from holdfast.training.run_directory import RunDirectory, StepLog
from holdfast.training.step_rule import StepRule
from holdfast.training.streams import (
    NumberedRows,
    ReadStream,
    bind_objective,
    check_names,
    number_fresh,
    number_rows,
    read_stream,
    with_data,
)
from holdfast.training.trainer import StreamTrainer
from holdfast.training.vetting import about


@dataclass(frozen=True)
class TrainResult:
    """The result of a training: where the model is, or that the run was interrupted and can be continued."""

    model: Path
    num_steps: int
    interrupted: bool

    @property
    def run(self) -> Path:
        """The run's folder, for ``hf.report``."""
        return self.model.parent

    def __repr__(self) -> str:
        state = "interrupted, the same call goes on" if self.interrupted else "finished"
        return f"TrainResult({str(self.model)!r}, {self.num_steps} steps, {state})"


def train(
    config: TrainConfig,
    *,
    say: Say = print,
    progress: bool = True,
    callbacks: Sequence[TrainerCallback] = (),
    throwaway: bool = False,
    step_rule: StepRule | None = None,
) -> TrainResult:
    """Train, or go on where the same command stopped. Prints (with ``say``) what it reads and chooses on the way.

    ``callbacks``: see ``hf.train``. ``throwaway``: nobody continues or looks at this run: it leaves the model only.
    ``step_rule``: instead of the streams' sum.
    """
    # The first PartialState decides for all later ones; without cpu=True several processes on CPU would not find each other.
    on_cpu = config.model.device == "cpu" or not torch.cuda.is_available()
    processes = PartialState(cpu=on_cpu)
    say = say if processes.is_main_process else ignore
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    run = RunDirectory(config.run)
    run.check(config)
    code = _own_code(config)
    unknown = run.check_code(code)
    config = with_data(config)
    with run.locked() if processes.is_main_process and run.path.is_dir() else nullcontext():
        ended = last_checkpoint(config, run)
    if ended:
        changed = f" (if you have changed {' and '.join(unknown)} since, choose another run)" if unknown else ""
        say(f"trained already: {run.model}{changed}")
        return TrainResult(run.model, step_of(ended), interrupted=False)
    _check_settings(config, run)
    loaded, new_token_ids = _loaded(config, say)
    streams = _streams(config, loaded, run, say, progress)
    data = describe_data(streams, config)
    run.check(config, data)
    trainer = _trainer(config, run, loaded, new_token_ids, streams, say, progress, step_rule)
    check_optimizer(trainer)
    with processes.main_process_first():
        run.claim(config, data, code)
    with run.locked() if processes.is_main_process else nullcontext():
        checkpoint = where_to_resume(run, config.training.keep, processes.is_main_process, say)
        if throwaway:
            trainer.args.save_strategy = SaveStrategy.NO
        microscope = None if throwaway else prepare_microscope(config, trainer, streams)
        interrupted = _run(trainer, checkpoint, callbacks, progress)
        if not interrupted:
            if trainer.state.global_step < trainer.plan.num_steps:
                say(f"a callback stopped the run after step {trainer.state.global_step} of {trainer.plan.num_steps}")
            _write_outputs(trainer, config, streams, data, microscope)
            if processes.is_main_process and not throwaway:
                write_finished(run, trainer.state.global_step)
            forget_answers(run.path)  # last: without them the run has ended
            say(f"trained model: {run.model}")
    return TrainResult(run.model, trainer.state.global_step, interrupted)


def _write_outputs(
    trainer: StreamTrainer,
    config: TrainConfig,
    streams: Sequence[ReadStream],
    data: Sequence[Mapping[str, Any]],
    microscope: Microscope | None,
) -> None:
    """The drift of held streams, the model with its card, and the microscope's view of some answers."""
    if trainer.step_loss.budgets is not None:
        safety = [stream.data == "prompts:safety" for stream in config.streams]
        write_drift(trainer, number_fresh(streams), safety)
    write_result(trainer, config, data)
    if microscope:
        write_microscope(microscope, config, trainer)


def _own_code(config: TrainConfig) -> dict[str, str | None]:
    """The hash of every objective that does not come with the package, by name."""
    known = {stream.objective: look_up(REGISTRY, stream.objective) for stream in config.streams}
    return {
        name: function_hash(value)
        for name, value in known.items()
        if isinstance(value, Objective) and not value.function.__module__.startswith("holdfast.")
    }


def _check_settings(config: TrainConfig, run: RunDirectory) -> None:
    """Refuse wrong settings before a model is loaded: loading one and asking the anchor may take minutes."""
    if (reason := why_not_writable(run.path)) is not None:
        raise FieldError("run", f"{run.path} {reason}")
    check_arguments(config)
    check_names([bind_objective(stream, number).name for number, stream in enumerate(config.streams)])
    check_asked(config)
    if config.anchor.model not in (None, config.model.name):
        with naming_field("anchor.model"):
            check_there(config.anchor.model)


def _loaded(config: TrainConfig, say: Say) -> tuple[LoadedModel, list[int]]:
    """The model to train, frozen in part where asked, and the ids of its new tokens."""
    loaded, new_token_ids = load_model(config, config.model.name)
    say(loaded.sentence)
    say_lost_steps(config.model.dtype, config.lora, "training", say)
    if isinstance(loaded.model, PeftModel):
        raise InputError(
            f"model '{config.model.name}' is an adapter: merge it first (lora.merge: true writes it merged)"
        )
    if config.training.freeze:
        freeze(loaded.model, config.training.freeze, say)
    return loaded, new_token_ids


def _streams(config: TrainConfig, loaded: LoadedModel, run: RunDirectory, say: Say, progress: bool) -> list[ReadStream]:
    """Read and check the rows of all streams, those that the anchor answers included."""
    for number, stream in enumerate(config.streams):
        if stream.vet and stream.rows is not None:  # before the anchor is asked: what was read, and how
            say(f"{bind_objective(stream, number).name}: {stream.rows.sentence}")
    given = {stream.data for stream in config.streams}
    streams = [
        read_stream(settings, number, loaded.tokenizer, config.training, say, ours=settings.data not in given)
        for number, settings in enumerate(answer_prompts(config, loaded, run.path, say, progress))
    ]
    check_names([stream.loss.name for stream in streams])
    _refuse_lost_masks(config, loaded, streams)
    _check_positions(loaded, streams, say)
    return streams


def describe_data(streams: Sequence[ReadStream], config: TrainConfig) -> list[dict[str, Any]]:
    """What was trained on, for data.json and the model card."""
    prompt_sets = chain(map(_prompts, config.streams), repeat({}))  # those that vetting adds come last
    return [
        {
            "stream": stream.loss.name,
            "objective": stream.settings.objective,
            "source": stream.dataset.source,
            "format": stream.dataset.format,
            "rows": len(stream.rows),
            "fingerprint": stream.dataset.fingerprint,
            **({"kept back": len(stream.fresh)} if stream.fresh else {}),
            **_origin(stream),
            **prompts,
        }
        for stream, prompts in zip(streams, prompt_sets, strict=False)
    ]


def _prompts(stream: StreamSettings) -> dict[str, str]:
    """The prompts of a stream that the anchor answers. The file of its answers is deleted when the run ends."""
    return {"source": stream.data, **prompt_file(stream)} if stream.data.startswith(PREFIX) else {}


def _origin(stream: ReadStream) -> dict[str, Any]:
    """The file that vetted rows were read from: the file of vetted rows itself is deleted when the run ends."""
    origin = about(stream.settings.data)
    return {} if origin is None else {"source": origin["source"], "vetted from": origin["fingerprint"]}


def _trainer(
    config: TrainConfig,
    run: RunDirectory,
    loaded: LoadedModel,
    new_ids: list[int],
    streams: Sequence[ReadStream],
    say: Say,
    progress: bool,
    step_rule: StepRule | None,
) -> StreamTrainer:
    rows = number_rows(streams)
    collator = make_collator(config, loaded, streams)
    plain = _takes_fused_path(config, loaded, say)
    every_row = NumberedRows([*rows.parts, *number_fresh(streams).parts])
    anchor = choose_anchor(config, loaded, streams, every_row, collator, say, progress)
    torch.manual_seed(config.training.seed)
    model = with_adapters(loaded.model, config.lora, new_ids) if config.lora else loaded.model
    plan = make_plan(config, streams)
    for number, stream in enumerate(streams):
        say(plan.sentence(number, stream.loss.name))
    losses = [stream.loss for stream in streams]
    budgets = None
    if any(loss.hold for loss in losses):
        budgets = DriftBudgets([loss.hold for loss in losses], [loss.weight for loss in losses], loaded.device)
    return StreamTrainer(
        model,
        training_arguments(config, plan, run, loaded.device, choose_learning_rate(config, loaded.model, say)),
        rows=rows,
        plan=plan,
        collator=collator,
        step_loss=StepLoss(losses, anchor, plain=plain, chunk_tokens=config.training.chunk_tokens, budgets=budgets),
        settings=config.training,
        run=run,
        describe_rows=lambda numbers: listed(streams[rows[n].stream].where(rows[n].place) for n in numbers),
        say=say,
        step_rule=step_rule,
        processing_class=loaded.tokenizer,
    )


def make_collator(config: TrainConfig, loaded: LoadedModel, streams: Sequence[ReadStream]) -> Collator:
    """The run's collator. Rows may be padded with any id: it has no target, and nothing attends to it."""
    pad_id = loaded.tokenizer.pad_token_id
    return Collator(
        pad_id=0 if pad_id is None else pad_id,
        needs_anchor=tuple(stream.loss.needs_anchor for stream in streams),
        packing=config.training.packing,
        float_masks=loaded.model.config._attn_implementation == "eager",
    )


def make_plan(config: TrainConfig, streams: Sequence[ReadStream]) -> StepPlan:
    """The rows of every step of the run."""
    settings = config.training
    return StepPlan.make(
        [stream.rows.lengths for stream in streams],
        batch_size=settings.batch_size,
        shares=[stream.settings.share for stream in streams],
        epochs=settings.epochs,
        max_steps=settings.max_steps,
        seed=settings.seed,
        every=[stream.settings.hold.every if stream.settings.hold else 1 for stream in streams],
    )


def _refuse_lost_masks(config: TrainConfig, loaded: LoadedModel, streams: Sequence[ReadStream]) -> None:
    """Refuse hard context where its mask would be lost: flash attention takes none, and it would replace a sliding window."""
    if not any(stream.rows.needs_mask for stream in streams):
        return
    if config.model.attention == "flash_attention_2":
        raise InputError("training.context: hard needs model.attention: sdpa or eager; flash attention takes no mask")
    window = getattr(loaded.model.config, "sliding_window", None)
    longest = max(max(stream.rows.lengths) for stream in streams)
    if window and longest > window:
        raise InputError(
            f"training.context: hard on rows of {longest} tokens would lose this model's sliding window of {window};"
            f" set training.max_length: {window} or context: soft"
        )


def _check_positions(loaded: LoadedModel, streams: Sequence[ReadStream], say: Say) -> None:
    """Refuse rows beyond learned positions, which end in an error; say where rotary ones go beyond what the model has seen."""
    known = num_positions(loaded.model.config)
    needed = max(stream.rows.num_positions for stream in streams)
    if needed <= known:
        return
    text = f"rows of up to {needed} tokens, and this model has {known} positions"
    if needed > num_learned_positions(loaded.model.config):
        raise InputError(f"{text}: set training.max_length: {known}")
    say(f"{text}: what it makes of those beyond is untrained; training.max_length: {known} would cut there")


def _takes_fused_path(config: TrainConfig, loaded: LoadedModel, say: Say) -> bool:
    if config.training.head == "logits":
        return False
    odd = why_not_plain(loaded.model)
    if odd and config.training.head == "fused":
        raise InputError(f"training.head: fused does not fit this model: {odd}; use head: auto")
    if odd:
        say(f"token statistics come from full logits, which take more memory: {odd}")
    return not odd


def where_to_resume(run: RunDirectory, keep: int | None, main: bool, say: Say) -> Path | None:
    """The last whole checkpoint. Rows of the logs after it will be written again."""
    checkpoint, complaints = resume_point(run.checkpoints, keep=keep, main=main)
    for line in complaints:
        say(line)
    if checkpoint:
        say(f"resuming from {checkpoint}")
    step = step_of(checkpoint) if checkpoint else 0
    for log in (run.steps, run.timing):
        StepLog(log).rewind(step)
    return checkpoint


def _run(trainer: StreamTrainer, checkpoint: Path | None, callbacks: Sequence[TrainerCallback], progress: bool) -> bool:
    """Train to the end or to the first Ctrl-C; whether it was interrupted."""
    trainer.remove_callback(PrinterCallback)
    bar = ProgressBar(trainer.run.path.name, enabled=progress)
    trainer.add_callback(bar)
    with SaveOnInterrupt() as guard, sound_gradients():
        for callback in (ServeCallbacks(callbacks, guard), *callbacks, guard):
            trainer.add_callback(callback)
        try:
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise OutOfMemory(_out_of_memory(trainer, error)) from error
            raise
        finally:
            bar.close()
    return guard.interrupted and trainer.state.global_step < trainer.plan.num_steps


def _out_of_memory(trainer: StreamTrainer, error: Exception) -> str:
    rows, tokens = trainer.args.per_device_train_batch_size, trainer.settings.tokens_per_pass
    a_pass, field = (f"{tokens} tokens", "tokens_per_pass") if tokens else (f"{rows} rows", "micro_batch")
    return (
        f"out of memory at step {trainer.state.global_step + 1} with {a_pass} a pass: lower training.{field} (the"
        " result stays the same), then training.max_length, or set training.gradient_checkpointing: true, lora:, or"
        f" anchor.via: cache. The last checkpoint is good. ({str(error).splitlines()[0]})"
    )
