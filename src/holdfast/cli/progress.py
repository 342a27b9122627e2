"""One progress bar for all long work: on stderr, with count and time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress_bar(title: str, *, stays: bool = False) -> Iterator[Callable[..., None]]:
    """Gives ``on_progress(done, total)``; a third argument changes the title."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    console = Console(stderr=True)
    unseen = not stays and not console.is_terminal  # it would leave an empty line
    bar = Progress(*columns, console=console, transient=not stays, disable=unseen)
    task = bar.add_task(title, total=None)

    def on_progress(done: int, total: int, title: str | None = None) -> None:
        bar.start()
        bar.update(task, completed=done, total=total, description=title)

    with shown(bar):
        yield on_progress


@contextmanager
def shown(bar: Progress) -> Iterator[None]:
    """Show a bar inside; without a terminal only once it is started. A mistake told before any progress stands alone."""
    if bar.console.is_terminal:
        bar.start()
    try:
        yield
    except BaseException:
        bar.live.transient |= not any(task.completed for task in bar.tasks)
        raise
    finally:
        if bar.live.is_started:
            bar.stop()
