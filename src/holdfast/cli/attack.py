"""`holdfast attack RECIPE|FILE key=value ...`: the matrix of attacks and defences."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from holdfast.cli.output import check_target, json_option


def attack(
    config: Annotated[
        str, typer.Argument(help="A recipe, such as matrix (`holdfast recipes`), or a YAML file of yours")
    ],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings to change, such as seeds=[0]")] = None,
    engine: Annotated[
        Literal["local", "ray"] | None,
        typer.Option(help="Processes here, or the Ray cluster of RAY_ADDRESS (without it: one started here)"),
    ] = None,
    search: Annotated[
        int | None,
        typer.Option(min=1, help="Trials of an attacker who searches for the worst settings of every attack"),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="Write a page of results, in Markdown", callback=check_target)
    ] = None,
    json: json_option = None,
) -> None:
    """Attacks x defences x seeds, in the embedded world or (files:) on your model. Cells are kept: the same command again
    goes on. Exit code 1 if one failed.
    """
    from holdfast.cli.matrix import run_and_show
    from holdfast.config.loading import load_config
    from holdfast.config.matrix import MatrixConfig
    from holdfast.config.recipes import find_config

    changes = [*(overrides or []), *([f"engine={engine}"] if engine else [])]
    changes += [f"search.trials={search}"] if search else []
    run_and_show(load_config(MatrixConfig, find_config(config, "attack"), changes), json, page=write)
