"""What a checkpoint of a run holds: weights, optimizer, schedule, random-number generators and counters, bit for bit.

``torch.optim.Optimizer.load_state_dict`` casts every state to its parameter's dtype: float32 moments of bf16 weights
come back rounded. Here a tensor comes back as it was; only its device follows the parameter."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from peft import PeftModel
from safetensors.torch import load_file
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer
from transformers import AutoModelForCausalLM
from transformers.trainer_callback import ExportableState, TrainerState

from holdfast.training.checkpoints.durable import CheckpointError, load_tree, save_tree
from holdfast.training.checkpoints.folders import save_checkpoint

if TYPE_CHECKING:
    from holdfast.training.trainer import StreamTrainer


def save_optimizer(optimizer: Optimizer, folder: Path, *, main: bool = True) -> None:
    """Write optimizer.json (class, groups, numbers) and optimizer.safetensors (``<parameter>.<name>``).

    Sharded states (FSDP2) are gathered one by one, which every process must take part in; only the main one writes.
    """
    optimizer = _unwrapped(optimizer)
    indices = {parameter: index for index, parameter in enumerate(_parameters(optimizer))}
    strays = [key for key in optimizer.state if key not in indices]
    assert not strays, f"optimizer state that belongs to no parameter: {strays}"
    state = {
        str(index): {name: _gathered(value, main) for name, value in optimizer.state[parameter].items()}
        for parameter, index in indices.items()
        if parameter in optimizer.state
    }
    if not main:
        return
    groups = [{**group, "params": [indices[p] for p in group["params"]]} for group in optimizer.param_groups]
    tree = {
        "optimizer": type(optimizer).__name__,
        "shapes": [list(parameter.shape) for parameter in indices],
        "groups": groups,
        **state,
    }
    save_tree(folder, "optimizer", tree)


def load_optimizer(optimizer: Optimizer, folder: Path) -> None:
    """Restore what ``save_optimizer`` wrote; refuse the state of another optimizer or another model."""
    optimizer = _unwrapped(optimizer)
    tree = load_tree(folder, "optimizer")
    _check_fit(optimizer, tree, f"{folder.name}/optimizer.json")
    groups: list[dict[str, Any]] = []
    state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
    for saved, group in zip(tree["groups"], optimizer.param_groups, strict=True):
        groups.append({**saved, "params": group["params"]})
        step_on_device = bool(saved.get("capturable") or saved.get("fused"))
        for index, parameter in zip(saved["params"], group["params"], strict=True):
            if str(index) in tree:
                values = tree[str(index)].items()
                state[parameter] = {name: _placed(value, name, parameter, step_on_device) for name, value in values}
    optimizer.__setstate__({"state": state, "param_groups": groups})


def save_rng(folder: Path, rank: int = 0) -> None:
    """Write the state of every generator this process draws from: Python, numpy, torch on the CPU and on CUDA."""
    version, words, gauss = random.getstate()
    kind, keys, *rest = np.random.get_state(legacy=True)
    tree = {
        "python": (version, torch.tensor(words), gauss),
        "numpy": (kind, torch.tensor(np.asarray(keys).tolist()), *rest),
        "cpu": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }
    save_tree(folder, f"rng-{rank}", tree)


def load_rng(folder: Path, rank: int = 0) -> list[str]:
    """Restore this process's generators; returns a line for each that was not saved and so goes on differently."""
    if not (folder / f"rng-{rank}.json").exists():
        return [f"{folder.name}: saved by fewer processes: process {rank} draws its random numbers afresh"]
    tree = load_tree(folder, f"rng-{rank}")
    version, words, gauss = tree["python"]
    random.setstate((version, tuple(words.tolist()), gauss))
    kind, keys, *rest = tree["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(tree["cpu"])
    if not torch.cuda.is_available():
        return []
    for device, saved in zip(range(torch.cuda.device_count()), tree["cuda"], strict=False):
        torch.cuda.set_rng_state(saved, device)
    here = torch.cuda.current_device()
    if here < len(tree["cuda"]):
        return []
    return [f"{folder.name}: saved without CUDA device {here}: it draws its random numbers afresh"]


def _unwrapped(optimizer: Optimizer) -> Optimizer:
    """The torch optimizer inside accelerate's wrapper."""
    while isinstance(inner := getattr(optimizer, "optimizer", None), Optimizer):
        optimizer = inner
    return optimizer


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _check_fit(optimizer: Optimizer, tree: dict[str, Any], file: str) -> None:
    """Refuse by name what would otherwise train the wrong weights with someone else's moments."""
    advice = "resume with the model and settings that saved it"
    if tree["optimizer"] != type(optimizer).__name__:
        raise CheckpointError(
            f"{file}: saved by {tree['optimizer']}, this run uses {type(optimizer).__name__}; {advice}"
        )
    saved = [len(group["params"]) for group in tree["groups"]]
    present = [len(group["params"]) for group in optimizer.param_groups]
    if saved != present:
        raise CheckpointError(f"{file}: saved for groups of {saved} parameters, this run has {present}; {advice}")
    shapes = [list(parameter.shape) for parameter in _parameters(optimizer)]
    for index, (was, now) in enumerate(zip(tree["shapes"], shapes, strict=True)):
        if was != now:
            raise CheckpointError(f"{file}: parameter {index} was saved with shape {was}, it has {now} now; {advice}")


def _gathered(value: Any, main: bool) -> Any:
    """A sharded tensor in full, on the main process alone; anything else as it is."""
    if not isinstance(value, DTensor):
        return value
    full = value.full_tensor()
    return full.cpu() if main else None


def _placed(value: Any, name: str, parameter: Tensor, step_on_device: bool) -> Any:
    """A saved value where the optimizer wants it: beside its parameter; the step count, by torch's rule, on the CPU.

    A copy, because a loaded tensor may be a view of the file, and that file will be pruned.
    """
    if isinstance(value, dict):
        return {key: _placed(item, key, parameter, step_on_device) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_placed(item, name, parameter, step_on_device) for item in value)
    if not isinstance(value, Tensor):
        return value
    if name == "step" and not step_on_device:
        return value.clone()
    if isinstance(parameter, DTensor) and value.shape == parameter.shape:
        whole = value.to(parameter.device)
        return distribute_tensor(whole, parameter.device_mesh, parameter.placements, src_data_rank=None)
    return value.to(parameter.device, copy=True)


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
            if trainer.step_loss.budgets is not None:
                save_tree(folder, "budgets", trainer.step_loss.budgets.state())
            scaler = trainer.accelerator.scaler
            if scaler is not None:
                save_tree(folder, "scaler", scaler.state_dict())
            _remember_callbacks(trainer)
            trainer.state.save_to_json(str(folder / "trainer_state.json"))

    trainer.monitor.steps.sync()
    save_checkpoint(trainer.run.checkpoints, step, write, keep=trainer.settings.keep)


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
    state = _whole_weights(model, trainer.accelerator.is_main_process) if trainer.is_fsdp_enabled else None
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


def _whole_weights(model: Any, keep: bool) -> dict[str, torch.Tensor]:
    """The whole weights of a sharded model, one after another; every process takes part, one keeps them."""
    whole = {}
    for name, tensor in model.state_dict().items():
        full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if keep:
            whole[name] = full.detach().cpu()
    return whole


def _remember_callbacks(trainer: StreamTrainer) -> None:
    """Put the callbacks' state into Trainer's, as Trainer does before it writes it."""
    with_state: Any = [
        callback
        for callback in (*trainer.callback_handler.callbacks, trainer.control)
        if isinstance(callback, ExportableState)
    ]
    trainer.state.stateful_callbacks = TrainerState(stateful_callbacks=with_state).stateful_callbacks
