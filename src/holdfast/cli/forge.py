"""`holdfast forge -- CMD {candidate} {test}`: which hostile programs does a checker of one's own accept?"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.output import as_written, json_option, write_json
from holdfast.cli.progress import progress_bar

if TYPE_CHECKING:
    from holdfast.judging.forgery import Forgeries


def forge(
    command: Annotated[
        list[str],
        typer.Argument(help="After --: your checker, with {candidate}, {test} and {entry_point} where they belong"),
    ],
    kind: Annotated[
        list[str] | None, typer.Option(help="forge, exhaust or read; several may be named; default: forge, exhaust")
    ] = None,
    program: Annotated[list[str] | None, typer.Option(help="Only this one; several may be named")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one program")] = 15.0,
    memory_mb: Annotated[int, typer.Option(min=64, help="Memory of each process of your checker")] = 4096,
    json: json_option = None,
) -> None:
    """Run hostile programs with a checker of your own. Exit code 1 if it accepts one: all of them are wrong."""
    from holdfast.judging.forgery import DEFAULT_KINDS, Limits
    from holdfast.judging.forgery import forge as run_programs

    with progress_bar("hostile programs") as on_progress:
        done = run_programs(
            command,
            kinds=kind or DEFAULT_KINDS,
            only=program or (),
            limits=Limits(timeout, memory_mb),
            say=lambda line: print(line, file=sys.stderr),
            on_progress=on_progress,
        )
    if not write_json(json, done.to_json()):
        _show(done)
    if not done.passed:
        raise typer.Exit(1)


def _show(done: Forgeries) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print("checker:", as_written(shlex.join(done.command)), soft_wrap=True)
    table = Table("kind", "programs", "accepted", "killed for time", box=None, header_style="bold")
    counts = Counter(program.kind for program in done.tried)
    for kind, number in counts.items():
        of_kind = [program for program in done.tried if program.kind == kind]
        late = sum(program.exit_code is None for program in of_kind)
        table.add_row(kind, str(number), str(sum(program.accepted for program in of_kind)), str(late))
    console.print(table)
    for name in done.accepted:
        console.print(f"ACCEPTED {name}", soft_wrap=True)
    if done.left_out:
        console.print(f"left out: {', '.join(done.left_out)}", soft_wrap=True)
    console.print("accepts none of them" if done.passed else f"accepts {len(done.accepted)} wrong programs")
