"""`holdfast train RECIPE|FILE key=value ...`."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.output import end_interrupted, json_option, write_json
from holdfast.cli.rl import is_rl, train_policy
from holdfast.config.recipes import find_config


def train(
    config: Annotated[str, typer.Argument(help="A recipe (`holdfast recipes` lists them), or a YAML file of yours")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings to change, such as training.lr=1e-5")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar")] = False,
    json: json_option = None,
) -> None:
    """Fine-tune: streams with objectives, an anchor, checkpoints; or GRPO (rl:). The same command again resumes."""
    path = find_config(config, "train")
    if is_rl(path):
        train_policy(path, overrides or [], json)
        return
    from holdfast.config import TrainConfig, load_config, naming_place

    settings = load_config(TrainConfig, path, overrides or [])

    from holdfast.training import train as run_training

    with naming_place(path, overrides or []):
        result = run_training(settings, say=lambda line: typer.echo(line, err=True), progress=not quiet)
    write_json(json, {"model": str(result.model), "steps": result.num_steps, "interrupted": result.interrupted})
    if result.interrupted:
        end_interrupted(result.num_steps)
