"""`holdfast train CONFIG` where the config has an ``rl:`` section: GRPO on TRL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from holdfast.cli.output import end_interrupted, write_json
from holdfast.config.extras import need_extra


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
        end_interrupted(stopped.step)
    write_json(json, {**about, "interrupted": False})
