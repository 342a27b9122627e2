"""`holdfast train CONFIG` where the config has an ``rl:`` section: GRPO on TRL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from holdfast.cli.output import write_json


def is_rl(config: Path) -> bool:
    """Whether a config file is one of RL; files that cannot be read are left to the reader that says why."""
    try:
        return any(line.startswith("rl:") for line in config.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError):
        return False


def train_policy(config: Path, overrides: Sequence[str], json: Path | None) -> None:
    """Run GRPO; the same command again goes on from the last checkpoint (``rl.save_every``)."""
    from holdfast.config.loading import load_config
    from holdfast.config.rl import RlConfig

    settings = load_config(RlConfig, config, overrides)

    from holdfast.diagnostics.rl_tasks import task_of
    from holdfast.training.rl import train_rl

    task = task_of(settings)
    model = train_rl(
        settings,
        task.prompts,
        task.reward,
        observe=task.observe,
        environment=task.environment,
        say=lambda line: typer.echo(line, err=True),
    )
    write_json(json, {"model": str(model), "prompts": len(task.prompts)})
