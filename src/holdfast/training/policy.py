"""The two models of a run: the policy (loaded, frozen in part, with adapters) and the anchor it is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from rich.console import Console
from rich.progress import Progress
from torch import nn

from holdfast.config import FieldError, InputError, TrainConfig, did_you_mean
from holdfast.config.training import LoraSettings
from holdfast.models import LoadedModel, add_tokens, load
from holdfast.tokens import TokenRow
from holdfast.training.anchor_cache import CachedAnchor, build_cache, cache_key
from holdfast.training.anchors import AdapterOffAnchor, Anchor, ModelAnchor
from holdfast.training.collate import Collator, StreamRow
from holdfast.training.processes import Say, made_whole, main_first, wants_sharding
from holdfast.training.streams import NumberedRows, ReadStream

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""``training.precision`` -> the dtype to which autocast rounds."""
MAMBA = ("falcon_h1", "falcon_mamba", "mamba", "mamba2", "nemotron_h")
NO_ADAPTERS = ("out_proj", "conv1d")
"""Modules of these architectures that peft refuses: their kernels read the weights past an adapter. The others are adapted."""


def load_model(config: TrainConfig, name: str) -> tuple[LoadedModel, list[int]]:
    """A model under the config's settings, and the ids of its new tokens. Each process takes its own device."""
    settings = config.model
    dtype = dtype_to_train(settings.dtype, config.lora)
    processes = PartialState()
    device = str(processes.device) if processes.num_processes > 1 else settings.device
    loaded = load(
        name,
        dtype=dtype,
        device=device,
        attention=settings.attention,
        allow_pickle=settings.allow_pickle,
        quantize=config.lora.quantize if config.lora else None,
    )
    if dtype != settings.dtype:
        loaded = replace(loaded, sentence=loaded.sentence.replace("(asked for)", "(all weights are trained)", 1))
    new_ids: list[int] = []
    if settings.new_tokens:
        new_ids = add_tokens(loaded.model, loaded.tokenizer, settings.new_tokens, init=settings.new_token_init)
    return loaded, new_ids


def dtype_to_train(dtype: str, lora: LoraSettings | None) -> str:
    """``dtype`` of a model to train. ``auto`` is float32 where all weights are trained: see ``say_lost_steps``."""
    return "float32" if dtype == "auto" and lora is None else dtype


def say_lost_steps(dtype: str, lora: LoraSettings | None, section: str, say: Say) -> None:
    """Say so where all weights are trained in half precision.

    Most steps of a small learning rate are less than what bfloat16 can add to a weight. ``section``: of the config, where
    ``precision`` stands.
    """
    if dtype in ("bfloat16", "float16") and lora is None:
        better = f"float32 with {section}.precision=bf16"
        say(f"model.dtype: {dtype} rounds most steps of a small learning rate away; {better} does not")


def freeze(model: Any, patterns: Sequence[str], say: Say) -> None:
    """Freeze the parameters whose names match a pattern, such as ``model.layers.[0-9].*``. A tied head goes with its embedding.

    Raises ``InputError`` for a pattern that matches nothing, and when nothing is left to train.
    """
    parameters = dict(model.named_parameters())
    for pattern in patterns:
        matched = [name for name in parameters if fnmatchcase(name, pattern)]
        if not matched:
            raise FieldError(
                "training.freeze",
                f"no parameter is called '{pattern}'"
                f"{did_you_mean(pattern, parameters) or '; the first is ' + next(iter(parameters))}",
            )
        for name in matched:
            parameters[name].requires_grad_(False)
    frozen = sum(weights.numel() for weights in parameters.values() if not weights.requires_grad)
    total = sum(weights.numel() for weights in parameters.values())
    if frozen == total:
        raise FieldError("training.freeze", "nothing is left to train")
    say(f"frozen: {frozen:,} of {total:,} parameters")


def with_adapters(model: Any, settings: LoraSettings, new_token_ids: Sequence[int]) -> Any:
    """The model wrapped by peft. Naming only the embedding would leave the head's row untrained on an untied model."""
    if settings.quantize:
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    config = adapter_config(settings)
    if settings.targets == "all-linear" and model.config.model_type in MAMBA:
        config.exclude_modules = list(NO_ADAPTERS)
    config.trainable_token_indices = _token_modules(model, new_token_ids) or None
    try:
        return get_peft_model(model, config)
    except ValueError as error:  # peft's own words name the targets
        raise FieldError("lora", str(error)) from None


def adapter_config(settings: LoraSettings) -> LoraConfig:
    """The settings of adapters as peft takes them."""
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=settings.r,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=settings.targets if isinstance(settings.targets, str) else list(settings.targets),
    )


def _token_modules(model: Any, new_token_ids: Sequence[int]) -> dict[str, list[int]]:
    if not new_token_ids:
        return {}
    modules = [model.get_input_embeddings()]
    if not model.config.tie_word_embeddings:  # a tied head follows its embedding
        modules.append(model.get_output_embeddings())
    names = {id(module): name.rsplit(".", 1)[-1] for name, module in model.named_modules()}
    return {names[id(module)]: list(new_token_ids) for module in modules}


def choose_anchor(
    config: TrainConfig,
    loaded: LoadedModel,
    streams: Sequence[ReadStream],
    rows: NumberedRows,
    collator: Collator,
    say: Say,
    progress: bool = True,
) -> Anchor | None:
    """None when no stream needs one. ``auto``: adapters off where that is the anchor, a second model otherwise."""
    if not any(stream.loss.needs_anchor for stream in streams):
        return None
    settings = config.anchor
    is_policy = settings.model is None or settings.model == config.model.name
    via = settings.via
    if via == "auto":
        via = "cache" if settings.cache else "adapter_off" if config.lora and is_policy else "model"
    if via == "adapter_off":
        if not (config.lora and is_policy):
            raise InputError("anchor.via: adapter_off needs lora: and an anchor that is the model itself")
        say("anchor: the model itself with its adapters off")
        return AdapterOffAnchor()
    if via == "model":
        say(f"anchor: a second model, {settings.model or config.model.name}")
        second = _second_model(config, loaded, rows).model
        keep_as_autocast_reads(second, config.training.precision)
        return ModelAnchor(second)
    if settings.cache is None:
        raise InputError("anchor.cache: name a folder for the anchor cache")
    anchored = rows.of([stream for stream, needs in enumerate(collator.needs_anchor) if needs])
    need_kl = any(stream.loss.needs_kl for stream in streams)
    anchor = loaded if is_policy else _second_model(config, loaded, rows)
    return _cached(config, anchor, anchored, collator, need_kl, say, progress)


def keep_as_autocast_reads(model: Any, precision: str) -> None:
    """Store linear layers in the dtype to which autocast rounds them in every pass: half the memory, the same bits.

    Embedding, norms and head stay: the residual stream is float32 in the policy too. Under FSDP everything stays, which wants
    one dtype; a sharded anchor is small.
    """
    dtype = AUTOCAST.get(precision)
    if dtype is None or wants_sharding():
        return
    head = model.get_output_embeddings()
    for module in model.modules():
        if type(module) is nn.Linear and module is not head:
            module.to(dtype)


def _second_model(config: TrainConfig, policy: LoadedModel, rows: Sequence[StreamRow]) -> LoadedModel:
    anchor, _ = load_model(config, config.anchor.model or config.model.name)
    anchor.model.eval().requires_grad_(False)
    refuse_other_vocabulary(anchor, policy, (row.row for row in rows))
    return anchor


def refuse_other_vocabulary(anchor: LoadedModel, policy: LoadedModel, rows: Iterable[TokenRow]) -> None:
    """Raise ``InputError`` for an anchor with another vocabulary: it reads the policy's ids, so every figure would be wrong."""
    used = sorted({token for row in rows for token in row.ids})
    theirs, ours = (loaded.tokenizer.convert_ids_to_tokens(used) for loaded in (anchor, policy))
    for token, there, here in zip(used, theirs, ours, strict=True):
        if there != here:
            raise InputError(
                f"anchor.model: {anchor.name} has another vocabulary: token {token} is {there!r} there and {here!r} in"
                f" {policy.name}; an anchor must read the same tokens"
            )
    sizes = [loaded.model.get_output_embeddings().weight.shape[0] for loaded in (anchor, policy)]
    if sizes[0] != sizes[1]:
        raise InputError(
            f"anchor.model: {anchor.name} has {sizes[0]} logits and {policy.name} {sizes[1]}: they are compared one by one"
        )


def _cached(
    config: TrainConfig,
    anchor: LoadedModel,
    rows: Sequence[StreamRow],
    collator: Collator,
    need_kl: bool,
    say: Say,
    progress: bool,
) -> CachedAnchor:
    """Open the cache; make it first where there is none. The untrained policy is its own anchor: no second copy."""
    assert config.anchor.cache is not None
    folder = Path(config.anchor.cache)
    anchor.model.eval()
    precision = config.training.precision
    key = cache_key(rows, anchor.tokenizer, anchor.model, config.training.max_length, precision)
    autocast = torch.autocast(anchor.device.type, AUTOCAST.get(precision), enabled=precision in AUTOCAST)
    with main_first() as alive:
        if not folder.exists():
            bar = Progress(console=Console(stderr=True), disable=not (progress and PartialState().is_main_process))
            task = bar.add_task("anchor cache", total=len(rows))

            def on_rows(count: int) -> None:
                bar.advance(task, count)
                alive()

            with bar, autocast, made_whole(folder) as part:
                build_cache(
                    part,
                    rows,
                    ModelAnchor(anchor.model),
                    collator,
                    key=key,
                    hidden=config.anchor.cache_hidden,
                    on_rows=on_rows,
                )
    say(f"anchor: cached in {folder}")
    return CachedAnchor(folder, key=key, need_kl=need_kl, device=anchor.device)
