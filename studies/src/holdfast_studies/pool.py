"""Run trainings side by side, in processes of one thread each."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from itertools import chain
from multiprocessing import get_context
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

import torch

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_processes(function: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> Iterator[Result]:
    """Yield results as they come in. A free process takes the next task, so put the longest tasks first.

    This process is one of the workers. It begins at once, because it has imported everything; the others are fresh
    interpreters, because torch does not survive a fork. Their results and errors are yielded between two tasks of this one.
    """
    function = partial(_then_freed, function)
    if workers == 1 or len(tasks) < 2:
        yield from map(function, tasks)
        return
    left = iter(tasks)
    first = next(left)
    num_others, num_threads = min(workers, len(tasks)) - 1, torch.get_num_threads()
    pool = ProcessPoolExecutor(num_others, get_context("spawn"), torch.set_num_threads, (1,))
    finished: SimpleQueue[Future[Result]] = SimpleQueue()

    def keep_one_busy() -> None:
        for task in left:
            future = pool.submit(function, task)
            failed = future.exception()  # waits for it
            finished.put(future)
            if failed is not None:
                break

    torch.set_num_threads(1)
    try:
        for _ in range(num_others):
            Thread(target=keep_one_busy, daemon=True).start()
        missing = len(tasks)
        for task in chain([first], left):
            yield function(task)
            missing -= 1
            while not finished.empty():
                yield finished.get().result()
                missing -= 1
        for _ in range(missing):
            yield finished.get().result()
    finally:
        list(left)  # after an error or Ctrl-C no further task is begun
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(num_threads)


def _then_freed(function: Callable[[Task], Result], task: Task) -> Result:
    """Run the task and free its memory: trainers refer to themselves, and the next task needs the memory."""
    result = function(task)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return result
