"""Write a run's files so that what was written is on the disk, or an error says why.

Everything that saves goes through this module's attributes. A test can replace ``at_point`` (to be told, or to die, at each
named point) and ``write_some`` (to run out of space, or to die, halfway through the n-th write).

``save_tree`` writes nested Python values with tensors in them as JSON and safetensors: exact, readable, and without pickle.
JSON has no tuples, no tensors, no NaN and no keys but strings, so these carry a tag: ``{"$tuple": [...]}``,
``{"$tensor": "0.exp_avg"}``, ``{"$float": "nan"}``, ``{"$items": [[key, value], ...]}``. Finite floats need no tag: JSON
written by Python gives them back bit for bit."""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from holdfast.config import InputError

POINTS = (
    "before-row",
    "after-row",
    "before-sweep",
    "before-temp",
    "after-temp",
    "before-file",
    "after-file",
    "before-sync",
    "synced-file",
    "before-manifest",
    "after-manifest",
    "before-rename",
    "after-rename",
    "after-commit",
    "before-prune",
    "hidden-old",
    "mid-prune",
    "after-prune",
)
"""The named points of saving, in order. One that concerns a file is called ``point:file``."""


class CheckpointError(InputError):
    """A checkpoint that cannot be saved or used: one line that names the file and says what to do."""


def _go_on(_point: str) -> None:
    """In production nothing happens at the named points."""


at_point: Callable[[str], None] = _go_on
write_some: Callable[[int, memoryview], int] = os.write


def write_file(path: Path, data: bytes) -> None:
    """Write a whole file and wait until it is on the disk."""
    with _opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
        _write_all(descriptor, data)
        os.fsync(descriptor)


def append(path: Path, data: bytes) -> None:
    """Append in one write. If the disk has no room for all of it, none of it stays."""
    with _opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as descriptor:
        size = os.fstat(descriptor).st_size
        try:
            _write_all(descriptor, data)
        except OSError:
            os.ftruncate(descriptor, size)
            raise


def truncate(path: Path, size: int) -> None:
    """Cut a file to its first ``size`` bytes and wait until that is on the disk."""
    with _opened(path, os.O_WRONLY) as descriptor:
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    with _opened(path, os.O_RDONLY) as descriptor:
        os.fsync(descriptor)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """A file's descriptor. An error inside is given the file's name, which ``os.write`` and ``os.fsync`` do not know."""
    descriptor = os.open(path, flags, 0o666)
    try:
        yield descriptor
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(descriptor)


def os_error(error: BaseException | None) -> OSError | None:
    """The system's error behind an exception, if there is one.

    safetensors and tokenizers write from Rust: their exceptions carry the error number in the text alone.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error
        if match := re.search(r"\(os error (\d+)\)", str(error)):
            number = int(match[1])
            return OSError(number, os.strerror(number))
        error = error.__cause__
    return None


def is_full(error: OSError) -> bool:
    """Whether the disk, the quota or the size limit was reached."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[write_some(descriptor, left) :]


def save_tree(folder: Path, name: str, tree: object) -> None:
    """Write ``name.json`` and, if the tree holds tensors, ``name.safetensors``."""
    tensors: dict[str, Tensor] = {}
    encoded = _encode(tree, "", tensors)
    if tensors:
        _save_tensors(folder / f"{name}.safetensors", tensors)
    save_json(folder / f"{name}.json", encoded)


def load_tree(folder: Path, name: str) -> Any:
    """What ``save_tree`` wrote, its tensors on the CPU."""
    encoded = load_json(folder / f"{name}.json")
    path = folder / f"{name}.safetensors"
    try:
        tensors = load_file(path) if path.exists() else {}
        return _decode(encoded, tensors)
    except (SafetensorError, KeyError, OSError) as error:
        raise CheckpointError(f"{path.parent.name}/{path.name}: cannot be read ({error})") from error


def save_json(path: Path, value: object) -> None:
    """Write a plain JSON value."""
    at_point(f"before-file:{path.name}")
    write_file(path, (json.dumps(value, allow_nan=False) + "\n").encode())
    at_point(f"after-file:{path.name}")


def load_json(path: Path) -> Any:
    """Read a JSON value; one clear line when it cannot be read."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path.parent.name}/{path.name}: cannot be read ({error})") from error


def _save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    at_point(f"before-file:{path.name}")
    try:
        save_file(_unshared(tensors), path)
    except SafetensorError as error:
        system = os_error(error)
        if system is None:
            raise
        raise OSError(system.errno, system.strerror, str(path)) from error
    at_point(f"after-file:{path.name}")


def _unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors with storage of their own, as safetensors wants; 8-bit optimizers share their maps."""
    seen: set[tuple[torch.device, int]] = set()
    unshared = {}
    for name, tensor in tensors.items():
        storage = (tensor.device, tensor.untyped_storage().data_ptr())
        plain = tensor.detach().contiguous()
        unshared[name] = plain.clone() if storage in seen else plain
        seen.add(storage)
    return unshared


def _encode(value: object, path: str, tensors: dict[str, Tensor]) -> object:
    """The JSON form of a value; its tensors go into ``tensors`` under their path."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Tensor):
        tensors[path] = value
        return {"$tensor": path}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, list | tuple):
        items = [_encode(item, _join(path, index), tensors) for index, item in enumerate(value)]
        return items if isinstance(value, list) else {"$tuple": items}
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _encode(item, _join(path, key), tensors) for key, item in value.items()}
        pairs = ([_encode(key, "", tensors), _encode(item, _join(path, key), tensors)] for key, item in value.items())
        return {"$items": list(pairs)}
    raise TypeError(f"{path or 'the value'}: a {type(value).__name__} cannot be saved without pickle")


def _decode(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (tag, inner), *_ = value.items()
        if tag == "$tensor":
            return tensors[inner]
        if tag == "$float":
            return float(inner)
        if tag == "$tuple":
            return tuple(_decode(inner, tensors))
        if tag == "$items":
            return {_decode(key, tensors): _decode(item, tensors) for key, item in inner}
    return {key: _decode(item, tensors) for key, item in value.items()}


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
