"""The wheel: everything that the package reads at run time is in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from docs.pages import ROOT

pytest.importorskip("setuptools", reason="the wheel is built without fetching anything")


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Names and sizes of the files in a wheel built from a copy of the repository."""
    copy = tmp_path_factory.mktemp("a checkout")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [*command, "-w", "out", "."], cwd=copy, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (copy / "out").glob("holdfast-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: info.file_size for info in archive.infolist()}


def test_every_file_of_the_package_is_in_it(contents: dict[str, int]) -> None:
    """Recipes, the embedded models, prompts, templates: whatever stands in src/holdfast beside the code."""
    package = ROOT / "src" / "holdfast"
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    names = {path.relative_to(package.parent).as_posix() for path in files}
    assert {"holdfast/recipes/defended.yaml", "holdfast/recipes/accelerate/fsdp2_8gpu.yaml"} <= names
    assert names - contents.keys() == set()
    assert all(contents[path.relative_to(package.parent).as_posix()] == path.stat().st_size for path in files)


def test_nothing_else_is_installed(contents: dict[str, int]) -> None:
    assert {Path(name).parts[0] for name in contents if ".dist-info/" not in name} == {"holdfast"}
