"""`holdfast doctor`: what this machine has, and the exact command for what it lacks."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.output import json_option, write_json
from holdfast.config.cache_folder import cache_folder
from holdfast.config.extras import EXTRAS, missing_packages, pip_command

CORE = ("torch", "transformers", "accelerate", "peft", "safetensors", "scipy", "pydantic", "typer", "rich")
LANDLOCK_CREATE_RULESET, LANDLOCK_VERSION_FLAG = 444, 1


def doctor(
    isolation: Annotated[
        bool, typer.Option("--isolation", help="Run hostile candidates and show what got through")
    ] = False,
    json: json_option = None,
) -> None:
    """Versions, devices, isolation tiers, disk, and what is missing for which extra."""
    if isolation:
        from holdfast.cli.isolation import show_isolation

        show_isolation(json)
        return
    report: dict[str, Any] = {
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in CORE},
        "devices": _devices(),
        "isolation": _isolation(),
        "disk": _disk(),
        "cache": _cache(),
        "extras": {name: missing_packages(name) for name in EXTRAS},
    }
    if write_json(json, report):
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, state in _lines(report):
        table.add_row(name, Text(state))  # not markup: 'holdfast[data]' would lose its brackets
    Console(highlight=False).print(table)


def _lines(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "python", f"{report['python']} ({sys.executable})"
    for name, version in report["versions"].items():
        yield name, version or "missing: pip install holdfast"
    for device in report["devices"]:
        yield "device", device
    for tier, state in report["isolation"].items():
        yield f"isolation: {tier}", state
    yield "disk", report["disk"]
    yield "cache", report["cache"]
    for extra, missing in report["extras"].items():
        yield f"extra: {extra}", f"missing {', '.join(missing)}: {pip_command(extra)}" if missing else "complete"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _devices() -> list[str]:
    if importlib.util.find_spec("torch") is None:
        return ["torch is missing: pip install holdfast"]
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    devices = [f"cpu: {cores} cores, {torch.get_num_threads()} torch threads"]
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        devices.append(f"cuda:{index}: {properties.name}, {properties.total_memory / 2**30:.0f} GiB")
    if torch.backends.mps.is_available():
        devices.append("mps")
    return devices


def _isolation() -> dict[str, str]:
    """Whether untrusted code could be confined here; each tier is tried, not looked up."""
    return {"bubblewrap": _bubblewrap(), "landlock": _landlock(), "seccomp": _seccomp()}


def _bubblewrap() -> str:
    path = shutil.which("bwrap")
    if path is None:
        return "missing: apt-get install bubblewrap (or your system's package)"
    command = [path, "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "true"]
    try:
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return "installed, but does not answer"
    return "works" if outcome.returncode == 0 else f"installed, but refused: {outcome.stderr.strip()[:120]}"


def _landlock() -> str:
    if not sys.platform.startswith("linux"):
        return "Linux only"
    libc: Any = ctypes.CDLL(None, use_errno=True)
    abi = libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION_FLAG)
    return f"works (ABI {abi})" if abi > 0 else f"not in this kernel: {os.strerror(ctypes.get_errno())}"


def _seccomp() -> str:
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return "works" if any(line.startswith("Seccomp:") for line in status) else "not in this kernel"
    except OSError:
        return "Linux only"


def _disk() -> str:
    usage = shutil.disk_usage(".")
    return f"{usage.free / 2**30:.0f} GiB free of {usage.total / 2**30:.0f} GiB here"


def _cache() -> str:
    """How much lies in the folder of unpacked models and of the anchor's answers."""
    folder = cache_folder()
    sizes = [path.lstat().st_size for path in folder.rglob("*") if path.is_file()]
    return f"{folder}: {sum(sizes) / 2**20:.1f} MiB in {len(sizes)} files" if sizes else f"{folder}: empty"
