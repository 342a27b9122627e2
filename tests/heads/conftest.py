"""One thread: the arrays are small, and the suite runs a process per core."""

import pytest
import torch

from holdfast.heads import logit_chunk

torch.set_num_threads(1)


@pytest.fixture(params=["one block", "a row at a time"])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test both ways: test cases fit the cache whole, real chunks do not."""
    if request.param == "a row at a time":
        monkeypatch.setattr(logit_chunk, "BLOCK_BYTES", 1)
