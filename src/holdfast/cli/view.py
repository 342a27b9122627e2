"""`holdfast view`: a live page of runs, and a place to try a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.config.extras import need_extra


def view(
    runs: Annotated[Path, typer.Argument(help="The folder with the runs")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one")] = 0,
    opens: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser")] = True,
    model: Annotated[
        list[str] | None, typer.Option(help="A model that the page may ask, beside the runs' own and tiny:aligned")
    ] = None,
) -> None:
    """Watch runs while they train, see a matrix fill up, weigh tokens, and try a model. On this machine only.

    Prints the page's address, which has its password in it.
    """
    need_extra("serve", "view")
    from holdfast.view import open_view

    open_view(runs, port=port, opens=opens, models=model or [])
