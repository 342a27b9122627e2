"""Rows of a folder: shards of one dataset, or what ``datasets`` saved with ``save_to_disk``. And of a glob."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from holdfast.config import InputError
from holdfast.data.fields import counted, listed
from holdfast.data.rows import Row, Rows, file_kind, file_rows, without_gaps

KINDS = ".jsonl, .json, .csv or .parquet"
SPLITS = ("train", "training", "test", "valid", "validation", "val", "dev", "eval", "evaluation")
_SAVED, _SAVED_SPLITS = "dataset_info.json", "dataset_dict.json"


class Shards(NamedTuple):
    """The files of one dataset, in order, and the names of those beside them that are not read."""

    files: tuple[Path, ...]
    not_read: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """For the user, in one line."""
        names = listed(file.name for file in self.files)
        text = f"{counted(len(self.files), 'file')} ({names})"
        return text + (f", not read: {listed(self.not_read)}" if self.not_read else "")


def is_glob(source: str) -> bool:
    """Whether this is a pattern of file names, and no name itself."""
    return any(sign in source for sign in "*?[") and not Path(source).exists()


def saved_folder(source: str) -> tuple[Path, str] | None:
    """The folder and the split (or '') where ``source`` is a folder of ``save_to_disk``, or such a one with ``:split``."""
    folder, _, split = source.rpartition(":")
    if folder and (Path(folder) / _SAVED_SPLITS).is_file():
        return Path(folder), split
    whole = Path(source)
    is_saved = (whole / _SAVED).is_file() and (whole / "state.json").is_file()
    return (whole, "") if is_saved or (whole / _SAVED_SPLITS).is_file() else None


def saved_rows(folder: Path, split: str) -> Rows:
    """The rows of a saved dataset. A row's line is its number, from 1."""
    source = f"{folder}:{split}" if split else str(folder)
    try:
        import datasets
    except ImportError:
        needs = "a folder of `save_to_disk` needs the `datasets` package: pip install 'holdfast[data]'"
        raise InputError(f"{source}: {needs}") from None
    try:
        saved = datasets.load_from_disk(str(folder))
    except Exception as error:  # a broken folder surfaces as one of a dozen types
        reason = (str(error) or type(error).__name__).partition("\n")[0]
        raise InputError(f"{source}: not readable as a saved dataset: {reason}") from None
    if isinstance(saved, datasets.DatasetDict):
        if (split or "train") not in saved:
            raise InputError(f"{source}: expected one of its splits, {folder}:SPLIT; it has {', '.join(saved)}")
        saved = saved[split or "train"]
    for number, fields in enumerate(saved, start=1):
        yield Row(number, without_gaps(dict(fields)))


def find_shards(source: str) -> Shards:
    """The files that a folder or a glob stands for: all of one kind and, by their names, of one split."""
    if is_glob(source):
        paths = [Path(name) for name in sorted(glob.glob(source, recursive=True))]
        files = [path for path in paths if path.is_file()]
        if not files:
            raise InputError(f"{source}: no file has such a name")
        wrong = [str(path) for path in files if file_kind(path) is None]
        if wrong:
            raise InputError(f"{source}: expected names of {KINDS} files only, got {listed(wrong)}")
        return Shards(_one_dataset(files, source))
    inside = sorted(path for path in Path(source).iterdir() if not path.name.startswith("."))
    files = [path for path in inside if path.is_file() and file_kind(path) is not None]
    if not files:
        folders = [path.name for path in inside if path.is_dir()]
        hint = f"; it has folders: {listed(folders)}" if folders else ""
        raise InputError(f"{source}: expected a folder with {KINDS} files, got none of them{hint}")
    return Shards(_one_dataset(files, source), tuple(path.name for path in inside if path not in files))


def shard_rows(files: Sequence[Path]) -> Rows:
    """The rows of all files, each with the file it stands in."""
    for file in files:
        for item in file_rows(file):
            yield replace(item, file=str(file)) if isinstance(item, Row) else item


def _one_dataset(files: list[Path], source: str) -> tuple[Path, ...]:
    kinds = sorted({str(file_kind(path)) for path in files})
    if len(kinds) > 1:
        raise InputError(f"{source}: expected files of one kind, got {' and '.join(kinds)}; name one kind with a glob")
    by_split = sorted({split for path in files if (split := _split_of(path))})
    if len(by_split) > 1:
        example = f"{Path(source).parent if is_glob(source) else source}/{by_split[0]}*"
        raise InputError(f"{source}: holds several splits: {', '.join(by_split)}; name one with a glob: '{example}'")
    return tuple(files)


def _split_of(path: Path) -> str:
    """The split that a file's name begins with, as in train-00000-of-00003.parquet; '' where it names none."""
    word = re.split(r"[^a-z]", path.name.lower(), maxsplit=1)[0]
    return word if word in SPLITS else ""
