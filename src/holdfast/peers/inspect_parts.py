"""What inspect finds by our entry point: the scorer ``holdfast/outcome`` and the sandbox ``holdfast``."""

from __future__ import annotations

import math
import shlex
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import anyio
from inspect_ai.scorer import Score, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState
from inspect_ai.util import ExecResult, OutputLimitExceededError, SandboxEnvironment, sandboxenv
from inspect_ai.util import SandboxEnvironmentLimits as InspectLimits
from inspect_ai.util import SandboxUserUnsupportedError as UserUnsupported

from holdfast.judging import find_judge, run_program
from holdfast.judging.sandbox import Limits, StoppedError
from holdfast.records import OUTCOMES

SECONDS = 30
"""For a command without a timeout of its own."""
ONLY_PYTHON = (
    "this sandbox runs Python programs only: python3 FILE, python3 -c CODE, or python3 - with the program as input"
)
CANNOT_EXECUTE, NOT_FOUND, KILLED = 126, 127, 137


@scorer(metrics={"*": [mean(), stderr()]})  # type: ignore[untyped-decorator]
def outcome(judge: str = "outcome") -> Any:
    """What the answer did with the request: complied, refused or missed, each 0 or 1.

    ``judge``: who says so; one that gives outcomes. A sample that it cannot judge is left unscored.
    """
    judging = find_judge(judge)

    async def score(state: TaskState, target: Target) -> Score | None:  # noqa: ARG001 (inspect's signature)
        verdict = await anyio.to_thread.run_sync(judging, state.user_prompt.text, state.output.completion)
        if verdict.outcome is None:
            return None
        values = {name: int(name == verdict.outcome) for name in OUTCOMES}
        probabilities = None if verdict.p is None else verdict.p._asdict()
        answer, metadata = state.output.completion, {"judge": judging.name, "p": probabilities}
        return Score(value=values, answer=answer, explanation=verdict.reason, metadata=metadata)

    return score


@sandboxenv(name="holdfast")
class ConfinedPython(SandboxEnvironment):
    """Python programs behind bubblewrap, or Landlock and seccomp: no docker, no root, no network, no files written.

    Files of the sample are kept here and may be run as programs; a program does not see them. docs/sandbox.md says what holds
    a program. Where nothing can confine it, it is not run.
    """

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, bytes] = {}

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: dict[str, str]) -> dict[str, SandboxEnvironment]:
        """Make a sandbox for a sample."""
        return {"default": cls()}

    @classmethod
    async def sample_cleanup(
        cls, task_name: str, config: Any, environments: dict[str, SandboxEnvironment], interrupted: bool
    ) -> None:
        """Do nothing: every program's process has ended with its command."""

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a Python program. Any other command fails with exit code 127, and its error output says what runs."""
        if user is not None:
            raise UserUnsupported("the holdfast sandbox has one user, who owns nothing")
        given = input.encode() if isinstance(input, str) else input or b""
        words = _plain_command(cmd)
        if words is None:
            return ExecResult(False, NOT_FOUND, "", ONLY_PYTHON)
        match words[1:]:
            case ["-c", source, *rest]:
                name, arguments = "-c", rest
            case [] | ["-", *_]:
                name, arguments, source, given = "-", words[2:], given.decode(errors="replace"), b""
            case [name, *arguments] if not name.startswith("-") and self._place(name, cwd) in self._files:
                source = self._files[self._place(name, cwd)].decode(errors="replace")
            case [name, *_]:
                return ExecResult(False, CANNOT_EXECUTE, "", f"python3: {name}: no such file, and no option known here")
        return await self._run(_as_main(source, name, arguments, env or {}), given, timeout or SECONDS)

    async def _run(self, program: str, stdin: bytes, seconds: float) -> ExecResult[str]:
        most = InspectLimits.MAX_EXEC_OUTPUT_SIZE
        limits = Limits(seconds=seconds, cpu_seconds=math.ceil(seconds) + 1, output_bytes=most)
        try:
            ran = await anyio.to_thread.run_sync(partial(run_program, program, stdin, limits=limits))
        except StoppedError as error:
            if str(error).startswith("time limit"):
                raise TimeoutError(f"the program ran for more than {seconds:g} seconds") from None
            if "bytes of output" in str(error):
                raise OutputLimitExceededError(InspectLimits.MAX_EXEC_OUTPUT_SIZE_STR, None) from None
            return ExecResult(False, KILLED, "", str(error))
        return ExecResult(ran.code == 0, ran.code, ran.output, ran.error or "")

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Keep a file of the sample."""
        self._files[self._place(file)] = contents.encode() if isinstance(contents, str) else contents

    async def read_file(self, file: str, text: bool = True) -> Any:
        """A file of the sample, as it was written."""
        place = self._place(file)
        if place not in self._files:
            raise FileNotFoundError(f"{file}: no such file; a program in this sandbox writes none")
        return self._files[place].decode() if text else self._files[place]

    @staticmethod
    def _place(file: str, folder: str | None = None) -> str:
        return str(PurePosixPath("/sample") / (folder or "") / file)


def _plain_command(cmd: list[str]) -> list[str] | None:
    """The words of a command that starts Python. A shell that is given one plain such command counts; None for any other."""
    words = list(cmd)
    if words and PurePosixPath(words[0]).name in ("bash", "sh") and "-c" in words[:-1]:
        text = words[words.index("-c") + 1]
        if set(text) & set(";&|<>$`()\n*?"):
            return None
        try:
            words = shlex.split(text)
        except ValueError:
            return None
    return words if words and PurePosixPath(words[0]).name in ("python", "python3") else None


def _as_main(source: str, name: str, arguments: list[str], variables: dict[str, str]) -> str:
    """A program that runs ``source`` under its own name and lines, with its arguments and environment."""
    return (
        f"import os, sys\nsys.argv = {[name, *arguments]!r}\nos.environ.update({variables!r})\n"
        f"exec(compile({source!r}, {name!r}, 'exec'), globals())\n"
    )
