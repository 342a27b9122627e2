"""What the anchor says about every target token, computed once and kept on disk.

(logp, top) at 8 bytes a token is exact for csft and for delta; with the hidden states kept too, and the head beside them,
kl is exact without an anchor pass. A cache is used only for the rows, template, dtype, precision and weights it was made
from: it carries their hash, and a stale or damaged one is refused by name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from holdfast.config import InputError
from holdfast.config.training import Precision
from holdfast.heads import Reference, token_stats
from holdfast.models.identity import weights_hash
from holdfast.training.anchors import ModelAnchor
from holdfast.training.checkpoints.folders import sha256_file
from holdfast.training.collate import Collator, MicroBatch, StreamRow

FORMAT = 2
ROWS_PER_SHARD = 4096
ROWS_PER_PASS = 16


def cache_key(
    rows: Sequence[StreamRow], tokenizer: Any, model: Any, max_length: int, precision: Precision = "fp32"
) -> str:
    """One hash of everything a cached number depends on. Without autocast (fp32) the precision is left out of it."""
    digest = hashlib.sha256()
    described = {
        "format": FORMAT,
        "max_length": max_length,
        "template": tokenizer.chat_template,
        "weights": weights_hash(model),
        **({} if precision == "fp32" else {"precision": precision}),
    }
    digest.update(json.dumps(described, sort_keys=True).encode())
    for row in rows:
        digest.update(json.dumps([row.row.ids, row.row.roles, row.row.positions]).encode())
    return digest.hexdigest()


def build_cache(
    folder: Path,
    rows: Sequence[StreamRow],
    anchor: ModelAnchor,
    collator: Collator,
    *,
    key: str,
    hidden: bool,
    on_rows: Callable[[int], None] = lambda _: None,
) -> None:
    """Run the anchor over every row once. Shards first, the manifest last; a cache without one is not a cache.

    Call it under the autocast of the training: the policy, computed with other roundings, would seem to have drifted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").unlink(missing_ok=True)
    files = []
    for first in range(0, len(rows), ROWS_PER_SHARD):
        tensors = _shard(rows[first : first + ROWS_PER_SHARD], anchor, collator, hidden, on_rows)
        files.append(f"rows-{first:08d}.safetensors")
        save_file(tensors, folder / files[-1])
    if hidden:
        assert anchor.head is not None
        files.append("head.safetensors")
        save_file({"weight": anchor.head.cpu().contiguous()}, folder / files[-1])
    manifest = {
        "key": key,
        "rows": [row.number for row in rows],
        "hidden": hidden,
        "files": {
            name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_file(folder / name)} for name in files
        },
    }
    partial = folder / ".manifest.json"
    partial.write_text(json.dumps(manifest), encoding="utf-8")
    partial.replace(folder / "manifest.json")


def _shard(
    rows: Sequence[StreamRow], anchor: ModelAnchor, collator: Collator, hidden: bool, on_rows: Callable[[int], None]
) -> dict[str, Tensor]:
    cached: dict[int, dict[str, Tensor]] = {}
    by_length = sorted(rows, key=lambda row: len(row.row.ids))
    device = next(anchor.model.parameters()).device
    for start in range(0, len(by_length), ROWS_PER_PASS):
        batch = collator(by_length[start : start + ROWS_PER_PASS]).to(device)
        reference = anchor.reference(batch, None)
        assert reference.hidden is not None
        assert reference.weight is not None
        stats = token_stats(reference.hidden, reference.weight, batch.targets.ids)
        kept = {"logp": stats.logp.float(), "top": stats.top.int(), **({"hidden": reference.hidden} if hidden else {})}
        for number, rows_of_one in _by_row(batch, rows):
            cached[number] = {name: value[rows_of_one].cpu() for name, value in kept.items()}
        on_rows(len(batch.rows))
    ordered = [cached[row.number] for row in rows]
    ends = torch.tensor([0, *(len(one["logp"]) for one in ordered)]).cumsum(0)
    return {"ends": ends, **{name: torch.cat([one[name] for one in ordered]).contiguous() for name in kept}}


def _by_row(batch: MicroBatch, rows: Sequence[StreamRow]) -> Iterator[tuple[int, slice]]:
    """The target table lists tokens row by row (rows lie stream by stream): cut it at every row."""
    targets_of = {row.number: sum(role != 0 for role in row.row.roles[1:]) for row in rows}
    start = 0
    for number in batch.rows:
        yield number, slice(start, start + targets_of[number])
        start += targets_of[number]
    assert start == len(batch.targets.ids)


class CachedAnchor:
    """Reads the cache row by row, lazily; refuses to open one that is stale or damaged.

    A thread reads while the policy's body runs: of a slow disk, or of a host with little time left, a step sees nothing.
    """

    def __init__(self, folder: Path, *, key: str, need_kl: bool, device: torch.device) -> None:
        manifest = read_manifest(folder)
        _refuse_stale(folder, manifest, key)
        if need_kl and not manifest["hidden"]:
            raise InputError(
                f"{folder}: holds no hidden states, and the objective needs kl or soften; set anchor.cache_hidden: true and"
                " delete the folder, or use anchor.via: model"
            )
        self.hidden = need_kl  # (logp, top) alone are exact for csft, and far less to read
        self.device = device
        self._place = {number: index for index, number in enumerate(manifest["rows"])}
        shards = [safe_open(folder / name, "pt") for name in sorted(manifest["files"]) if name.startswith("rows-")]
        self._ends = [shard.get_tensor("ends").tolist() for shard in shards]
        names = ("hidden",) if self.hidden else ("logp", "top")
        self._shards = [{name: shard.get_tensor(name) for name in names} for shard in shards]  # mapped, not read
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="anchor-cache")
        self._head = None
        if self.hidden:
            with safe_open(folder / "head.safetensors", "pt") as head:
                self._head = head.get_tensor("weight").to(device)

    def begin(self, batch: MicroBatch, policy: Any) -> Callable[[], Reference]:
        """Starts to read the cached rows of the batch, in the order of its target table."""
        assert batch.anchor is not None, "no row of this batch is compared with the anchor"
        reading = self._reader.submit(self._read, batch.anchor.rows)

        def arrived() -> Reference:
            read = {name: value.to(self.device, non_blocking=True) for name, value in reading.result().items()}
            if self.hidden:
                return Reference(hidden=read["hidden"], weight=self._head)
            return Reference(logp=read["logp"], top=read["top"].long())

        return arrived

    def _read(self, numbers: Sequence[int]) -> dict[str, Tensor]:
        rows = [self._row(number) for number in numbers]
        return {name: self._joined([row[name] for row in rows]) for name in rows[0]}

    def logits(self, batch: MicroBatch, policy: Any) -> Tensor:
        """Raise ``InputError``: a cache holds no logits."""
        raise InputError(
            "anchor.via: cache works with models whose logits are hidden states times a head; use via: model"
        )

    def _row(self, number: int) -> dict[str, Tensor]:
        shard, row = divmod(self._place[number], ROWS_PER_SHARD)
        start, stop = self._ends[shard][row : row + 2]
        return {name: values[start:stop] for name, values in self._shards[shard].items()}

    def _joined(self, rows: Sequence[Tensor]) -> Tensor:
        """The rows as one tensor; for a GPU in pinned memory, so that the host does not wait for the copy.

        numpy copies in this thread alone. torch would wake a thread for every core that it sees, which stops the whole process
        in a container that may use only some of them.
        """
        size = (sum(map(len, rows)), *rows[0].shape[1:])
        out = torch.empty(size, dtype=rows[0].dtype, pin_memory=self.device.type == "cuda")
        np.concatenate([_bytes(row) for row in rows], out=_bytes(out))
        return out


def _bytes(values: Tensor) -> Any:
    """The same memory as a numpy array of bytes: numpy has no bfloat16."""
    return values.view(torch.uint8).numpy()


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a cache. Raises ``InputError`` where there is none, or none that can be read."""
    try:
        manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{folder}: not an anchor cache (no manifest.json); delete it and it is made anew") from None
    except ValueError:
        raise InputError(f"{folder}/manifest.json: damaged; delete {folder} and it is made anew") from None
    return manifest


def _refuse_stale(folder: Path, manifest: Mapping[str, Any], key: str) -> None:
    if manifest["key"] != key:
        raise InputError(
            f"{folder}: this anchor cache was made from other rows, another template, max_length, dtype, precision or"
            f" other anchor weights (it is {manifest['key'][:12]}, needed {key[:12]}); delete it and it is made anew"
        )
    for name, expected in manifest["files"].items():
        path = folder / name
        size = path.stat().st_size if path.exists() else None
        if size != expected["bytes"]:
            state = "missing" if size is None else f"{size} bytes instead of {expected['bytes']}"
            raise InputError(f"{path}: {state}; delete {folder} and the cache is made anew")
        if sha256_file(path) != expected["sha256"]:
            raise InputError(f"{path}: changed since it was written; delete {folder} and the cache is made anew")
