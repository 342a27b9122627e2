"""Tests beside other people's codes. Each registers what it compared, for docs/parity.md (`make parity` writes it)."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)  # the arrays are small, and the suite runs a process per core

ParityRow = Callable[[str, str, str, float | str], None]


@pytest.fixture
def parity_row(request: pytest.FixtureRequest) -> ParityRow:
    """``parity_row(peer, version, what, difference)``: call it where the comparison has passed.

    ``difference`` is the largest one found, or words where it is not a number ("same ids"). Of rows with the same peer
    and the same ``what`` (a parametrised test), the page shows the largest difference.
    """

    def add(peer: str, version: str, what: str, difference: float | str) -> None:
        assert isinstance(difference, float | int | str), "a number, not a tensor"
        row = {"peer": peer, "version": version, "what": what, "difference": difference, "test": request.path.name}
        if file := os.environ.get("HOLDFAST_PARITY_ROWS"):
            with Path(file).open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row) + "\n")

    return add
