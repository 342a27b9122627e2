"""`make` on machines that are not ready: one clear line."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The Makefile in a folder with a space in its name, without an environment."""
    folder = tmp_path / "a path with spaces"
    folder.mkdir()
    for name in ("Makefile", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def stand_in(folder: Path, name: str, version: str) -> Path:
    """A python that is too old, as far as anyone who asks can tell."""
    path = folder / name
    path.write_text(f'#!/bin/sh\ncase "$1" in --version) echo "Python {version}";; *) exit 1;; esac\n')
    path.chmod(0o755)
    return path


def make(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def test_a_python_that_is_too_old_is_one_clear_line(checkout: Path, tmp_path: Path) -> None:
    old = stand_in(tmp_path, "python3", "3.9.18")
    done = make(checkout, "demo", f"PYTHON={old}")
    assert done.returncode == 2
    first = done.stderr.splitlines()[0]
    assert "holdfast needs Python 3.11 or newer" in first
    assert "3.9.18" in first
    assert not (checkout / ".venv").exists()


def test_no_good_python_at_all_is_one_clear_line(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        stand_in(folder, name, "3.8.1")
    done = make(checkout, "test", PATH=f"{folder}:/usr/bin:/bin")
    assert done.returncode == 2
    assert "holdfast needs Python 3.11 or newer; found: Python 3.8.1" in done.stderr
