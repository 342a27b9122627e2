"""Folders of checkpoints that a kill, a full disk or a flipped bit cannot turn into a wrong one.

A checkpoint is written into a hidden folder; MANIFEST.json (size and sha256 of every file) comes last; everything is
synced and the folder renamed into place. So a folder ``step-000100`` is either whole or was damaged later, and then
``verify`` says by which file.

Several processes save together, and must see the same directory (on several machines: a shared file system). Either all
files are saved or none, and every process learns which."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist

from holdfast._version import __version__
from holdfast.training.checkpoints import durable
from holdfast.training.checkpoints.durable import CheckpointError

MANIFEST = "MANIFEST.json"


def save_checkpoint(directory: Path, step: int, write: Callable[[Path], None], *, keep: int | None) -> Path:
    """Save what ``write(folder)`` writes as ``directory/step-NNNNNN``, wholly or not at all; keep the newest ``keep``.

    All processes call it at once: the first prepares and seals, ``write`` runs on each, and collectives work in it.
    A checkpoint of this step that verifies is left as it is. When something fails, the folder begun is removed, older
    checkpoints stay, and a failing disk is told as a ``CheckpointError``.
    """
    with whole_or_nothing(directory, step):
        temp = _by_the_first(partial(prepare, directory, step))
        if temp is not None:
            _agreed(partial(write, temp))
            _by_the_first(partial(seal, temp))
    _by_the_first(partial(prune, directory, step, keep))
    return directory / folder_name(step)


def resume_point(directory: Path, *, keep: int | None, main: bool = True) -> tuple[Path | None, list[str]]:
    """``newest_good``, after which the main process finishes what a kill interrupted: sweeping and pruning."""
    path, lines = newest_good(directory)
    if main:
        sweep(directory)
        if path is not None:
            prune(directory, step_of(path), keep)
    return path, lines


def newest_good(directory: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that verifies, and one line for every damaged newer one.

    None and no line when there is no checkpoint yet; an error that lists them when all are damaged.
    """
    damaged: list[str] = []
    for _, path in _listing(directory):
        problems = verify(path)
        if not problems:
            return path, [f"{line}; using {path.name}" for line in damaged]
        more = f" and {len(problems) - 4} files more" if len(problems) > 4 else ""
        damaged.append(f"{directory.name}/{path.name}: {', '.join(problems[:4])}{more}")
    if damaged:
        raise CheckpointError(
            f"{directory}: every checkpoint is damaged, so there is nothing to resume from ({'; '.join(damaged)}); "
            "restore one from a copy, or move the folder away to start again"
        )
    return None, []


def verify(path: Path, *, contents: bool = True) -> list[str]:
    """What is wrong with a checkpoint, by file name. ``contents=False`` compares sizes only."""
    try:
        manifest = _read_manifest(path)
    except ValueError as error:
        return [f"{MANIFEST}: {error}"]
    listed = manifest["files"]
    names = sorted(listed.keys() | _files(path))
    problems = ((name, _file_problem(path / name, listed.get(name), contents)) for name in names)
    return [f"{name}: {problem}" for name, problem in problems if problem]


def folder_name(step: int) -> str:
    """``step-000100``: the name sorts like the number up to a million steps, and holds beyond."""
    return f"step-{step:06d}"


def step_of(path: Path) -> int:
    """The step in a checkpoint's folder name."""
    match = re.fullmatch(r"step-(\d{6,})", path.name)
    assert match, path
    return int(match[1])


def prepare(directory: Path, step: int) -> Path | None:
    """An empty hidden folder to write into; None when this step is saved already and verifies."""
    assert step >= 0, step
    durable.at_point("before-sweep")
    sweep(directory)  # before writing: what dead runs left may be the space we need
    final = directory / folder_name(step)
    if final.is_dir() and not verify(final):
        return None
    durable.at_point("before-temp")
    temp = directory / f".tmp-{final.name}-{os.getpid()}"
    _make_durably(directory)
    temp.mkdir()
    durable.at_point("after-temp")
    return temp


def seal(temp: Path) -> Path:
    """Sync every file, write the manifest, and rename the folder into place."""
    match = re.fullmatch(r"\.tmp-(step-\d+)-\d+", temp.name)
    assert match, temp
    final = temp.with_name(match[1])
    durable.at_point("before-sync")
    files = {}
    for name in sorted(_files(temp)):
        durable.sync(temp / name)
        files[name] = {"bytes": (temp / name).stat().st_size, "sha256": sha256_file(temp / name)}
        durable.at_point(f"synced-file:{name}")
    durable.at_point("before-manifest")
    manifest = {"step": step_of(final), "holdfast": __version__, "files": files}
    durable.write_file(temp / MANIFEST, _manifest_bytes(manifest))
    durable.at_point("after-manifest")
    for folder, _, _ in os.walk(temp, topdown=False):
        durable.sync(Path(folder))
    durable.at_point("before-rename")
    damaged = _hide(final) if final.exists() else None
    os.rename(temp, final)
    durable.at_point("after-rename")
    durable.sync(final.parent)
    durable.at_point("after-commit")
    if damaged:
        shutil.rmtree(damaged)
    return final


def prune(directory: Path, newest: int, keep: int | None) -> None:
    """Remove what is older than the newest ``keep`` whole checkpoints, counted from ``newest``, which always stays.

    Damaged ones do not count: with ``keep=2`` a run that saved twice has a whole one to fall back to.
    """
    durable.at_point("before-prune")
    whole = 0
    for step, path in _listing(directory) if keep is not None else []:
        assert keep, keep
        if step > newest:
            continue  # left from before a fall-back to an older one: replaced when its step is reached again
        if whole < keep:
            whole += step == newest or not verify(path, contents=False)
        else:
            try:
                _remove(path)
            except OSError as error:
                raise CheckpointError(f"{path}: an old checkpoint that cannot be removed: {error}") from error
    durable.at_point("after-prune")


def _remove(path: Path) -> None:
    """Delete a checkpoint. A kill halfway must not leave a folder that looks like one, so it is hidden first."""
    hidden = _hide(path)
    durable.at_point(f"hidden-old:{path.name}")
    for name in sorted(_files(hidden)):
        (hidden / name).unlink()
        durable.at_point(f"mid-prune:{name}")
    shutil.rmtree(hidden)


def sweep(directory: Path) -> None:
    """Remove hidden folders that dead runs left: half-written and half-deleted checkpoints."""
    if not directory.is_dir():
        return
    for path in directory.iterdir():
        match = re.fullmatch(r"\.(?:tmp|old)-step-\d+-(\d+)", path.name)
        if match and (int(match[1]) == os.getpid() or not is_alive(int(match[1]))):
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def whole_or_nothing(directory: Path, step: int) -> Iterator[None]:
    """Remove the folder begun when saving fails, and tell a failing disk in one line."""
    try:
        yield
    except BaseException as error:
        temp = directory / f".tmp-{folder_name(step)}-{os.getpid()}"
        shutil.rmtree(temp, ignore_errors=True)
        system = durable.os_error(error) if isinstance(error, Exception) else None
        if system is None or isinstance(error, CheckpointError):
            raise
        raise CheckpointError(_failure_line(directory, step, system)) from error


def _failure_line(directory: Path, step: int, error: OSError) -> str:
    """What failed, what is left, and what to do."""
    file = re.sub(r".*/\.tmp-step-\d+-\d+/", "", str(error.filename)) + ": " if error.filename else ""
    older = [path for at, path in _listing(directory) if at != step]
    left = f"older checkpoints are untouched (newest: {older[0].name})" if older else "there was no older checkpoint"
    advice = "mend this"
    if durable.is_full(error):
        free = shutil.disk_usage(directory if directory.is_dir() else Path.cwd()).free
        size = sum((older[0] / name).stat().st_size for name in _files(older[0])) if older else 0
        needs = f", {older[0].name} takes {size / 1e6:.1f} MB" if older else ""
        advice = f"free some space ({free / 1e6:.1f} MB are free{needs}) or keep fewer checkpoints"
    return (
        f"{directory.name}/{folder_name(step)}: not saved: {file}{error.strerror}; {left}; "
        f"{advice}, then run the same command again to go on from there"
    )


def _listing(directory: Path) -> list[tuple[int, Path]]:
    """The checkpoints of a directory, newest first."""
    if not directory.is_dir():
        return []
    named = (path for path in directory.iterdir() if re.fullmatch(r"step-\d{6,}", path.name) and path.is_dir())
    return sorted(((step_of(path), path) for path in named), reverse=True)


def _files(folder: Path) -> set[str]:
    """Every file below a folder but its manifest, as a relative path."""
    names = {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()
    }
    return names - {MANIFEST}


def sha256_file(path: Path) -> str:
    """The hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _file_problem(path: Path, listed: dict[str, Any] | None, contents: bool) -> str:
    """What is wrong with one file, or nothing."""
    if listed is None:
        return f"not in {MANIFEST}"
    try:
        size = path.stat().st_size
        if size < listed["bytes"]:
            return f"{listed['bytes'] - size} bytes short"
        if size > listed["bytes"]:
            return f"{size - listed['bytes']} bytes too long"
        if contents and sha256_file(path) != listed["sha256"]:
            return "changed since it was saved (sha256 differs)"
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return ""


def _manifest_bytes(content: dict[str, Any]) -> bytes:
    """The manifest, with a digest of itself: a flipped bit in it must not be blamed on the file it speaks of."""
    return _encode({**content, "sha256": hashlib.sha256(_encode(content)).hexdigest()})


def _encode(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()


def _read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a checkpoint, byte for byte as it was written; ``ValueError`` says what is wrong."""
    try:
        data = (path / MANIFEST).read_bytes()
        manifest = json.loads(data)
        del manifest["sha256"]
        intact = data == _manifest_bytes(manifest)
    except FileNotFoundError:
        raise ValueError("missing") from None
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        intact = False
    if not intact:
        raise ValueError("truncated or changed since it was saved")
    if manifest["step"] != step_of(path):
        raise ValueError(f"belongs to step {manifest['step']}")
    return dict(manifest)


def _make_durably(directory: Path) -> None:
    """Make a folder and its parents so that their names, too, survive a power cut."""
    new = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for path in new:
        durable.sync(path.parent)


def _hide(path: Path) -> Path:
    """Rename a checkpoint to a hidden name that ``sweep`` knows."""
    hidden = path.with_name(f".old-{path.name}-{os.getpid()}")
    os.rename(path, hidden)
    durable.sync(path.parent)
    return hidden


def is_alive(pid: int) -> bool:
    """Whether a process of this number runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _by_the_first(work: Callable[[], Path | None]) -> Path | None:
    """Work of the first process; the others have nothing to do but to hear how it went."""
    return _agreed(work if not are_several() or dist.get_rank() == 0 else lambda: None)


def _agreed(work: Callable[[], Path | None]) -> Path | None:
    """Do this process's part of the work; returns the first process's result, and raises everywhere when any failed."""
    if not are_several():
        return work()
    result, failure = None, None
    try:
        result = work()
    except Exception as error:  # whatever it was, the others must not wait for ever
        failure = error
    outcomes: list[tuple[Path | None, str]] = [(None, "")] * dist.get_world_size()
    dist.all_gather_object(outcomes, (result, repr(failure) if failure else ""))
    if failure:
        raise failure
    for rank, (_, problem) in enumerate(outcomes):
        if problem:
            raise CheckpointError(f"no checkpoint was saved, because process {rank} failed: {problem}")
    return outcomes[0][0]


def are_several() -> bool:
    """Whether several processes work together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
