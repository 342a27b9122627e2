"""Nested Python values with tensors in them, on disk as JSON and safetensors: exact, readable, and no pickle.

JSON has no tuples, no tensors, no NaN and no keys but strings, so these carry a tag: ``{"$tuple": [...]}``,
``{"$tensor": "0.exp_avg"}``, ``{"$float": "nan"}``, ``{"$items": [[key, value], ...]}``. Finite floats need none: JSON
written by Python gives them back bit for bit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from holdfast.training import durable
from holdfast.training.durable import CheckpointError


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
    durable.at_point(f"before-file:{path.name}")
    durable.write_file(path, (json.dumps(value, allow_nan=False) + "\n").encode())
    durable.at_point(f"after-file:{path.name}")


def load_json(path: Path) -> Any:
    """Read a JSON value; one clear line when it cannot be read."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path.parent.name}/{path.name}: cannot be read ({error})") from error


def _save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    durable.at_point(f"before-file:{path.name}")
    try:
        save_file(_unshared(tensors), path)
    except SafetensorError as error:
        system = durable.os_error(error)
        if system is None:
            raise
        raise OSError(system.errno, system.strerror, str(path)) from error
    durable.at_point(f"after-file:{path.name}")


def _unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors with storage of their own, as safetensors wants; 8-bit optimizers share their maps."""
    seen: set[tuple[torch.device, int]] = set()
    own = {}
    for name, tensor in tensors.items():
        storage = (tensor.device, tensor.untyped_storage().data_ptr())
        plain = tensor.detach().contiguous()
        own[name] = plain.clone() if storage in seen else plain
        seen.add(storage)
    return own


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
