"""One candidate in one process. Everything here is in the candidate's hands once its program runs; nothing relies on it."""

from __future__ import annotations

import builtins
import os
import random
import sys
import types
from typing import Any

from . import literals
from .frames import read_frame, write_frame
from .limits import die_with_parent, set_limits
from .seccomp import install

CHANNEL = 3


def run(job: dict[str, Any], descriptors: list[int], filter_program: bytes | None) -> None:
    """Take the descriptors (stdin, stdout, channel), be confined, serve. Does not return."""
    try:
        _arrange(descriptors)
        set_limits(job["cpu_seconds"], job["memory_bytes"], job["num_threads"])
        die_with_parent()
        random.seed()
        if filter_program is not None:
            install(filter_program)
        code = _script() if job["script"] else _calls()
    except BaseException:
        code = 1
    os._exit(code)


def _arrange(descriptors: list[int]) -> None:
    """0 and 1 as given, 2 like nothing, 3 the channel; every other one is closed, the zygote's control among them."""
    high = [os.dup2(descriptor, 100 + number) for number, descriptor in enumerate((*descriptors, descriptors[3]))]
    for target, source in enumerate((high[0], high[1], high[3], high[2])):
        os.dup2(source, target)
    os.closerange(CHANNEL + 1, 1024)


def _receive() -> Any:
    data = read_frame(CHANNEL)
    if data is None:
        os._exit(0)
    return literals.loads(data)


def _send(message: dict[str, Any]) -> None:
    write_frame(CHANNEL, literals.dumps(message))


def _failure(error: BaseException) -> dict[str, Any]:
    """The nearest built-in exception's name, so that a test that expects a ValueError can see one."""
    names = [kind.__name__ for kind in type(error).__mro__ if getattr(builtins, kind.__name__, None) is kind]
    return {"error": names[0], "text": str(error)[:200]}


def _namespace(name: str) -> dict[str, Any]:
    module = types.ModuleType(name)
    sys.modules[name] = module  # dataclasses and pickles look their module up
    return module.__dict__


def _calls() -> int:
    """The program defines; every later message calls one of its functions by name, with literals."""
    namespace = _namespace("candidate")
    try:
        exec(compile(_receive(), "<candidate>", "exec"), namespace)
        _send({"value": None})
    except BaseException as error:
        _send(_failure(error))
        return 1
    while True:
        name, arguments, keywords = _receive()
        try:
            reply = literals.dumps({"value": namespace[name](*arguments, **keywords)})
        except BaseException as error:
            reply = literals.dumps(_failure(error))
        write_frame(CHANNEL, reply)


def _script() -> int:
    """The program reads standard input and writes standard output."""
    try:
        exec(compile(_receive(), "<candidate>", "exec"), _namespace("__main__"))
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:
        _send(_failure(error))
        code = 1
    sys.stdout.flush()
    return code & 0xFF
