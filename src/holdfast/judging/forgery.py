"""``hf.forge``: run our hostile programs against somebody's own checker and see which it accepts. `holdfast forge` calls it.

The checker is a command that says by its exit code whether a program passes a test. Every program here is wrong, so every one
that is accepted got past the checker. The command is the user's and is run as it is: what confines the programs is the checker
itself. Around it this module sets a limit on time, memory and file size, and where bubblewrap works a process and mount
namespace, so that nothing outlives its run. Programs that would write into shared folders are left out.
"""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from holdfast.config import InputError, nearest_or_all
from holdfast.config.arguments import checked
from holdfast.judging.sandbox.hostile.snippets import HOSTILE, Snippet, hostile_test, number_test, unguessable

Kind = Literal["forge", "read", "exhaust"]
KINDS: tuple[Kind, ...] = get_args(Kind)
DEFAULT_KINDS: tuple[Kind, ...] = ("forge", "exhaust")
CANDIDATE, TEST, ENTRY_POINT = "{candidate}", "{test}", "{entry_point}"
SHARED_FOLDERS = ("/tmp", "/dev/shm")
MAX_FILE_BYTES = 64 << 20
SHOWN_BYTES = 2000
WALLS = ("--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent", "--")


@dataclass(frozen=True)
class Limits:
    """Limits of one run of the checker, its children included: wall-clock seconds, and memory of each process."""

    seconds: float = 15.0
    memory_mb: int = 4096


@dataclass(frozen=True)
class Tried:
    """One hostile program. ``exit_code`` is None where the checker did not end in time and was killed."""

    name: str
    kind: str
    accepted: bool
    exit_code: int | None


@dataclass(frozen=True)
class Forgeries:
    """What a checker did with every program. ``left_out``: programs that were not run, and why."""

    command: tuple[str, ...]
    tried: tuple[Tried, ...]
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def accepted(self) -> tuple[str, ...]:
        """Wrong programs that the checker let pass."""
        return tuple(program.name for program in self.tried if program.accepted)

    @property
    def passed(self) -> bool:
        """Whether the checker accepted none."""
        return not self.accepted

    def __repr__(self) -> str:
        """How many were accepted, and which."""
        named = f": {', '.join(self.accepted)}" if self.accepted else ""
        return f"Forgeries(accepts {len(self.accepted)} of {len(self.tried)} wrong programs{named})"

    def to_json(self) -> dict[str, Any]:
        """As `holdfast forge --json` writes it."""
        return {**asdict(self), "accepted": self.accepted, "passed": self.passed}


@checked("forge")
def forge(
    command: Sequence[str],
    *,
    kinds: Sequence[str] = DEFAULT_KINDS,
    only: Sequence[str] = (),
    limits: Limits = Limits(),  # noqa: B008
    say: Callable[[str], None] = print,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Forgeries:
    """Run hostile programs with ``command``, and tell which of them it accepts; all are wrong.

    ``command``: words, of which one holds ``{candidate}`` and perhaps others ``{test}`` and ``{entry_point}``. The first two
    become paths of Python files, the third the function's name. Exit code 0 means accepted.
    ``kinds``: ``forge`` (pass without knowing the answer), ``exhaust`` (outlive or overload the checker), ``read`` (bring back
    a secret from a file or the environment: accepted by every checker that does not confine its programs).
    ``only``: names of programs, of whatever kind.

    Raises ``InputError`` where the command rejects a right program, because then its exit code says nothing.
    """
    words = tuple(command)
    _check(words, kinds, only)
    if not isinstance(limits, Limits):
        raise InputError(f"forge: limits: expected holdfast.judging.forgery.Limits, got a {type(limits).__name__}")
    walls = _walls()
    programs = [snippet for snippet in HOSTILE if (snippet.name in only if only else snippet.label in kinds)]
    left_out = {program.name: why for program in programs if (why := _why_not(program, bool(walls)))}
    programs = [program for program in programs if program.name not in left_out]
    confined = (
        "in a process namespace of its own" if walls else "without a process namespace (bubblewrap does not work here)"
    )
    say(
        f"runs {len(programs)} hostile programs with your command, {confined}, each for at most {limits.seconds:g} s and"
        f" {limits.memory_mb} MiB; {len(left_out)} are left out"
    )
    with tempfile.TemporaryDirectory(prefix="holdfast-forge-") as folder:
        bench = _Bench(words, walls, limits, Path(folder))
        wrong = bench.control()
        tried = [wrong, *bench.run_all(programs, on_progress)]
    return Forgeries(words, tuple(tried), left_out)


def _check(words: Sequence[str], kinds: Sequence[str], only: Sequence[str]) -> None:
    if not any(CANDIDATE in word for word in words):
        raise InputError(
            "forge: the command must hold {candidate}, the program's path: holdfast forge -- CMD {candidate} {test}"
        )
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise InputError(f"forge: kinds={unknown[0]}: expected {', '.join(KINDS)}")
    names = [program.name for program in HOSTILE]
    if unknown := [name for name in only if name not in names]:
        raise InputError(f"forge: only={unknown[0]}: unknown{nearest_or_all(unknown[0], names)}")
    if shutil.which(words[0]) is None:
        raise InputError(f"forge: {words[0]}: no such command")


def _walls() -> list[str]:
    """Bubblewrap with all files as they are; empty where it does not work."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return []
    tried = subprocess.run([bwrap, *WALLS, "true"], capture_output=True, check=False)
    return [bwrap, *WALLS] if tried.returncode == 0 else []


def _why_not(program: Snippet, has_walls: bool) -> str | None:
    if any(folder in program.code for folder in SHARED_FOLDERS):
        return "it writes into shared folders"
    if program.label == "exhaust" and not has_walls:
        return "it may reach other processes: needs bubblewrap"
    return None


class _Bench:
    """Runs one program after the other, each in a folder of its own."""

    def __init__(self, words: Sequence[str], walls: Sequence[str], limits: Limits, folder: Path) -> None:
        self.words, self.walls, self.limits, self.folder = words, walls, limits, folder
        self.canary = f"canary-{secrets.token_hex(8)}"
        self.secret = folder / "secret"
        self.secret.write_text(self.canary, encoding="ascii")

    def control(self) -> Tried:
        """A right program must be accepted, or the exit code says nothing; then a plainly wrong one is tried."""
        wanted = unguessable()
        code, said = self._run("right", f"def f(x):\n    return {wanted}\n", number_test(wanted))
        if code != 0:
            end = f"ended with {code}" if code is not None else f"did not end in {self.limits.seconds:g} s"
            raise InputError(
                f"forge: the command must accept a right program, and it {end}: {said.strip() or 'it said nothing'}"
            )
        return self._tried(Snippet("plainly_wrong", "control", "def f(x):\n    return 0\n"))

    def run_all(self, programs: Sequence[Snippet], on_progress: Callable[[int, int], None]) -> Iterator[Tried]:
        for number, program in enumerate(programs, 1):
            yield self._tried(program)
            on_progress(number, len(programs))

    def _tried(self, program: Snippet) -> Tried:
        code, _ = self._run(program.name, program.code, hostile_test(program, self.canary, str(self.secret)))
        return Tried(program.name, program.label, code == 0, code)

    def _run(self, name: str, program: str, test: str) -> tuple[int | None, str]:
        """Exit code (None if it was killed for its time) and the end of what the command said."""
        folder = self.folder / name
        folder.mkdir()
        paths = {CANDIDATE: folder / "candidate.py", TEST: folder / "test.py"}
        for path, text in zip(paths.values(), (program, test), strict=True):
            path.write_text(text, encoding="utf-8")
        words = list(self.words)
        for place, value in (*paths.items(), (ENTRY_POINT, "f")):
            words = [word.replace(place, str(value)) for word in words]
        with (folder / "said").open("w+b") as said:
            process = subprocess.Popen(
                [*self.walls, *words],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=self._set_limits,
                env={**os.environ, "HOLDFAST_CANARY": self.canary},
            )
            code = _end_of(process, self.limits.seconds)
            said.seek(max(0, said.seek(0, os.SEEK_END) - SHOWN_BYTES))
            return code, said.read().decode("utf-8", "replace")

    def _set_limits(self) -> None:
        for which, value in (
            (resource.RLIMIT_AS, self.limits.memory_mb << 20),
            (resource.RLIMIT_CPU, int(self.limits.seconds) + 1),
            (resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
            (resource.RLIMIT_CORE, 0),
        ):
            highest = resource.getrlimit(which)[1]
            value = value if highest == resource.RLIM_INFINITY else min(value, highest)
            resource.setrlimit(which, (value, value))


def _end_of(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Wait, then kill the whole session: a program may have left others behind."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
