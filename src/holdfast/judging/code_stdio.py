"""Programs that read standard input and write standard output: one fresh process per case, outputs compared here."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.judging.code import DEFAULT_LIMITS, explained
from holdfast.judging.sandbox import (
    Candidate,
    EndedError,
    Limits,
    Sandboxes,
    StoppedError,
    WarmSandbox,
    shared_sandboxes,
)
from holdfast.records import Verdict


class Case(NamedTuple):
    """What goes in, and what must come out. Only the first ever enters the sandbox."""

    stdin: str
    expected: str


def check_output(
    candidate: str, cases: Sequence[Case], *, limits: Limits = DEFAULT_LIMITS, sandboxes: Sandboxes | None = None
) -> Verdict:
    """Score 1 where every case's output is right (spaces at line ends and blank lines at the end aside), else 0."""
    sandboxes = sandboxes or shared_sandboxes()
    judge = f"output in {sandboxes.tier}"
    if not cases:
        return Verdict(None, None, "no cases to check", judge)
    with sandboxes.lease() as sandbox:
        for number, case in enumerate(cases, 1):
            try:
                ran = _run(sandbox, candidate, case.stdin.encode(), limits)
            except StoppedError as error:
                return Verdict(False, 0.0, f"case {number}: {error}", judge)
            if ran.code:
                return Verdict(True, 0.0, f"case {number}: {ran.error or f'exit code {ran.code}'}", judge)
            if _lines(ran.output) != _lines(case.expected):
                return Verdict(True, 0.0, f"case {number}: wrong output", judge)
    return Verdict(True, 1.0, f"passed, {len(cases)} cases", judge)


class Ran(NamedTuple):
    """How a program ended by itself: what it wrote, its exit code, and the exception that ended it."""

    output: str
    code: int
    error: str | None


def run_program(
    program: str, stdin: bytes = b"", *, limits: Limits = DEFAULT_LIMITS, sandboxes: Sandboxes | None = None
) -> Ran:
    """Run a Python program that reads standard input and writes standard output, in the sandbox.

    Raises ``StoppedError`` where it was stopped: for going over a limit, or for reaching out.
    """
    with (sandboxes or shared_sandboxes()).lease() as sandbox:
        return _run(sandbox, program, stdin, limits)


def _run(sandbox: WarmSandbox, program: str, stdin: bytes, limits: Limits) -> Ran:
    source = os.memfd_create("stdin", os.MFD_CLOEXEC)
    ours, theirs = os.pipe()
    try:
        with os.fdopen(os.dup(source), "wb") as file:
            file.write(stdin)
        os.lseek(source, 0, os.SEEK_SET)
        with sandbox.candidate(limits, script=True, stdio=(source, theirs)) as process:
            os.close(theirs)
            theirs = -1
            process.send(program)
            data = _read_all(ours, limits, process.deadline)
            error = _last_words(process)
    finally:
        for descriptor in (source, ours, theirs):
            if descriptor >= 0:
                os.close(descriptor)
    assert process.report is not None
    if process.report.signal:
        raise StoppedError(explained("it let go of its channel and went on", process.report))
    return Ran(data.decode(errors="replace"), process.report.code, error)


def _read_all(descriptor: int, limits: Limits, deadline: float) -> bytes:
    data = bytearray()
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0]:
            break
        part = os.read(descriptor, 1 << 16)
        if not part:
            return bytes(data)
        data += part
        if len(data) > limits.output_bytes:
            raise StoppedError(f"more than {limits.output_bytes} bytes of output")
    raise StoppedError(f"time limit of {limits.seconds:g} s")


def _last_words(process: Candidate) -> str | None:
    """Waits until the process lets go of its channel, which it does by ending; an exception's name comes before that."""
    message = None
    try:
        while True:
            message = process.receive()
    except EndedError:
        return (
            f"{message['error']}: {message.get('text', '')}"
            if isinstance(message, dict) and "error" in message
            else None
        )


def _lines(text: str) -> list[str]:
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip("\n").split("\n")
