"""Saving, pruning and sweeping of checkpoint folders (kills, damage and full disks: tests/crash)."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.training.checkpoints import durable
from holdfast.training.checkpoints.durable import CheckpointError
from holdfast.training.checkpoints.folders import (
    newest_good,
    prune,
    resume_point,
    save_checkpoint,
    step_of,
    sweep,
    verify,
)


def writing(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "model.safetensors").write_text(text)
        (folder / "adapter").mkdir()
        (folder / "adapter" / "config.json").write_text(text * 2)

    return write


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_checkpoint_holds_its_files_and_a_manifest_of_them(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path / "run" / "checkpoints", 100, writing("abc"), keep=None)
    assert path == tmp_path / "run" / "checkpoints" / "step-000100"
    assert verify(path) == []
    manifest = json.loads((path / "MANIFEST.json").read_text())
    assert manifest["step"] == 100
    assert manifest["holdfast"] == holdfast.__version__
    assert manifest["files"] == {
        "adapter/config.json": {"bytes": 6, "sha256": hashlib.sha256(b"abcabc").hexdigest()},
        "model.safetensors": {"bytes": 3, "sha256": hashlib.sha256(b"abc").hexdigest()},
    }
    assert names(path.parent) == ["step-000100"]
    assert newest_good(path.parent) == (path, [])


def test_no_checkpoint_yet(tmp_path: Path) -> None:
    assert newest_good(tmp_path / "nowhere") == (None, [])
    (tmp_path / "step-12").mkdir()  # not ours
    (tmp_path / "notes.txt").touch()
    assert newest_good(tmp_path) == (None, [])


def test_steps_are_ordered_as_numbers(tmp_path: Path) -> None:
    for step in (999_999, 1_000_000, 20):
        save_checkpoint(tmp_path, step, writing("x"), keep=None)
    newest, _ = newest_good(tmp_path)
    assert newest is not None
    assert step_of(newest) == 1_000_000


def test_the_same_step_twice_leaves_the_first(tmp_path: Path) -> None:
    first = save_checkpoint(tmp_path, 5, writing("first"), keep=None)
    assert save_checkpoint(tmp_path, 5, writing("second"), keep=None) == first
    assert (first / "model.safetensors").read_text() == "first"


def test_a_damaged_one_of_the_same_step_is_replaced(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, 5, writing("first"), keep=None)
    (path / "model.safetensors").write_text("f")
    save_checkpoint(tmp_path, 5, writing("second"), keep=None)
    assert (path / "model.safetensors").read_text() == "second"
    assert verify(path) == []
    assert names(tmp_path) == ["step-000005"]


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4):
        save_checkpoint(tmp_path, step, writing("x"), keep=2)
    assert names(tmp_path) == ["step-000003", "step-000004"]


def test_pruning_counts_whole_checkpoints(tmp_path: Path) -> None:
    """Of 1, 2 (damaged), 3 with keep=2, the two whole ones are 3 and 1."""
    save_checkpoint(tmp_path, 1, writing("x"), keep=2)
    (save_checkpoint(tmp_path, 2, writing("x"), keep=2) / "model.safetensors").unlink()
    save_checkpoint(tmp_path, 3, writing("x"), keep=2)
    assert names(tmp_path) == ["step-000001", "step-000002", "step-000003"]
    save_checkpoint(tmp_path, 4, writing("x"), keep=2)
    assert names(tmp_path) == ["step-000003", "step-000004"]


def test_the_one_just_saved_is_never_pruned_for_a_damaged_newer_one(tmp_path: Path) -> None:
    """A run fell back from 30 to 10 and saves 20: with keep=1 the good one is 20, not the newest name."""
    save_checkpoint(tmp_path, 10, writing("x"), keep=2)
    (save_checkpoint(tmp_path, 30, writing("x"), keep=2) / "model.safetensors").write_text("y")
    save_checkpoint(tmp_path, 20, writing("x"), keep=1)
    assert newest_good(tmp_path)[0] == tmp_path / "step-000020"
    assert names(tmp_path) == ["step-000020", "step-000030"]


def test_an_old_one_that_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, step, writing("x"), keep=None)

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(source))

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(CheckpointError, match=r"step-000001: an old checkpoint that cannot be removed"):
        prune(tmp_path, 2, keep=1)
    assert names(tmp_path) == ["step-000001", "step-000002"]


def test_folders_of_dead_runs_are_swept_and_those_of_living_ones_left(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "3600"])
    ended = subprocess.Popen(["true"])
    ended.wait()
    living = tmp_path / f".tmp-step-000003-{child.pid}"
    for path in (living, tmp_path / f".tmp-step-000001-{ended.pid}", tmp_path / f".old-step-000002-{os.getpid()}"):
        path.mkdir()
        (path / "model.safetensors").touch()
    (tmp_path / ".cache").mkdir()
    try:
        sweep(tmp_path)
        assert names(tmp_path) == [".cache", living.name]
    finally:
        child.kill()
        child.wait()


def test_resuming_finishes_what_a_kill_interrupted(tmp_path: Path) -> None:
    assert resume_point(tmp_path / "nowhere", keep=1) == (None, [])
    for step in (1, 2):
        save_checkpoint(tmp_path, step, writing("x"), keep=None)
    (tmp_path / f".tmp-step-000003-{os.getpid()}").mkdir()
    assert resume_point(tmp_path, keep=1) == (tmp_path / "step-000002", [])
    assert names(tmp_path) == ["step-000002"]


def test_everything_is_on_the_disk_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut, unlike a kill, loses what was not synced: files, then manifest, then folders, then the new name."""
    done: list[str] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(descriptor: int) -> None:
        done.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))
        real_fsync(descriptor)

    def rename(source: Path, target: Path) -> None:
        done.append(f"{os.path.relpath(source, tmp_path)} -> {os.path.relpath(target, tmp_path)}")
        real_rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(durable, "at_point", lambda point: done.append(point) if point == "after-commit" else None)
    save_checkpoint(tmp_path / "a" / "b", 7, writing("x"), keep=None)
    temp = f"a/b/.tmp-step-000007-{os.getpid()}"
    assert done == [
        "a",
        ".",
        f"{temp}/adapter/config.json",
        f"{temp}/model.safetensors",
        f"{temp}/MANIFEST.json",
        f"{temp}/adapter",
        temp,
        f"{temp} -> a/b/step-000007",
        "a/b",
        "after-commit",
    ]


def test_the_named_points_come_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, 1, writing("x"), keep=1)
    told: list[str] = []
    monkeypatch.setattr(durable, "at_point", told.append)
    save_checkpoint(tmp_path, 2, writing("x"), keep=1)
    kinds = [point.split(":")[0] for point in told]
    assert set(kinds) <= set(durable.POINTS)
    assert [durable.POINTS.index(kind) for kind in kinds] == sorted(durable.POINTS.index(kind) for kind in kinds)
    assert told.count("mid-prune:adapter/config.json") == 1
