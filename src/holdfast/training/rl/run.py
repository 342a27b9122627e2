"""GRPO on TRL: prompts, a reward and an observer come from above; the run directory is like any other's."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate import PartialState
from transformers import AutoConfig, AutoModelForCausalLM, PrinterCallback, TrainerCallback
from transformers.utils import logging as transformers_logging
from trl import GRPOConfig

from holdfast.config import FieldError, InputError
from holdfast.config.rl import GrpoSettings, RlConfig
from holdfast.judging import Reward, score_replies
from holdfast.models import load_tokenizer
from holdfast.models.load import is_adapter, model_source
from holdfast.models.placement import choose_device
from holdfast.models.positions import num_learned_positions
from holdfast.records import Reply, context
from holdfast.tokens import prompt_ids
from holdfast.tokens.encoding import check_known
from holdfast.training.arguments import check_schedule, shared_arguments
from holdfast.training.attention import sound_gradients
from holdfast.training.policy import adapter_config, dtype_to_train, say_lost_steps
from holdfast.training.processes import Say, ignore
from holdfast.training.progress import SaveOnInterrupt
from holdfast.training.rl.sampling import sample, seed_of_step
from holdfast.training.rl.task import Environment, Observer, RlPrompt
from holdfast.training.rl.trainer import TRAINERS, RlLog, Watch, inner_folder
from holdfast.training.rl.undo import Score, UndoRl, replies_of
from holdfast.training.run import where_to_resume
from holdfast.training.run_directory import RunDirectory, StepLog


class Interrupted(KeyboardInterrupt):
    """Training was stopped by Ctrl-C or SIGTERM after a step. Everything is saved; the same call goes on."""

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self.step = step


def train_rl(
    config: RlConfig,
    prompts: Sequence[RlPrompt],
    reward: Reward,
    *,
    observe: Observer | None = None,
    environment: Environment | None = None,
    undo: UndoRl | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    say: Say = print,
) -> Path:
    """Train, or go on from the last checkpoint; returns the folder of the model. ``undo``: the policy may take back.

    The first Ctrl-C or SIGTERM lets the step finish, saves and raises ``Interrupted``; a second one stops at once.
    """
    _check_number(config.rl, prompts, say)
    _refuse_what_would_be_ignored(config, environment, undo)
    check_schedule("rl.scheduler", config.rl.scheduler)
    device, _ = choose_device(config.model.device)
    processes = PartialState(cpu=device.type == "cpu")  # the first one decides: without cpu=True, each would be alone
    say = say if processes.is_main_process else ignore
    _passes(config.rl)
    folder, data, watch = RunDirectory(config.run), _described(prompts, undo), Watch()
    folder.check(config, data)
    if folder.model.is_dir():  # the last thing that a run makes
        say(f"trained already: {folder.model}")
        return folder.model
    if is_adapter(Path(model_source(config.model.name))):
        raise FieldError("model.name", f"'{config.model.name}' is an adapter: merge it first (peft's merge_and_unload)")
    tokenizer = load_tokenizer(config.model.name)
    _check_lengths(config, prompts, tokenizer)
    parts = _parts(config.rl, tokenizer, _observed(reward, observe, watch), environment, undo)
    trainer = _trainer(config, prompts, tokenizer, parts, RlLog(StepLog(folder.steps), watch), say)
    for callback in callbacks:
        trainer.add_callback(callback)
    watch.time(trainer)
    folder.claim(config, data)
    with folder.locked() if trainer.is_world_process_zero() else nullcontext():
        _run(trainer, tokenizer, folder, say)
    say(f"trained model: {folder.model}")
    return folder.model


class _Parts(NamedTuple):
    """What TRL is handed, by how the policy writes: plainly, in an environment, or with undo."""

    trainer_class: Any
    rewards: Any
    rollouts: Any  # None: TRL's own


def _parts(
    settings: GrpoSettings, tokenizer: Any, reward: Score, environment: Environment | None, undo: UndoRl | None
) -> _Parts:
    trainer_class = TRAINERS[settings.kl]
    if undo is not None:
        return _Parts(
            undo.trainer_class(tokenizer, trainer_class),
            undo.reward_function(reward, tokenizer),
            undo.rollouts(tokenizer, settings),
        )
    rollouts = _rollouts(settings, tokenizer, environment) if settings.sampler == "own" else None
    return _Parts(trainer_class, _reward_function(reward, tokenizer.eos_token_id), rollouts)


def _trainer(
    config: RlConfig,
    prompts: Sequence[RlPrompt],
    tokenizer: Any,
    parts: _Parts,
    log: TrainerCallback,
    say: Say,
) -> Any:
    from datasets import Dataset

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"  # we know that rollout_func may change: the tests would say so
    device, why = choose_device(config.model.device)
    say(f"{config.model.name}: GRPO on {device} ({why}); KL {config.rl.kl}, weight {config.rl.kl_weight}")
    say_lost_steps(config.model.dtype, config.lora, "rl", say)
    rows = [{"prompt": [{"role": "user", "content": problem.prompt}], "answer": problem.answer} for problem in prompts]
    try:
        trainer = parts.trainer_class(
            model=model_source(config.model.name),  # by path: TRL loads the reference itself
            reward_funcs=[parts.rewards],
            args=_arguments(config, device),
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
            rollout_func=parts.rollouts,
            peft_config=None if config.lora is None else adapter_config(config.lora),
            callbacks=[log],
        )
    except (
        OSError,
        ValueError,
        ImportError,
    ) as error:  # of TRL, peft or transformers: their own words name the setting
        raise InputError(f"rl: {error}") from None
    trainer.remove_callback(PrinterCallback)
    return trainer


def _run(trainer: Any, tokenizer: Any, folder: RunDirectory, say: Say) -> None:
    """Train to the end and write the model, or to the first Ctrl-C."""
    checkpoint = where_to_resume(folder, None, trainer.is_world_process_zero(), say)
    with SaveOnInterrupt() as guard, sound_gradients():
        trainer.add_callback(guard)
        trainer.train(resume_from_checkpoint=str(inner_folder(checkpoint)) if checkpoint else None)
        step = trainer.state.global_step
        if guard.interrupted and step < trainer.state.max_steps:
            raise Interrupted(step)
        _save(trainer, tokenizer, folder.model)


def _check_number(settings: GrpoSettings, prompts: Sequence[RlPrompt], say: Say) -> None:
    """TRL leaves out batches that are not full: of too few prompts it would make none, and train nothing."""
    if not prompts:
        raise InputError("rl: there are no prompts")
    if len(prompts) < settings.prompts_per_step:
        raise FieldError(
            "rl.prompts_per_step",
            f"{settings.prompts_per_step} are more than the {len(prompts)} prompts there are",
        )
    if rest := len(prompts) % settings.prompts_per_step:
        at_a_time = f"{len(prompts)} prompts, {settings.prompts_per_step} at a time"
        say(f"{at_a_time}: every pass leaves {rest} of them out, others each time")


def _described(prompts: Sequence[RlPrompt], undo: UndoRl | None) -> list[dict[str, Any]]:
    """The prompts and the undo settings for ``data.json``: enough to see that a run that goes on is the same."""
    digest = hashlib.sha256(repr([(problem.prompt, problem.answer) for problem in prompts]).encode()).hexdigest()
    return [{"prompts": len(prompts), "fingerprint": digest, "undo": undo and asdict(undo)}]


def _save(trainer: Any, tokenizer: Any, model: Path) -> None:
    """Write the model. It gets its name only when it is whole."""
    partial = model.with_name(".model")
    trainer.save_model(str(partial))
    if trainer.is_world_process_zero():
        tokenizer.save_pretrained(partial)
        partial.replace(model)


def _refuse_what_would_be_ignored(config: RlConfig, environment: Environment | None, undo: UndoRl | None) -> None:
    settings = config.rl
    if config.model.new_tokens:
        raise FieldError("model.new_tokens", "GRPO adds no tokens: train a model that has them first")
    if config.lora is not None and config.lora.quantize is not None:
        raise FieldError("lora.quantize", "GRPO trains adapters on whole weights only; leave it out")
    if config.lora is not None and config.lora.merge:
        raise FieldError(
            "lora.merge", "GRPO writes an adapter: leave it out, and merge later (peft's merge_and_unload)"
        )
    if environment is not None and undo is not None:
        raise InputError("rl: an environment cannot change what is written with undo; leave one of the two out")
    if settings.sampler != "own" and (environment is not None or undo is not None):
        what = "an environment" if undo is None else "undo"
        raise FieldError("rl.sampler", f"{settings.sampler} knows nothing of {what}; expected own")


def _check_lengths(config: RlConfig, prompts: Sequence[RlPrompt], tokenizer: Any) -> None:
    """Prompts beyond ``max_prompt_tokens``, and rollouts beyond learned positions, which would end in an index error."""
    ids = [prompt_ids([context("user", problem.prompt)], tokenizer) for problem in prompts]
    check_known(ids, tokenizer)
    longest = max(map(len, ids))
    settings, room = config.rl, num_learned_positions(AutoConfig.from_pretrained(model_source(config.model.name)))
    if longest > settings.max_prompt_tokens:
        raise FieldError(
            "rl.max_prompt_tokens",
            f"a prompt has {longest} tokens, more than {settings.max_prompt_tokens}; raise it, or leave such prompts out",
        )
    if longest + settings.max_new_tokens > room:
        raise FieldError(
            "rl.max_new_tokens",
            f"{settings.max_new_tokens} after prompts of up to {longest} tokens are more than this model's {room} positions",
        )


def _passes(settings: GrpoSettings) -> tuple[int, int]:
    """Rollouts of a pass and passes of an update, on each of the processes that were started."""
    try:
        return settings.passes(PartialState().num_processes)
    except ValueError as error:
        raise FieldError("rl.prompts_per_step", str(error)) from None


def _arguments(config: RlConfig, device: torch.device) -> GRPOConfig:
    settings = config.rl
    dtype = dtype_to_train(config.model.dtype, config.lora)
    rows, num_passes = _passes(settings)
    return GRPOConfig(
        **shared_arguments("rl", settings, config.report_to, device),
        output_dir=config.run,
        max_steps=settings.steps or -1,
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=num_passes,
        steps_per_generation=num_passes * settings.updates,
        num_generations=settings.group,
        learning_rate=settings.lr,
        beta=settings.kl_weight,
        epsilon=settings.clip,
        loss_type="bnpo",  # the mean over a pass, of which TokenMeanTrainer makes the mean over an update
        temperature=settings.temperature,
        max_completion_length=settings.max_new_tokens,
        use_vllm=settings.sampler == "vllm",
        model_init_kwargs={
            "dtype": dtype,
            "attn_implementation": config.model.attention,
            "use_safetensors": None if config.model.allow_pickle else True,
        },
        save_strategy="steps" if settings.save_every else "no",
        save_steps=settings.save_every or 500,
    )


def _rollouts(settings: GrpoSettings, tokenizer: Any, environment: Environment | None) -> Any:
    """TRL's ``rollout_func``: our sampler, with the environment's tokens masked from the loss."""

    def write(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        texts = [
            messages[-1]["content"] for messages in prompts
        ]  # every prompt stands there once per rollout of its group
        known = {text: prompt_ids([context("user", text)], tokenizer) for text in dict.fromkeys(texts)}
        ids = [known[text] for text in texts]
        written = sample(
            trainer.accelerator.unwrap_model(trainer.model),
            ids,
            max_new_tokens=settings.max_new_tokens,
            end_id=tokenizer.eos_token_id,
            pad_id=tokenizer.pad_token_id,
            temperature=settings.temperature,
            seed=seed_of_step(settings.seed, trainer),
            environment=environment,
        )
        return {
            "prompt_ids": ids,
            "completion_ids": [rollout.ids for rollout in written],
            "logprobs": [rollout.logps for rollout in written],
            "env_mask": [[int(own) for own in rollout.own] for rollout in written],
        }

    return write


def _observed(reward: Reward, observe: Observer | None, watch: Watch) -> Score:
    """The reward of each reply, 0 where it has none; the observer sees the same replies."""

    def score(replies: Sequence[Reply]) -> list[float]:
        if observe is not None:
            watch.figures = dict(observe(replies))
        return [value or 0.0 for value in score_replies(reward, replies)]

    return score


def _reward_function(score: Score, end_id: int) -> Any:
    """TRL's calling convention around ours."""

    def final_answer(
        prompts: list[Any], completions: list[Any], completion_ids: list[list[int]], answer: list[str], **_: Any
    ) -> list[float]:
        texts = [text[0]["content"] if isinstance(text, list) else text for text in completions]
        return score(replies_of(prompts, texts, [ids[-1:] == [end_id] for ids in completion_ids], answer))

    return final_answer


def load_policy(folder: Path, device: torch.device) -> Any:
    """Load a trained policy for sampling, in float32 and in evaluation mode."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return torch.nn.Module.to(model, device).eval()
