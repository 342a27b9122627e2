"""docs/extending.md: its file is run as a user would, workers and all, and what it registers is found by name."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docs.pages import DOCS, fenced
from holdfast import objectives
from holdfast.attacks import ATTACKS, DEFENCES
from holdfast.config.training import StreamSettings
from holdfast.judging import JUDGES, find_judge, verdicts
from holdfast.training.streams import bind_objective

MATRIX = "{run: matrix, attacks: [few_examples], defences: [focal], seeds: [0], num_requests: 4, workers: 1}"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (text,) = fenced((DOCS / "extending.md").read_text(encoding="utf-8"), "python")
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_it_registers_is_found_by_name(script: Path) -> None:
    registries: tuple[dict[str, Any], ...] = (objectives.REGISTRY, ATTACKS, DEFENCES, JUDGES)
    before = [dict(registry) for registry in registries]
    try:
        runpy.run_path(str(script))
        stream = StreamSettings(data="world:safety/tune/guide", objective="focal", options={"gamma": 1.5})
        assert bind_objective(stream, 0).want == ("logp",)
        said = verdicts(find_judge("brief"), [("ask", "no ."), ("ask", "yes " * 20)])
        assert [each.safe for each in said] == [True, False]
    finally:
        for registry, known in zip(registries, before, strict=True):
            registry.clear()
            registry.update(known)


def test_it_runs(script: Path) -> None:
    """Objective, attack and defence, in a worker that is an interpreter of its own."""
    (script.parent / "matrix.yaml").write_text(MATRIX, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, script.name, "attack", "matrix.yaml", "--json", "-"],
        cwd=script.parent,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    (cell,) = json.loads(ran.stdout)
    assert (cell["attack"], cell["defence"], cell["status"]) == ("few_examples", "focal", "ok")
