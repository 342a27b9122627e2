"""One progress bar for all long work: on stderr, with count and time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    unseen = not stays and not console.is_terminal  # it would leave an empty line
    with Progress(*columns, console=console, transient=not stays, disable=unseen) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total, title=None: bar.update(task, completed=done, total=total, description=title)
