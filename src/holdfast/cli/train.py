"""`holdfast train RECIPE|FILE key=value ...`: fine-tuning, or GRPO on TRL where the config has an ``rl:`` section."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from holdfast.cli.output import json_option, write_json
from holdfast.config.extras import need_extra
from holdfast.config.recipes import find_config


def train(
    config: Annotated[str, typer.Argument(help="A recipe (`holdfast recipes` lists them), or a YAML file of yours")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings to change, such as training.lr=1e-5")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar")] = False,
    json: json_option = None,
) -> None:
    """Fine-tune: streams with objectives, an anchor, checkpoints; or GRPO (rl:). The same command again resumes."""
    path, changes = find_config(config, "train"), overrides or []
    if is_rl(path):
        train_policy(path, changes, json)
        return
    from holdfast.config import TrainConfig, load_config, naming_place

    settings = load_config(TrainConfig, path, changes)
    with naming_place(path, changes):
        _check_files([stream.data for stream in settings.streams])

    from holdfast.training import train as run_training

    with naming_place(path, changes):
        result = run_training(settings, say=lambda line: typer.echo(line, err=True), progress=not quiet)
    write_json(json, {"model": str(result.model), "steps": result.num_steps, "interrupted": result.interrupted})
    if result.interrupted:
        _end_interrupted(result.num_steps)
    _say_next(settings.run, settings.model.name)


def _check_files(sources: Sequence[str]) -> None:
    """Refuse a file of rows that is not there at once: torch takes seconds to be imported."""
    from holdfast.config import InputError, naming_field
    from holdfast.data.folders import is_glob
    from holdfast.data.rows import file_kind

    for number, source in enumerate(sources):
        path = Path(source).expanduser()
        with naming_field(f"streams.{number}.data"):
            if ":" not in source and not is_glob(source) and file_kind(path) and not path.exists():
                raise InputError(f"{source}: no such file")


def _say_next(run: str, model: str) -> None:
    """The commands that come after a training, as they can be typed."""
    from accelerate import PartialState

    if not PartialState().is_main_process:
        return
    files = () if model.startswith("tiny:") else ("--requests", "FILE", "--safe-requests", "FILE")
    audit = ("holdfast", "audit", str(Path(run) / "model"), "--anchor", model, *files, "--out", run)
    typer.echo(f"next, what it changed:  {shlex.join(audit)}", err=True)
    typer.echo(f"then, all on one page:  {shlex.join(('holdfast', 'report', run))}", err=True)


def is_rl(config: Path) -> bool:
    """Whether a config file is one of RL; files that cannot be read are left to the reader that says why."""
    from holdfast.config.loading import has_section

    return has_section(config, "rl")


def train_policy(config: Path, overrides: Sequence[str], json: Path | None) -> None:
    """Run GRPO; the same command again goes on from the last checkpoint (Ctrl-C saves one, ``rl.save_every`` others)."""
    from holdfast.config.loading import load_config, naming_place
    from holdfast.config.rl import RlConfig

    settings = load_config(RlConfig, config, overrides)
    need_extra("rl", f"{config}: a run with an 'rl:' section")

    from holdfast.diagnostics.rl_tasks import task_of
    from holdfast.training.rl import Interrupted, train_rl

    task = task_of(settings)
    about = {"model": str(Path(settings.run) / "model"), "prompts": len(task.prompts)}
    try:
        with naming_place(config, overrides):
            train_rl(
                settings,
                task.prompts,
                task.reward,
                observe=task.observe,
                environment=task.environment,
                say=lambda line: typer.echo(line, err=True),
            )
    except Interrupted as stopped:
        write_json(json, {**about, "interrupted": True})
        _end_interrupted(stopped.step)
    write_json(json, {**about, "interrupted": False})
    _say_next(settings.run, settings.model.name)


def _end_interrupted(num_steps: int) -> NoReturn:
    """The last line of a training that was stopped and saved, and its exit code."""
    typer.echo(f"interrupted after step {num_steps}, saved; run the same command to go on", err=True)
    raise typer.Exit(130)
