"""Every file of a checkpoint x {missing, truncated, one flipped bit}: found by name, and the older one is used."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from crash import small_run
from crash.forked import finish, go_on, preload
from crash.small_run import run
from holdfast.training.checkpoints.durable import CheckpointError
from holdfast.training.checkpoints.folders import MANIFEST, newest_good, verify

FILES = (
    "model.safetensors",
    "optimizer.safetensors",
    "optimizer.json",
    "scheduler.json",
    "rng-0.safetensors",
    "rng-0.json",
    MANIFEST,
)


def remove(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-12])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path, where: float = 0.7, bit: int = 4) -> None:
    data = bytearray(path.read_bytes())
    data[int(where * len(data))] ^= 1 << bit
    path.write_bytes(bytes(data))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with the checkpoints of steps 2, 4 and 6."""
    directory = tmp_path_factory.mktemp("sound")
    preload(lambda: run(tmp_path_factory.mktemp("preload"), 2, go_on))
    finish(lambda: train(directory), directory / "error")
    assert {path.name for path in (directory / "checkpoints" / "step-000006").iterdir()} == set(FILES)
    return directory


def train(directory: Path) -> None:
    small_run.KEEP = 3  # type: ignore[misc]
    run(directory, 6, go_on)


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "run"))


@pytest.mark.parametrize("damage", [remove, cut, empty, flip])
@pytest.mark.parametrize("file", FILES)
def test_damage_is_found_by_name_and_the_older_one_used(file: str, damage: Callable[[Path], None], copy: Path) -> None:
    checkpoints = copy / "checkpoints"
    damage(checkpoints / "step-000006" / file)
    problems = verify(checkpoints / "step-000006")
    assert len(problems) == 1
    assert problems[0].startswith(f"{file}: ")
    good, lines = newest_good(checkpoints)
    assert good == checkpoints / "step-000004"
    assert lines == [f"checkpoints/step-000006: {problems[0]}; using step-000004"]


def test_the_line_says_how_much_is_missing(copy: Path) -> None:
    checkpoints = copy / "checkpoints"
    cut(checkpoints / "step-000006" / "optimizer.safetensors")
    remove(checkpoints / "step-000004" / "model.safetensors")
    good, lines = newest_good(checkpoints)
    assert good == checkpoints / "step-000002"
    assert lines == [
        "checkpoints/step-000006: optimizer.safetensors: 12 bytes short; using step-000002",
        "checkpoints/step-000004: model.safetensors: missing; using step-000002",
    ]


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", MANIFEST])
def test_the_run_goes_on_from_the_older_one_bit_for_bit(file: str, copy: Path, sound: Path) -> None:
    flip(copy / "checkpoints" / "step-000006" / file)
    finish(lambda: train(copy), copy / "error")
    for name in FILES:
        again = copy / "checkpoints" / "step-000006" / name
        assert again.read_bytes() == (sound / "checkpoints" / "step-000006" / name).read_bytes(), name
    assert (copy / "steps.jsonl").read_bytes() == (sound / "steps.jsonl").read_bytes()
    assert [path.name for path in (copy / "checkpoints").iterdir() if path.name.startswith(".")] == []


def test_any_byte_of_the_manifest_counts(copy: Path) -> None:
    """A flipped bit in the manifest is blamed on the manifest, whatever it spoke of."""
    path = copy / "checkpoints" / "step-000006"
    data = (path / MANIFEST).read_bytes()
    for index in range(0, len(data), 5):
        changed = bytearray(data)
        changed[index] ^= 1 << index % 8
        (path / MANIFEST).write_bytes(bytes(changed))
        assert verify(path) == [f"{MANIFEST}: truncated or changed since it was saved"], index


def test_any_byte_of_a_file_counts(copy: Path) -> None:
    path = copy / "checkpoints" / "step-000006"
    file = path / "scheduler.json"
    data = file.read_bytes()
    for index in range(0, len(data), 5):
        changed = bytearray(data)
        changed[index] ^= 1 << index % 8
        file.write_bytes(bytes(changed))
        assert verify(path) == ["scheduler.json: changed since it was saved (sha256 differs)"], index


def test_unlisted_and_grown_files_are_named(copy: Path) -> None:
    path = copy / "checkpoints" / "step-000006"
    (path / "adapter").mkdir()
    (path / "adapter" / "adapter_config.json").write_text("{}")
    with (path / "rng-0.json").open("a") as file:
        file.write("  ")
    assert verify(path) == ["adapter/adapter_config.json: not in MANIFEST.json", "rng-0.json: 2 bytes too long"]


def test_a_checkpoint_under_another_steps_name_is_refused(copy: Path) -> None:
    path = copy / "checkpoints" / "step-000006"
    assert verify(path.rename(path.with_name("step-000007"))) == ["MANIFEST.json: belongs to step 6"]


def test_all_damaged_is_an_error_that_lists_all(copy: Path) -> None:
    checkpoints = copy / "checkpoints"
    flip(checkpoints / "step-000002" / "model.safetensors")
    remove(checkpoints / "step-000004" / MANIFEST)
    cut(checkpoints / "step-000006" / "rng-0.json")
    with pytest.raises(CheckpointError) as caught:
        newest_good(checkpoints)
    line = str(caught.value)
    assert "\n" not in line
    for part in (
        "step-000006: rng-0.json: 12 bytes short",
        "step-000004: MANIFEST.json: missing",
        "step-000002: model.safetensors: changed",
    ):
        assert part in line
