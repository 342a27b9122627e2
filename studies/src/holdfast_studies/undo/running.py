"""Run what is missing of a study, a file for every model. One that fails does not stop the others: it is named at the end."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from holdfast.config import InputError
from holdfast_studies.json_files import read_json, write_json
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


def run_missing(
    figures: Callable[[Task], Mapping[str, Any]],
    planned: Sequence[Task],
    path: Callable[[Task], Path],
    workers: int,
    on_progress: Callable[[int, int], None] | None,
) -> list[dict[str, Any]]:
    """Write the figures of every task that has no file yet, as JSON; return those of all. The same call again goes on.

    ``figures`` and ``path`` are called in other processes. Raises what ``tried`` raises, after the last task.
    """
    missing = [task for task in planned if not path(task).is_file()]
    done = tried(partial(_write_figures, figures, path), missing, workers, partial(_stem, path))
    for number, _ in enumerate(done, start=len(planned) - len(missing) + 1):
        if on_progress is not None:
            on_progress(number, len(planned))
    return [read_json(path(task)) for task in planned]


def _write_figures(figures: Callable[[Task], Mapping[str, Any]], path: Callable[[Task], Path], task: Task) -> None:
    write_json(path(task), figures(task))


def _stem(path: Callable[[Task], Path], task: Task) -> str:
    return path(task).stem


def _try(function: Callable[[Task], Result], name: Callable[[Task], str], task: Task) -> _Tried[Result]:
    try:
        return _Tried(function(task))
    except InputError as error:
        return _Tried(None, f"{name(task)}: {error}", str(error))
    except Exception as error:  # a fault of ours: say where it happened
        place = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        return _Tried(None, f"{name(task)}: {told}")
