"""Which of the three anchors a run gets, and making it ready."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from accelerate import PartialState
from rich.progress import Progress

from holdfast.config import InputError, TrainConfig
from holdfast.models import LoadedModel
from holdfast.training.anchor_cache import CachedAnchor, build_cache, cache_key
from holdfast.training.anchors import AdapterOffAnchor, Anchor, ModelAnchor
from holdfast.training.collate import Collator, StreamRow
from holdfast.training.loading import load_model
from holdfast.training.main_first import main_first
from holdfast.training.streams import ReadStream

Say = Callable[[str], None]


def choose_anchor(
    config: TrainConfig,
    loaded: LoadedModel,
    streams: Sequence[ReadStream],
    rows: Sequence[StreamRow],
    collator: Collator,
    say: Say,
    progress: bool = True,
) -> Anchor | None:
    """None when no stream needs one. ``auto``: adapters off where that is the anchor, a second model otherwise."""
    if not any(stream.loss.needs_anchor for stream in streams):
        return None
    settings = config.anchor
    own = settings.model is None or settings.model == config.model.name
    via = settings.via
    if via == "auto":
        via = "cache" if settings.cache else "adapter_off" if config.lora and own else "model"
    if via == "adapter_off":
        if not (config.lora and own):
            raise InputError("anchor.via: adapter_off needs lora: and an anchor that is the model itself")
        say("anchor: the model itself with its adapters off")
        return AdapterOffAnchor()
    if via == "model":
        say(f"anchor: a second model, {settings.model or config.model.name}")
        return ModelAnchor(_second_model(config, loaded, rows).model)
    if settings.cache is None:
        raise InputError("anchor.cache: name a folder for the anchor cache")
    anchored = [row for row in rows if collator.needs_anchor[row.stream]]
    need_kl = any(stream.loss.needs_kl for stream in streams)
    anchor = loaded if own else _second_model(config, loaded, rows)
    return _cached(config, anchor, anchored, collator, need_kl, say, progress)


def _second_model(config: TrainConfig, policy: LoadedModel, rows: Sequence[StreamRow]) -> LoadedModel:
    anchor, _ = load_model(config, config.anchor.model or config.model.name)
    anchor.model.eval().requires_grad_(False)
    _refuse_other_vocabulary(anchor, policy, rows)
    return anchor


def _refuse_other_vocabulary(anchor: LoadedModel, policy: LoadedModel, rows: Sequence[StreamRow]) -> None:
    """The anchor reads the policy's ids: as other words they would give figures, and all of them wrong."""
    used = sorted({token for row in rows for token in row.row.ids})
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
    key = cache_key(rows, anchor.tokenizer, anchor.model, config.training.max_length)
    with main_first() as alive:
        if not folder.exists():
            bar = Progress(disable=not (progress and PartialState().is_main_process))
            task = bar.add_task("anchor cache", total=len(rows))

            def on_rows(count: int) -> None:
                bar.advance(task, count)
                alive()

            with bar:
                build_cache(
                    folder,
                    rows,
                    ModelAnchor(anchor.model),
                    collator,
                    key=key,
                    hidden=config.anchor.cache_hidden,
                    on_rows=on_rows,
                )
    say(f"anchor: cached in {folder}")
    return CachedAnchor(folder, key=key, need_kl=need_kl, device=anchor.device)
