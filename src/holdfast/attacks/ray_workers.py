"""The same tasks spread over a Ray cluster.

Ray runs a task again when its worker or its machine dies, so a task may run twice, even at the same time; here it is
reported once, and what it writes is replaced in one step (``cell_files``).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

from holdfast.attacks.workers import Done, Task
from holdfast.config import InputError

MAX_RETRIES = 3  # a task that kills every worker it gets must end some time
OBJECT_STORE_BYTES = 100 * 2**20  # next to nothing goes through it; Ray would take a third of the memory


def ray_through(tasks: Sequence[Task], function: Callable[[Task], None], num_workers: int) -> Iterator[Done[Task]]:
    """Call ``function`` on every task somewhere on the cluster, one core each; yield tasks as they are finished.

    The cluster is the one of ``RAY_ADDRESS``, with all of its cores; without it, one of ``num_workers`` processes is
    started here and ended again.
    """
    if not tasks:
        return
    with _cluster(num_workers) as ray:
        remote = ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(_single_threaded)
        waiting = {remote.remote(function, task): task for task in tasks}
        while waiting:
            (finished, *_), _ = ray.wait(list(waiting), num_returns=1)
            yield Done(waiting.pop(finished), _error(ray, finished))


def _single_threaded(function: Callable[[Any], None], task: Any) -> None:
    import torch

    torch.set_num_threads(1)
    function(task)


def _error(ray: Any, finished: Any) -> str | None:
    try:
        ray.get(finished)
    except ray.exceptions.RayTaskError as error:
        return str(error.cause)
    except ray.exceptions.RayError as error:
        return f"its process died {MAX_RETRIES + 1} times ({type(error).__name__})"
    return None


@contextmanager
def _cluster(num_workers: int) -> Iterator[Any]:
    """Ray itself, connected; a program that has connected already keeps its connection."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # before the import: nothing is sent anywhere
    import ray

    if ray.is_initialized():
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address := os.environ.get("RAY_ADDRESS"):
        try:
            ray.init(address=address, **quiet)
        except Exception as error:  # of many kinds, by what is wrong with the address
            raise InputError(f"engine ray: no cluster at RAY_ADDRESS={address}: {error}") from None
    else:
        size = {"num_cpus": num_workers, "object_store_memory": OBJECT_STORE_BYTES}
        ray.init(address="local", include_dashboard=False, **size, **quiet)
    try:
        with redirect_stdout(sys.stderr):  # Ray tells of dead workers on stdout, where `--json -` writes
            yield ray
    finally:
        ray.shutdown()
