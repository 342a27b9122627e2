"""Rows of a dataset on the Hugging Face hub: ``hf:owner/name``, ``hf:owner/name:split``, or plain ``owner/name``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.config import InputError
from holdfast.config.extras import need_extra
from holdfast.data.rows import Row, file_kind

_PREFIX = "hf:"
_NAME = re.compile(r"[\w.-]+/[\w.-]+(:[^/]+)?")


def is_hub_name(source: str) -> bool:
    """Whether this reads as a hub name and is no local file.

    A name without an owner needs ``hf:``, or every mistyped file would be looked for on the hub.
    """
    if source.startswith(_PREFIX):
        return True
    path = Path(source)
    return _NAME.fullmatch(source) is not None and file_kind(path) is None and not path.exists()


def hub_rows(source: str) -> Iterator[Row]:
    """The rows of a hub dataset, ``train`` unless another split is named. A row's line is its number, from 1."""
    missing = "" if source.startswith(_PREFIX) else "no such file; "
    need_extra("data", f"{source}: {missing}a hub dataset", "datasets")
    import datasets

    name, _, split = source.removeprefix(_PREFIX).partition(":")
    try:
        rows = datasets.load_dataset(name, split=split or "train")
    except Exception as error:  # a wrong name, split or network surfaces as one of a dozen types
        reason = (str(error) or type(error).__name__).partition("\n")[0]
        raise InputError(f"{source}: {missing}not readable as a hub dataset: {reason}") from None
    for number, fields in enumerate(rows, start=1):
        yield Row(number, dict(fields))
