"""`holdfast train CONFIG key=value ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.output import end_interrupted, json_option, write_json
from holdfast.cli.rl import is_rl, train_policy


def train(
    config: Annotated[Path, typer.Argument(help="A YAML file; configs/ has one per objective")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings to change, such as training.lr=1e-5")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar")] = False,
    json: json_option = None,
) -> None:
    """Fine-tune: streams with objectives, an anchor, checkpoints; or GRPO (rl:). The same command again resumes."""
    if is_rl(config):
        train_policy(config, overrides or [], json)
        return
    from holdfast.config import TrainConfig, load_config

    settings = load_config(TrainConfig, config, overrides or [])

    from holdfast.training import train as run_training

    result = run_training(settings, say=lambda line: typer.echo(line, err=True), progress=not quiet)
    write_json(json, {"model": str(result.model), "steps": result.num_steps, "interrupted": result.interrupted})
    if result.interrupted:
        end_interrupted(result.num_steps)
