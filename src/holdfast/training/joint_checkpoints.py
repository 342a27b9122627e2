"""One checkpoint saved by every process of a run: all files are there, or none, and every process learns which.

The processes must see the same directory (on several machines: a shared file system).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch.distributed as dist

from holdfast.training.checkpoints import folder_name, prepare, prune, save_checkpoint, seal, whole_or_nothing
from holdfast.training.durable import CheckpointError


def save_jointly(directory: Path, step: int, write: Callable[[Path], None], *, keep: int | None) -> Path:
    """``save_checkpoint`` called by all processes at once; ``write(folder)`` runs on each: collectives work in it.

    The first process prepares and seals. When any process fails to write, nothing is saved and all raise.
    """
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return save_checkpoint(directory, step, write, keep=keep)
    main = dist.get_rank() == 0
    with whole_or_nothing(directory, step):
        temp = _agreed(partial(prepare, directory, step) if main else _wait)
        if temp is not None:
            _agreed(partial(write, temp))
            _agreed(partial(seal, temp) if main else _wait)
        _agreed(partial(prune, directory, step, keep) if main else _wait)
    return directory / folder_name(step)


def _wait() -> None:
    """The part of a process that has nothing to do but to hear how it went."""


def _agreed(work: Callable[[], Path | None]) -> Path | None:
    """Do this process's part of the work; returns the first process's result, and raises everywhere when any failed."""
    result, failure = None, None
    try:
        result = work()
    except Exception as error:  # whatever it was, the others must not wait for ever
        failure = error
    told: list[tuple[Path | None, str]] = [(None, "")] * dist.get_world_size()
    dist.all_gather_object(told, (result, repr(failure) if failure else ""))
    if failure:
        raise failure
    for rank, (_, problem) in enumerate(told):
        if problem:
            raise CheckpointError(f"no checkpoint was saved, because process {rank} failed: {problem}")
    return told[0][0]
