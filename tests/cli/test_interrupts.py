"""Ctrl-C before the command has begun: while its modules are imported."""

import subprocess
import sys
import tomllib
from pathlib import Path

PRESSED = """
import os, signal, sys
from importlib import import_module

class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == "holdfast.cli.attack":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Pressed())
module, name = sys.argv.pop(1).split(":")
getattr(import_module(module), name)()
"""
"""Starts a command at ``module:name``, and presses Ctrl-C while the command's modules are imported."""


def test_ctrl_c_during_the_imports_is_one_line_too() -> None:
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())["project"]
    start = [sys.executable, "-c", PRESSED, project["scripts"]["holdfast"], "--help"]
    done = subprocess.run(start, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "holdfast: interrupted\n")
