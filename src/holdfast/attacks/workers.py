"""Single-threaded worker processes, one task at a time each. One that dies costs its task, not the others'."""

from __future__ import annotations

import atexit
import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, Generic, NamedTuple, TypeVar

from holdfast.attacks.caller_script import (
    MAIN,
    end_if_started_again,
    imports_script,
    raise_if_started_again,
    script_left_out,
)

Task = TypeVar("Task")
SECONDS_TO_END = 60.0  # of a worker that has nothing more to do; then it is killed
SECONDS_BETWEEN_LOOKS = 1.0  # for a Ctrl-C that went nowhere


class Done(NamedTuple, Generic[Task]):
    """A task that has been finished; ``error`` is None, or why the worker died over it."""

    task: Task
    error: str | None


class _Worker(NamedTuple):
    process: BaseProcess
    pipe: Connection


def work_through(
    tasks: Sequence[Task], function: Callable[[Task], None], num_workers: int, *, parts: Sequence[object] = ()
) -> Iterator[Done[Task]]:
    """Call ``function`` (importable by name) on every task in other processes; yield tasks as they are finished.

    ``parts``: classes and functions that tasks look up by name; workers import their modules, which register them.
    The function catches what may go wrong inside a task. When this process ends, however it ends, the workers end too;
    after the last task they have ended, and what they held of a GPU is free. Ctrl-C reaches this process only.

    Raises ``InputError`` if workers would have to import a script that runs once more when it is imported.
    """
    workers: list[_Worker] = []
    try:
        with _no_ctrl_c_is_lost() as raise_if_pressed:
            yield from _finished_tasks(tasks, function, num_workers, parts, workers, raise_if_pressed)
        for worker in workers:
            worker.process.join(SECONDS_TO_END)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


def _finished_tasks(
    tasks: Sequence[Task],
    function: Callable[[Task], None],
    num_workers: int,
    parts: Sequence[object],
    workers: list[_Worker],
    raise_if_pressed: Callable[[], None],
) -> Iterator[Done[Task]]:
    """Start workers, which are appended to ``workers``, and hand out the tasks until all are finished."""
    waiting = list(reversed(tasks))
    busy: dict[_Worker, Task] = {}
    end_if_started_again()
    with_script = imports_script(function, tasks, parts=parts)
    start = partial(_started, function, modules=_modules(parts), with_script=with_script)
    # All are started before the first is given anything: a task larger than a pipe waits until its worker reads.
    for _ in range(min(num_workers, len(tasks))):
        workers.append(start())
    for worker in list(workers):
        _give(worker, waiting, busy)
    while busy:
        raise_if_pressed()
        ready = wait([worker.pipe for worker in busy], timeout=SECONDS_BETWEEN_LOOKS)
        for worker in [worker for worker in busy if worker.pipe in ready]:
            task, error = busy.pop(worker), None
            try:
                worker.pipe.recv()
            except (EOFError, OSError):  # a killed peer ends the pipe, or resets it
                worker.process.join()
                raise_if_started_again(worker.process.exitcode)
                error = f"its process died ({_exit(worker.process.exitcode)})"
                if waiting:
                    worker = start()
                    workers.append(worker)
            yield Done(task, error)
            _give(worker, waiting, busy)


def _give(worker: _Worker, waiting: list[Any], busy: dict[_Worker, Any]) -> None:
    if waiting:
        busy[worker] = waiting.pop()
        with contextlib.suppress(BrokenPipeError):  # dead already: the next wait on its pipe finds that out
            worker.pipe.send(busy[worker])
    else:
        worker.pipe.close()  # its next recv ends it


def _modules(parts: Sequence[object]) -> list[str]:
    """Where parts of the user's own are defined; a worker has ours, and its own copy of the script."""
    modules = dict.fromkeys(getattr(part, "__module__", None) or MAIN for part in parts)
    return [name for name in modules if name != MAIN and not name.startswith("holdfast.")]


def _started(function: Callable[[Any], None], *, modules: Sequence[str], with_script: bool) -> _Worker:
    context = _context()
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, function, modules, dict(os.environ)), daemon=True)
    with _deaf_to_ctrl_c(), script_left_out(not with_script):
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _context() -> Any:
    """Never a fork of this process: torch's threads and locks do not survive one.

    On Linux without a GPU workers are forks of a process that has imported everything and done nothing: importing takes
    seconds for each of them otherwise. With a GPU they are fresh interpreters: importing may touch CUDA, which no fork survives.
    """
    import torch

    if sys.platform != "linux" or torch.cuda.is_available():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["holdfast.attacks.matrix", "holdfast.training.trainer"])
    return context


@contextlib.contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes started in here never see SIGINT, which a terminal sends to all of them at once.

    Whoever started them decides what Ctrl-C means. A worker that stopped by itself would look like one that failed.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # starting it later would lift the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _no_ctrl_c_is_lost() -> Iterator[Callable[[], None]]:
    """Gives a function that raises KeyboardInterrupt if Ctrl-C was pressed in here and its exception was lost.

    Python raises KeyboardInterrupt wherever the main thread happens to be. In a destructor, or below somebody's bare
    ``except``, it goes nowhere, and the work would go on to its end.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield lambda: None  # only the main thread may set handlers; and somebody may have chosen to ignore Ctrl-C
        return
    pressed = threading.Event()

    def remember(number: int, frame: FrameType | None) -> None:
        pressed.set()
        before(number, frame)

    def raise_if_pressed() -> None:
        if pressed.is_set():
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, remember)
    try:
        yield raise_if_pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(
    pipe: Connection, function: Callable[[Any], None], modules: Sequence[str], environment: Mapping[str, str]
) -> None:
    threading.Thread(target=_die_with_parent, daemon=True).start()
    os.environ.update(environment)  # it may have changed since the process that this is a fork of was started
    import torch

    gc.freeze()  # what was imported is no garbage: looking through it takes a third of a second in every cell
    atexit.register(gc.unfreeze)
    torch.set_num_threads(1)
    for name in modules:
        with contextlib.suppress(ModuleNotFoundError):  # made at run time: the task says which name it lacks
            import_module(name)
    while True:
        try:
            task = pipe.recv()
        except (EOFError, ConnectionResetError):
            return
        function(task)
        pipe.send(None)


def _die_with_parent() -> None:
    """End this worker when its parent ends: it would go on training, and leave attacked weights behind."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _exit(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
