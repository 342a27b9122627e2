"""What a checkpoint of a run holds, and how it comes back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from peft import PeftModel
from safetensors.torch import load_file
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import AutoModelForCausalLM
from transformers.trainer_callback import ExportableState

from holdfast.training.joint_checkpoints import save_jointly
from holdfast.training.saved_state import load_optimizer, save_optimizer, save_rng
from holdfast.training.tensor_tree import load_tree, save_tree

if TYPE_CHECKING:
    from holdfast.training.trainer import StreamTrainer


def save_state(trainer: StreamTrainer) -> None:
    """Weights, optimizer, schedule, generators and counters, in one folder that is there whole or not at all.

    Gathering sharded weights needs every process; only the main one writes, except for each one's generators.
    """
    step, main = trainer.state.global_step, trainer.accelerator.is_main_process
    optimizer, scheduler = trainer.optimizer, trainer.lr_scheduler
    assert optimizer is not None
    assert scheduler is not None
    figures = trainer.monitor.sums(trainer.accelerator)

    def write(folder: Path) -> None:
        write_model(trainer, folder)
        if trainer.is_deepspeed_enabled:
            engine: Any = trainer.model_wrapped
            engine.save_checkpoint(str(folder))  # it owns the optimizer's state
        else:
            save_optimizer(optimizer, folder, main=main)
        save_rng(folder, rank=trainer.args.process_index)
        if main:
            save_tree(folder, "scheduler", scheduler.state_dict())
            save_tree(folder, "figures", figures)
            scaler = trainer.accelerator.scaler
            if scaler is not None:
                save_tree(folder, "scaler", scaler.state_dict())
            _remember_callbacks(trainer)
            trainer.state.save_to_json(str(folder / "trainer_state.json"))

    trainer.monitor.steps.sync()
    save_jointly(trainer.checkpoints, step, write, keep=trainer.keep)


def load_state(trainer: StreamTrainer, folder: Path) -> None:
    """Optimizer and schedule; Trainer itself has loaded the weights and its counters."""
    assert trainer.optimizer is not None
    assert trainer.lr_scheduler is not None
    load_optimizer(trainer.optimizer, folder)
    trainer.lr_scheduler.load_state_dict(load_tree(folder, "scheduler"))
    scaler = trainer.accelerator.scaler
    if scaler is not None and (folder / "scaler.json").exists():
        scaler.load_state_dict(load_tree(folder, "scaler"))


def load_sharded(model: Any, folder: Path) -> None:
    """Give each process its part of the whole weights in ``folder``."""
    files = list(folder.glob("adapter_model*.safetensors")) or folder.glob("model*.safetensors")
    saved = {name: tensor for file in files for name, tensor in load_file(file).items()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            whole = saved.get(name.replace(".default.", "."))  # peft leaves its adapter's name out
            if whole is None:
                assert not parameter.requires_grad, f"{folder}: no weights for {name}"
                continue
            parameter.copy_(distribute_tensor(whole.to(parameter), parameter.device_mesh, parameter.placements))


def write_model(trainer: StreamTrainer, folder: Path, *, merge: bool = False) -> None:
    """Weights and tokenizer as transformers or peft write them, without Trainer's pickled arguments."""
    model = trainer.accelerator.unwrap_model(trainer.model, keep_torch_compile=False)
    state = _gathered(model, trainer.accelerator.is_main_process) if trainer.is_fsdp_enabled else None
    if trainer.accelerator.is_main_process:
        if merge:
            model = model.merge_and_unload()
        if state is not None and not isinstance(model, PeftModel):
            # transformers would gather a sharded model itself, waiting for processes that are not here.
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(model.config)
            for tied in (model._tied_weights_keys or ()) if model.config.tie_word_embeddings else ():
                state.pop(tied, None)
        model.save_pretrained(folder, state_dict=state)
        assert trainer.processing_class is not None
        trainer.processing_class.save_pretrained(folder)


def _gathered(model: Any, keep: bool) -> dict[str, torch.Tensor]:
    """The whole weights of a sharded model, one after another; every process takes part, one keeps them."""
    whole = {}
    for name, tensor in model.state_dict().items():
        full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if keep:
            whole[name] = full.detach().cpu()
    return whole


def _remember_callbacks(trainer: StreamTrainer) -> None:
    """As Trainer does before it writes its state."""
    remembered: Any = trainer.state.stateful_callbacks
    for callback in [*trainer.callback_handler.callbacks, trainer.control]:
        if isinstance(callback, ExportableState):
            remembered[type(callback).__name__] = callback.state()
