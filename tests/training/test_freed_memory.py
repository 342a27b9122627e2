"""Memory that is freed and wanted again, counted in page faults of a real process."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from holdfast.training import freed_memory

FAULTS = """
import resource, runpy, sys

keep_freed_memory = runpy.run_path(sys.argv[1])["keep_freed_memory"]  # without torch, which takes seconds

def faults_of_a_pass():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = [b"x" * (16 << 20) for _ in range(10)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print([faults_of_a_pass() for _ in range(3)][-1])
assert keep_freed_memory()
print([faults_of_a_pass() for _ in range(3)][-1])
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="malloc is not glibc's")
def test_a_pass_finds_the_memory_of_the_one_before() -> None:
    command = [sys.executable, "-c", FAULTS, freed_memory.__file__]
    given_back, kept = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert given_back > 30_000, "160 MiB are 40,960 pages"
    assert kept < 100
