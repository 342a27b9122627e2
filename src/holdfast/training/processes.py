"""Several processes: a lock, a folder that two runs may make at a time, work that the main process does first, and FSDP2 where
accelerate would quietly do something else.

Asked for FSDP on CPU, accelerate falls back to DDP without a word. The same sharding works there over gloo, so a run
that asks for it gets it: slow, but the same code as on a cluster, and testable without one."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import torch.distributed as dist
from accelerate import Accelerator, FullyShardedDataParallelPlugin, PartialState
from accelerate.utils import DistributedType
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from holdfast.config import InputError
from holdfast.training.checkpoints.folders import are_several, is_alive

Say = Callable[[str], None]
Alive = Callable[..., None]
"""Called after every piece of long work, to show that the process is alive. Its arguments do not matter."""


def ignore(*_: object) -> None:
    """A ``Say`` or an ``Alive`` that does nothing, such as for all processes but the first."""


def wants_sharding() -> bool:
    """Whether the launcher was asked for FSDP."""
    return os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"


def shard_on_cpu_too(accelerator: Accelerator) -> bool:
    """Switch accelerate to FSDP2 on CPU where it was asked for FSDP; returns whether that was needed."""
    if not (wants_sharding() and accelerator.distributed_type == DistributedType.MULTI_CPU):
        return False
    plugin = FullyShardedDataParallelPlugin()
    plugin.set_state_dict_type("FULL_STATE_DICT")
    accelerator.state.fsdp_plugin = plugin
    accelerator.state.distributed_type = DistributedType.FSDP
    PartialState().distributed_type = DistributedType.FSDP  # accelerator.state copies it from there now and then
    return True


def refuse_zero3(accelerator: Accelerator) -> None:
    """DeepSpeed's stages 1 and 2 keep weights whole; stage 3 frees the head before its gradient comes back."""
    plugin = accelerator.state.deepspeed_plugin
    if plugin is not None and plugin.zero_stage == 3:
        raise InputError("DeepSpeed ZeRO stage 3 is not supported: use FSDP2 (holdfast recipes fsdp2_8gpu) or stage 2")


class SayWhatIsSharded(TrainerCallback):
    """Looks at the parameters themselves once training begins: being asked for FSDP is not the same as having it."""

    def __init__(self, anchor: object, say: Say) -> None:
        self.anchor, self.say = anchor, say

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **_: Any
    ) -> None:
        """Print what is sharded, if anything is."""
        policy, anchor = num_shards(model), num_shards(getattr(self.anchor, "model", None))
        if policy > 1:
            beside = f"; anchor sharded over {anchor} processes" if anchor > 1 else ""
            self.say(f"FSDP2: policy sharded over {policy} processes{beside}")


def num_shards(model: Any) -> int:
    """Over how many processes a model's parameters are spread; 1 when they are whole."""
    parameters = model.parameters() if model is not None else ()
    return max((p.device_mesh.size() for p in parameters if isinstance(p, DTensor)), default=1)


def try_lock(file: int | IO[str]) -> bool:
    """Take the lock of a file or folder; False if another process has it. Closing the file gives it back."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems have no locks
        pass
    return True


@contextmanager
def made_whole(folder: Path) -> Iterator[Path]:
    """A folder to fill that takes the name of ``folder`` at the end, so that one with that name is whole.

    Two runs may make the same one at a time. Where another was quicker, its folder stays. What a killed process left is
    deleted.
    """
    hidden = f".{folder.name}-"
    folder.parent.mkdir(parents=True, exist_ok=True)
    for path in folder.parent.iterdir():
        maker = path.name.removeprefix(hidden)
        if path.name.startswith(hidden) and maker.isdigit() and not is_alive(int(maker)):
            shutil.rmtree(path, ignore_errors=True)
    part = folder.with_name(f"{hidden}{os.getpid()}")
    part.mkdir()
    try:
        yield part
        try:
            part.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def main_first() -> Iterator[Alive]:
    """The main process goes through the body first and the others after it, as with accelerate's ``main_process_first``.

    There the others wait in one collective, which gives up after ten minutes (NCCL) or thirty (gloo). Here they wait from
    one sign of life of the main process to the next.
    """
    several = are_several()
    main = not several or dist.get_rank() == 0
    while not main and _broadcast(going_on=True):
        pass
    yield _sign if several and main else ignore
    if several and main:
        _broadcast(going_on=False)


def _broadcast(*, going_on: bool) -> bool:
    """The main process's ``going_on``, which every process returns."""
    message = [going_on]
    dist.broadcast_object_list(message)
    return message[0]


def _sign(*_: object) -> None:
    _broadcast(going_on=True)
