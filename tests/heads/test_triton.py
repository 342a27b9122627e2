"""The Triton kernels without a GPU: a process of its own, because Triton reads TRITON_INTERPRET when it is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from holdfast.heads.choose import chunk_class, interpreted, why_not_triton
from holdfast.heads.want import Want

PLAIN = Want.make(None, None, None)


def test_under_the_interpreter() -> None:
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-x"]
    run = subprocess.run(
        [*command, str(Path(__file__).with_name("interpreted_triton.py"))],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]


def test_a_cpu_falls_back_silently_and_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    if interpreted():
        pytest.skip("Triton runs on the CPU here")
    assert chunk_class("auto", torch.device("cpu"), PLAIN).__name__ == "LogitChunk"
    monkeypatch.setattr("holdfast.heads.choose.find_spec", lambda name: None)
    assert why_not_triton(torch.device("cuda"), PLAIN) == "the package triton is not installed"
    with pytest.warns(UserWarning, match="falls back from Triton kernels to plain torch: the package triton is not"):
        assert chunk_class("auto", torch.device("cuda"), PLAIN).__name__ == "LogitChunk"
