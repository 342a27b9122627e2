"""Try every model of a study. One that fails does not stop the others: it is named at the end."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import typer

from holdfast.config import InputError
from holdfast_studies.pool import in_processes

Task = TypeVar("Task")
Result = TypeVar("Result")


class ModelsFailed(Exception):  # noqa: N818  (what happened, not whose error)
    """Some models of a study have no figures. The message has a line for each."""


class _Tried(NamedTuple, Generic[Result]):
    """A result, or why there is none: ``told`` names what failed, ``reason`` is the same without the name."""

    result: Result | None
    told: str = ""
    reason: str = ""


def tried(
    function: Callable[[Task], Result], tasks: Sequence[Task], workers: int, name: Callable[[Task], str]
) -> Iterator[Result]:
    """The results of `in_processes` as they come in. Raises ``ModelsFailed`` at the end if some failed.

    Raises ``InputError`` if all failed for the same mistake in the input.
    """
    failed: list[_Tried[Result]] = []
    for outcome in in_processes(partial(_try, function, name), tasks, workers):
        if outcome.told:
            failed.append(outcome)
        else:
            yield outcome.result  # type: ignore[misc]
    if not failed:
        return
    if len(failed) == len(tasks) and failed[0].reason and len({outcome.reason for outcome in failed}) == 1:
        raise InputError(failed[0].reason)
    lines = [f"failed: {outcome.told}" for outcome in failed]
    raise ModelsFailed("\n".join([*lines, f"{len(failed)} of {len(tasks)} failed; the same command runs them again"]))


def _try(function: Callable[[Task], Result], name: Callable[[Task], str], task: Task) -> _Tried[Result]:
    try:
        return _Tried(function(task))
    except InputError as error:
        return _Tried(None, f"{name(task)}: {error}", str(error))
    except Exception as error:  # a fault of ours: say where it happened
        place = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        return _Tried(None, f"{name(task)}: {told}")


@contextmanager
def failures_end_it() -> Iterator[None]:
    """Print the models that failed and end the command with exit code 1."""
    try:
        yield
    except ModelsFailed as failed:
        typer.echo(f"holdfast: {failed}", err=True)
        raise typer.Exit(1) from None
