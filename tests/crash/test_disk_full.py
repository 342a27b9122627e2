"""A disk that fills up while saving: one clear line, nothing half-written, the older checkpoint as it was."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from crash.forked import finish, go_on, preload
from crash.small_run import run
from crash.trainer_run import trainer_run
from holdfast.training.checkpoints import durable
from holdfast.training.checkpoints.durable import CheckpointError
from holdfast.training.checkpoints.folders import newest_good, save_checkpoint, verify
from holdfast.training.run_directory import StepLog


@pytest.fixture(autouse=True, scope="module")
def _preloaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    preload(lambda: run(tmp_path_factory.mktemp("preload"), 2, go_on))


def fill_up_at(occurrence: int, number: int = errno.ENOSPC) -> None:
    """Make the n-th write of the file layer, and all later ones, find half the room they want."""
    seen = 0

    def write(descriptor: int, data: memoryview) -> int:
        nonlocal seen
        seen += 1
        if seen <= occurrence:
            return os.write(descriptor, data)
        if seen == occurrence + 1:
            return os.write(descriptor, data[: len(data) // 2])
        raise OSError(number, os.strerror(number))

    durable.write_some = write


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_any_write_can_fail(tmp_path: Path) -> None:
    """Steps 1-2 saved; then the disk fills at each write of steps 3-4: two rows, three state files, the manifest."""
    for occurrence in range(6):
        directory = tmp_path / str(occurrence)
        directory.mkdir()
        finish(partial(run, directory, 2, go_on), directory / "error")
        before = snapshot(directory / "checkpoints")

        def work(directory: Path = directory, occurrence: int = occurrence) -> None:
            fill_up_at(occurrence)
            with pytest.raises(CheckpointError, match="No space left on device") as caught:
                run(directory, 4, go_on)
            (directory / "line").write_text(str(caught.value))

        finish(work, directory / "error")
        line = (directory / "line").read_text()
        assert snapshot(directory / "checkpoints") == before
        assert [path.name for path in (directory / "checkpoints").iterdir()] == ["step-000002"]
        rows = (directory / "steps.jsonl").read_text().splitlines(keepends=True)
        assert all(row.endswith("}\n") for row in rows)
        assert len(rows) == (2 + occurrence if occurrence < 2 else 4)
        if occurrence < 2:
            assert f"steps.jsonl: the row of step {3 + occurrence} cannot be written" in line
        else:
            name = ("optimizer.json", "scheduler.json", "rng-0.json", "MANIFEST.json")[occurrence - 2]
            assert line.startswith(f"checkpoints/step-000004: not saved: {name}: No space left on device; ")
            assert "older checkpoints are untouched (newest: step-000002)" in line
            assert "free some space" in line
        finish(partial(run, directory, 4, go_on), directory / "error")


def test_other_failures_are_told_without_talk_of_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int, data: memoryview) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(durable, "write_some", fail)
    with pytest.raises(CheckpointError) as caught:
        save_checkpoint(tmp_path / "checkpoints", 3, lambda folder: (folder / "a").touch(), keep=None)
    assert str(caught.value) == (
        "checkpoints/step-000003: not saved: MANIFEST.json: Input/output error; there was no older checkpoint; "
        "mend this, then run the same command again to go on from there"
    )
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_a_mistake_in_our_own_code_keeps_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        save_checkpoint(tmp_path, 3, lambda folder: (folder / "a").write_bytes(b"" * (1 // 0)), keep=None)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_while_saving_leaves_nothing(tmp_path: Path) -> None:
    def write(folder: Path) -> None:
        (folder / "a").write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path, 3, write, keep=None)
    assert list(tmp_path.iterdir()) == []


def test_the_systems_size_limit_for_files(tmp_path: Path) -> None:
    """A real failing write inside safetensors, which needs no privileges: RLIMIT_FSIZE."""
    checkpoints = tmp_path / "checkpoints"
    save_checkpoint(checkpoints, 1, lambda folder: save_tensor(folder, 10), keep=2)

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        with pytest.raises(CheckpointError, match=r"step-000002: not saved: File too large; older .* step-000001"):
            save_checkpoint(checkpoints, 2, lambda folder: save_tensor(folder, 100_000), keep=2)

    finish(work, tmp_path / "error")
    assert [path.name for path in checkpoints.iterdir()] == ["step-000001"]
    assert verify(checkpoints / "step-000001") == []


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB, where this user may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"may not mount a tmpfs here ({error})")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_really_full(tiny_disk: Path) -> None:
    checkpoints = tiny_disk / "checkpoints"
    for step in (1, 2):  # 160 kB each; then 320 kB do not fit
        save_checkpoint(checkpoints, step, lambda folder: save_tensor(folder, 40_000), keep=None)
    before = snapshot(checkpoints)
    with pytest.raises(
        CheckpointError, match=r"step-000003: not saved: No space left .* \(newest: step-000002\); free"
    ):
        save_checkpoint(checkpoints, 3, lambda folder: save_tensor(folder, 80_000), keep=None)
    assert snapshot(checkpoints) == before
    assert newest_good(checkpoints) == (checkpoints / "step-000002", [])
    save_checkpoint(checkpoints, 3, lambda folder: save_tensor(folder, 20_000), keep=2)  # the space came back

    with (tiny_disk / "filler").open("ab", buffering=0) as filler, suppress(OSError):
        while filler.write(b"x" * 4096):
            pass
    log = StepLog(tiny_disk / "steps.jsonl")
    with pytest.raises(CheckpointError, match="the row of step 1 cannot be written: No space left"):
        log.append({"step": 1})
    assert log.rewind(0) == 0


def test_the_trainer_on_a_full_disk(tiny_disk: Path, tmp_path: Path) -> None:
    """Room for one checkpoint and a half: the second save fails in a library's own writing, and the run can go on."""
    train = trainer_run(tmp_path)
    directory = tiny_disk / "run"

    def work() -> None:
        with pytest.raises(CheckpointError) as caught:
            train(directory, 6, go_on)
        (tmp_path / "line").write_text(str(caught.value))

    (tiny_disk / "filler").write_bytes(b"x" * 250_000)
    finish(work, tmp_path / "error")
    line = (tmp_path / "line").read_text()
    assert line.startswith("checkpoints/step-000004: not saved: ")
    assert "No space left on device; older checkpoints are untouched (newest: step-000002); free some space" in line
    assert [path.name for path in (directory / "checkpoints").iterdir()] == ["step-000002"]
    assert verify(directory / "checkpoints" / "step-000002") == []
    (tiny_disk / "filler").unlink()
    finish(partial(train, directory, 6, go_on), tmp_path / "error")
    assert verify(directory / "checkpoints" / "step-000006") == []


def save_tensor(folder: Path, size: int) -> None:
    save_file({"a": torch.arange(size, dtype=torch.float32)}, folder / "model.safetensors")
