"""Runs through the real command line, in this process or in several."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast import cli
from waiting import PATIENCE


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
    """`accelerate launch -m holdfast ARGUMENTS` over gloo. accelerate's own --cpu flag would start one process only."""
    command = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--num_processes",
        str(processes),
        "--num_machines",
        "1",
    ]
    command += [
        "--mixed_precision",
        "no",
        "--dynamo_backend",
        "no",
        "--main_process_port",
        "0",
        *(flags or ("--multi_gpu",)),
    ]
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, "-m", "holdfast", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
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
