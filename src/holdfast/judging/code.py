"""Does a program pass its tests? The trusted test runs here; the candidate runs behind walls and answers calls with literals.

What the candidate cannot do, as long as the kernel's isolation holds: see an expected value (none is ever sent), hand over an
object of its own (only plain literals cross), or decide the outcome (the comparison is made in this process).
"""

from __future__ import annotations

import builtins
import dis
import functools
import signal
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from holdfast.config import InputError
from holdfast.judging.sandbox import Candidate, Limits, Report, Sandboxes, StoppedError, shared_sandboxes
from holdfast.judging.sandbox.inside.literals import NotLiteralError
from holdfast.records import Verdict

DEFAULT_LIMITS = Limits()


class Returned(NamedTuple):
    """What a call gave back; it may be None."""

    value: Any


class CandidateError(Exception):
    """The candidate raised something that is no built-in exception."""


def check_code(
    candidate: str,
    test: str,
    entry_point: str,
    *,
    trusted: str = "",
    limits: Limits = DEFAULT_LIMITS,
    sandboxes: Sandboxes | None = None,
) -> Verdict:
    """Run HumanEval's ``test`` (a ``check(candidate)``, or assertions on ``entry_point``) against a whole program.

    ``score`` is 1 where the test passes and 0 where not; ``safe`` is False where the candidate was stopped for reaching out or
    for going over a limit. ``judge`` names the tier that held it. ``trusted``: text whose other names the test may use
    (HumanEval's prompt); names that neither has are asked of the candidate, and the reason says so.
    """
    sandboxes = sandboxes or shared_sandboxes()
    judge = f"tests in {sandboxes.tier}"
    namespace: dict[str, Any] = {"__name__": "trusted_test"}
    code, read_names = _compiled(test)
    if trusted:
        exec(_compiled(trusted)[0], namespace)
    with sandboxes.lease() as sandbox, sandbox.candidate(limits) as process:
        session = _Session(process)
        borrowed = [name for name in read_names if name not in namespace and name != entry_point]
        namespace.update({name: session.function(name) for name in (*borrowed, entry_point)})
        failure = _failure_of(lambda: _pass_test(session, candidate, code, namespace, entry_point))
    assert process.report is not None
    reason = session.broken or failure
    if reason is not None:
        return Verdict(not session.broken, 0.0, explained(reason, process.report), judge)
    if not session.num_calls:
        return Verdict(None, 0.0, "the test never called the candidate", judge)
    note = f"; the test took {', '.join(borrowed)} from the candidate: give trusted=" if borrowed else ""
    return Verdict(True, 1.0, f"passed, {session.num_calls} calls{note}", judge)


def outputs_of(
    candidate: str,
    entry_point: str,
    calls: Sequence[Sequence[Any]],
    *,
    limits: Limits = DEFAULT_LIMITS,
    sandboxes: Sandboxes | None = None,
) -> list[Returned | None]:
    """What a whole program's function returns for each list of arguments, plain literals; None where it raised.

    Everything is None from the call on at which the program was stopped.
    """
    returned: list[Returned | None] = []
    with (sandboxes or shared_sandboxes()).lease() as sandbox, sandbox.candidate(limits) as process:
        session = _Session(process)
        function = session.function(entry_point)
        if _failure_of(lambda: session.load(candidate)) is None:
            for arguments in calls:
                try:
                    returned.append(Returned(function(*arguments)))
                except Exception:  # the candidate's own, of any kind
                    returned.append(None)
    return [*returned, *[None] * (len(calls) - len(returned))]


class _Session:
    """Calls into the candidate's process. Once it is broken it stays broken, whatever the test catches."""

    def __init__(self, process: Candidate) -> None:
        self._process = process
        self.num_calls = 0
        self.broken: str | None = None

    def load(self, program: str) -> None:
        self._exchange(program)

    def function(self, name: str) -> Callable[..., Any]:
        def proxy(*arguments: Any, **keywords: Any) -> Any:
            self.num_calls += 1
            return self._exchange([name, list(arguments), keywords])

        return proxy

    def _exchange(self, message: Any) -> Any:
        try:
            if self.broken:
                raise StoppedError(self.broken)
            self._process.send(message)
            reply = self._process.receive()
            if not isinstance(reply, dict) or not reply.keys() & {"value", "error"}:
                raise StoppedError("a reply that is none")
        except StoppedError as error:
            self.broken = str(error)
            raise
        except NotLiteralError as error:
            raise TypeError(f"the test passed what is no literal: {error}") from error
        if "error" in reply:
            raise _exception(reply)
        return reply["value"]


def _pass_test(
    session: _Session, program: str, code: types.CodeType, namespace: dict[str, Any], entry_point: str
) -> None:
    session.load(program)
    exec(code, namespace)
    if "check" in namespace:
        namespace["check"](session.function(entry_point))


def _failure_of(action: Callable[[], None]) -> str | None:
    try:
        action()
    except AssertionError as error:
        return f"wrong: {error}" if str(error) else "wrong: an assertion of the test failed"
    except SystemExit as error:  # a test written as a script may end itself; a candidate's own arrives as another error
        return f"the test exited with {error.code}"[:300] if error.code else None
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    return None


def _exception(reply: dict[str, Any]) -> Exception:
    """A built-in exception of the same name, so that a test can expect it; never one that would end this process."""
    kind = getattr(builtins, str(reply["error"]), None)
    text = str(reply.get("text", ""))[:300]
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(text)
        except TypeError:  # UnicodeDecodeError and its like want more arguments
            return ValueError(text)
    return CandidateError(f"{reply['error']}: {text}")


def explained(reason: str, report: Report) -> str:
    """The reason, or what the way in which the process ended says better."""
    if report.signal == signal.SIGSYS:
        return "stopped: it tried a forbidden system call (a process, the network, another process)"
    if report.signal == signal.SIGXCPU:
        return "stopped: CPU time used up"
    if report.signal and not (report.stopped and report.signal == signal.SIGKILL):
        return f"its process died of {signal.Signals(report.signal).name}"
    return reason


@functools.lru_cache(maxsize=512)  # one test judges many candidates
def _compiled(source: str) -> tuple[types.CodeType, tuple[str, ...]]:
    """Code of trusted text, and the names that it takes from elsewhere."""
    try:
        code = compile(source, "<trusted>", "exec", dont_inherit=True, optimize=0)  # -O must not remove the assertions
    except (SyntaxError, ValueError) as error:
        raise InputError(f"check_code: the test, or the trusted text, does not parse: {error}") from error
    return code, tuple(_free_names(code))


def free_names(test: str) -> tuple[str, ...]:
    """Names that a test takes from the program that it tests."""
    return _compiled(test)[1]


def _free_names(code: types.CodeType) -> list[str]:
    """Names that the test reads and does not define: globals of any of its functions that are no built-ins."""
    read: dict[str, None] = {}
    written = set()
    for part in _nested(code):
        for step in dis.get_instructions(part):
            if step.opname in ("LOAD_NAME", "LOAD_GLOBAL"):
                read[step.argval] = None
            elif step.opname in ("STORE_NAME", "STORE_GLOBAL"):
                written.add(step.argval)
    return [name for name in read if name not in written and not hasattr(builtins, name) and name != "__name__"]


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)
