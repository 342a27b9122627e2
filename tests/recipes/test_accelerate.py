"""The recipes for `accelerate launch`: accelerate's own loader reads each; the commands on top launch what they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import DistributedType

from holdfast.config import TrainConfig, load_config
from holdfast.config.recipes import FOLDER as RECIPES
from holdfast.config.recipes import find_config
from invariants.launching import steps
from waiting import PATIENCE

FOLDER = RECIPES / "accelerate"
FILES = sorted(FOLDER.glob("*.yaml"))
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def command_of(path: Path) -> list[str]:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    return shlex.split(first.removeprefix("# "))


def launched(path: Path, *more: str) -> Any:
    """What `accelerate launch` makes of the file's own command."""
    command = command_of(path)
    arguments = command[command.index("launch") + 1 :]
    return _validate_launch_command(launch_command_parser().parse_args([*more, *arguments]))[0]


@each_file
def test_it_opens_with_its_command(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    opening = rf"# (ACCELERATE_USE_CPU=true )?accelerate launch --config_file {path.name} .*"
    assert re.match(opening + "-m holdfast train ", path.read_text(encoding="utf-8"))
    arguments = launched(path)
    assert arguments.module is True
    assert [arguments.training_script, *arguments.training_script_args[:1]] == ["holdfast", "train"]
    config = load_config(TrainConfig, find_config(arguments.training_script_args[1], "train"))
    assert config.training.batch_size % arguments.num_processes == 0


@each_file
def test_precision_is_left_to_the_run(path: Path) -> None:
    """A mixed_precision here would override training.precision: fp32."""
    assert load_config_from_file(str(path)).mixed_precision == "no"


def test_fsdp2_on_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    loaded = load_config_from_file(str(FOLDER / "fsdp2_8gpu.yaml"))
    assert loaded.distributed_type is DistributedType.FSDP
    assert (loaded.num_machines, loaded.num_processes) == (1, 8)
    assert loaded.fsdp_config["fsdp_version"] == 2
    assert loaded.fsdp_config["fsdp_reshard_after_forward"] is True
    assert loaded.fsdp_config["fsdp_cpu_ram_efficient_loading"] is False
    arguments = launched(FOLDER / "fsdp2_8gpu.yaml", "--num_processes", "2")
    assert arguments.use_fsdp
    assert (arguments.fsdp_version, arguments.num_processes) == (2, 2)


def test_fsdp2_on_two_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    path = FOLDER / "fsdp2_2nodes.yaml"
    loaded = load_config_from_file(str(path))
    assert loaded.distributed_type is DistributedType.FSDP
    assert (loaded.num_machines, loaded.num_processes, loaded.same_network) == (2, 16, True)
    one, two = (load_config_from_file(str(FOLDER / name)).fsdp_config for name in ("fsdp2_8gpu.yaml", path.name))
    assert one == two
    arguments = launched(path)
    assert (arguments.machine_rank, arguments.main_process_ip, arguments.num_machines) == (0, "node0.example", 2)


def test_two_processes_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    arguments = launched(FOLDER / "ddp_2cpu.yaml")
    assert arguments.multi_gpu  # accelerate's way to start several processes; with --cpu it would start one
    assert not arguments.cpu
    assert arguments.num_processes == 2


def test_deepspeed() -> None:
    loaded = load_config_from_file(str(FOLDER / "deepspeed_zero2.yaml"))
    assert loaded.distributed_type is DistributedType.DEEPSPEED
    assert loaded.num_processes == 8
    assert loaded.deepspeed_config["zero_stage"] == 2  # stage 3 is refused: it frees the head too early


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sharded"), [("ddp_2cpu", False), ("fsdp2_8gpu", True)], ids=lambda value: str(value))
def test_it_runs_on_two_cpu_processes(name: str, sharded: bool, tmp_path: Path) -> None:
    command = command_of(FOLDER / f"{name}.yaml")
    at = command.index("-m")
    launcher = ["accelerate.commands.launch", *command[command.index("launch") + 1 : at]]
    words = [word for word in command[at:] if not word.startswith("run=")]
    words += [f"run={tmp_path / 'run'}", "training.max_steps=2", "--quiet"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            *launcher,
            "--num_processes",
            "2",
            "--main_process_port",
            "0",
            *words,
        ],
        cwd=FOLDER,
        env={**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert ("FSDP2: policy sharded over 2 processes" in done.stderr) == sharded
    assert [row["step"] for row in steps(tmp_path / "run")] == [1, 2]
