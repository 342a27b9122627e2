"""Runs through the real command line, in this process or in several."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from accelerate.commands.launch import launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env

from forked import Forked
from holdfast import cli


def write_config(folder: Path, model: Path, rows: Path, **changes: Any) -> Path:
    """csft_pa on uneven rows beside a distill stream: every part of the loss is in play."""
    config = {
        "run": str(folder / "run"),
        "model": str(model),
        "streams": [
            {"data": str(rows), "objective": "csft_pa", "name": "task"},
            {
                "data": "world:safety/train/forbidden",
                "objective": "distill",
                "name": "hold",
                "limit": 20,
                "weight": 0.7,
            },
        ],
        "training": {"batch_size": 16, "max_steps": 4, "lr": 2e-3, "seed": 3},
    }
    for section, values in changes.items():
        config[section] = {**config.get(section, {}), **values} if isinstance(values, dict) else values
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def run_cli(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """`holdfast ARGUMENTS` in this process; its exit code."""
    monkeypatch.setattr(sys, "argv", ["holdfast", *arguments])
    try:
        cli.main()
    except SystemExit as done:
        return int(done.code or 0)
    return 0


def launch(*arguments: str, flags: tuple[str, ...] = (), processes: int = 2) -> subprocess.CompletedProcess[str]:
    """What `accelerate launch FLAGS -m holdfast ARGUMENTS` starts, over gloo: its environment, and forked ranks.

    tests/recipes/test_accelerate.py starts the launcher itself.
    """
    common = (
        f"--num_processes {processes} --num_machines 1 --mixed_precision no --dynamo_backend no --main_process_port 0"
    )
    words = [*common.split(), *(flags or ("--multi_gpu",)), "-m", "holdfast", *arguments]
    settings = launch_command_parser().parse_args(words)
    cpu = {"ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    environment = {**prepare_multi_gpu_env(settings), **cpu}
    environment |= {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": settings.master_port}
    ranks = [
        Forked(*arguments, env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(processes)
    ]
    ended = [rank.done() for rank in ranks]
    code = next((rank.returncode for rank in ended if rank.returncode), 0)
    return subprocess.CompletedProcess(
        words, code, *("".join(getattr(rank, said) for rank in ended) for said in ("stdout", "stderr"))
    )


def steps(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "steps.jsonl").read_text(encoding="utf-8").splitlines()]


def figures(run: Path) -> list[float]:
    """Every number of every row."""

    def numbers(value: Any) -> list[float]:
        if isinstance(value, dict):
            return [number for each in value.values() for number in numbers(each)]
        return [float(value)]

    return [number for row in steps(run) for number in numbers(row)]
