"""The command line: thin, and quick to answer, because nothing heavy is imported before a command needs it."""

from __future__ import annotations

import atexit
import errno
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast._version import __version__
from holdfast.cli import (
    attack,
    audit,
    commands,
    compare,
    data,
    demo,
    diagnose,
    doctor,
    forge,
    generate,
    oversee,
    recipes,
    report,
    runs,
    serve,
    tasks,
    traces,
    train,
    view,
)
from holdfast.cli.options import with_options
from holdfast.cli.output import as_written, check_target, json_option, write_json
from holdfast.cli.progress import progress_bar
from holdfast.config.errors import InputError

__all__ = ["app", "as_written", "check_target", "json_option", "main", "progress_bar", "write_json"]

UsageProblem: type[Exception] = typer.BadParameter.__mro__[2]
"""An unknown option or a missing argument: click's ClickException, which newer versions of typer carry inside."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Of the disk, the quota, the size of a file: the system does not say which file it was."""

CRASHED = 70
"""A fault of ours (sysexits.h calls it EX_SOFTWARE)."""

READER_GONE = 141
"""Stopped by ``| head``: what a shell says of any program that its reader left. 0 would say that the work is done."""


class _Commands(TyperGroup):
    """Turns Ctrl-C into ``Abort``: typer itself would end without a word, like a command that chose its exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Abort from None


app = typer.Typer(
    name="holdfast",
    cls=_Commands,
    help="Fine-tune language models without losing their safety, teach them to take back mistakes, and measure it honestly.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
EXAMPLES = {
    "demo": "holdfast demo --seeds 1",
    "train": "holdfast train defended model.name=MODEL streams.0.data=rows.jsonl run=runs/mine",
    "attack": "holdfast attack matrix run=runs/matrix",
    "audit": "holdfast audit MODEL --requests requests.txt --safe-requests safe.txt --out runs/before",
    "compare": "holdfast compare runs/before runs/mine",
    "generate": "holdfast generate MODEL 'What is the capital of France?'",
    "serve": "holdfast serve MODEL",
    "view": "holdfast view runs",
    "report": "holdfast report runs/mine",
    "tokens": "holdfast tokens rows.jsonl --model MODEL --row 3",
    "validate": "holdfast validate rows.jsonl --model MODEL",
    "recipes": "holdfast recipes defended > mine.yaml",
    "forge": "holdfast forge -- python checker.py {candidate} {test}",
    "doctor": "holdfast doctor",
    "ls": "holdfast ls runs",
}
"""One for the end of each command's ``--help``."""


def _command(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return app.command(name, epilog=f"Example: {EXAMPLES[name]}")


_command("demo")(demo.demo)
_command("train")(train.train)
_command("attack")(attack.attack)
_command("audit")(audit.audit)
_command("compare")(compare.compare)
_command("generate")(generate.generate)
app.add_typer(oversee.app, name="oversee")
_command("serve")(serve.serve)
_command("view")(view.view)
_command("report")(report.report)
app.add_typer(diagnose.app, name="diagnose")
app.add_typer(traces.app, name="traces")
_command("tokens")(data.tokens)
_command("validate")(data.validate)
app.add_typer(tasks.app, name="tasks")
_command("recipes")(recipes.show)
_command("forge")(forge.forge)
_command("doctor")(doctor.doctor)
_command("ls")(runs.ls)
commands.add_installed(app, {"oversee": oversee.app, "diagnose": diagnose.app})


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options that stand before a command."""


def _crashed() -> int:
    """Print the traceback and return our own exit code: Python's is 1, which says that a model missed a bar."""
    traceback.print_exc()
    return CRASHED


def main() -> None:
    """Run; the user's mistakes, and files that cannot be written, end in one clear line and exit code 2, Ctrl-C in 130.

    SIGTERM (docker stop, timeout, a scheduler) and a terminal that is closed count as Ctrl-C: else they would leave temporary
    files behind, attacked weights among them.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
            signal.signal(number, _as_ctrl_c)
    try:
        code = _code()
    except KeyboardInterrupt:
        code = 130
    finally:  # the work is done: a Ctrl-C while Python shuts down must not look like a failure
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C does just now; end even where it is ignored, as in a script's background."""
    on_ctrl_c = signal.getsignal(signal.SIGINT)
    if not callable(on_ctrl_c):
        raise KeyboardInterrupt
    on_ctrl_c(number, frame)


def _code() -> int:
    """Run a command; what a shell will see as its exit code."""
    for name in ("stdout", "stderr"):  # closed (>&-): what is printed goes nowhere; print(file=None) would go to stdout
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  (until the end)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that cannot show a sign gets its number, not a traceback
        sys.stdout.reconfigure(errors="backslashreplace")
    code = READER_GONE
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()  # Python would do it at its very end, and complain there
    except InputError as error:
        said = with_options(str(error), typer.main.get_command(app), sys.argv[1:])
        print(f"holdfast: {said}", file=sys.stderr)
        code = 2
    except UsageProblem as error:
        error.show()  # type: ignore[attr-defined]
        code = 2
    except (typer.Abort, KeyboardInterrupt):
        print("holdfast: interrupted", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        pass  # the reader (head, less) has gone; a command that had done its work keeps its code
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        code = READER_GONE  # typer would end with 1
    except OSError as error:
        if error.filename is None and error.errno not in FULL:
            code = _crashed()
        else:
            print(f"holdfast: {error.filename or 'writing'}: {error.strerror}", file=sys.stderr)
            code = 2
    except Exception:
        code = _crashed()
    _end_output()
    return code if isinstance(code, int) else 0


def _end_output() -> None:
    """Write what is left of stdout, or drop it where it cannot be written: Python would complain when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
