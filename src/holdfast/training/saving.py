"""What a checkpoint of a run holds, and how it comes back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

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

    def write(folder: Path) -> None:
        write_model(trainer, folder)
        save_optimizer(trainer.optimizer, folder, main=main)
        save_rng(folder, rank=trainer.args.process_index)
        if main:
            save_tree(folder, "scheduler", trainer.lr_scheduler.state_dict())
            scaler = trainer.accelerator.scaler
            if scaler is not None:
                save_tree(folder, "scaler", scaler.state_dict())
            _remember_callbacks(trainer)
            trainer.state.save_to_json(str(folder / "trainer_state.json"))

    trainer.monitor.steps.sync()
    save_jointly(trainer.checkpoints, step, write, keep=trainer.keep)


def load_state(trainer: StreamTrainer, folder: Path) -> None:
    """Optimizer and schedule; Trainer itself has loaded the weights and its counters."""
    load_optimizer(trainer.optimizer, folder)
    trainer.lr_scheduler.load_state_dict(load_tree(folder, "scheduler"))
    scaler = trainer.accelerator.scaler
    if scaler is not None and (folder / "scaler.json").exists():
        scaler.load_state_dict(load_tree(folder, "scaler"))


def write_model(trainer: StreamTrainer, folder: Path, *, merge: bool = False) -> None:
    """Weights and tokenizer as transformers or peft write them, without Trainer's pickled arguments."""
    model = trainer.accelerator.unwrap_model(trainer.model, keep_torch_compile=False)
    state = trainer.accelerator.get_state_dict(trainer.model) if trainer.is_fsdp_enabled else None
    if trainer.accelerator.is_main_process:
        if merge:
            model = model.merge_and_unload()
        model.save_pretrained(folder, state_dict=state)
        assert trainer.processing_class is not None
        trainer.processing_class.save_pretrained(folder)


def _remember_callbacks(trainer: StreamTrainer) -> None:
    """As Trainer does before it writes its state."""
    for callback in [*trainer.callback_handler.callbacks, trainer.control]:
        if isinstance(callback, ExportableState):
            trainer.state.stateful_callbacks[type(callback).__name__] = callback.state()
