"""Rows of a dataset on the Hugging Face hub: ``hf:owner/name``, ``hf:owner/name:split``, ``hf:owner/name:config:split``.

Without ``hf:`` too, where the name has an owner.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.config import InputError
from holdfast.config.extras import need_extra
from holdfast.data.rows import Row, file_kind, without_gaps

_PREFIX = "hf:"
_NAME = re.compile(r"[\w.-]+/[\w.-]+(:[^/]+)?")
_PARTS = re.compile(r"(?P<name>[^:]+)(:(?P<config>[^:\[\]]+)(?=:))?(:(?P<split>[^:\[\]]*(\[.*\])?))?")


def is_hub_name(source: str) -> bool:
    """Whether this reads as a hub name and is no local file.

    A name without an owner needs ``hf:``, or every mistyped file would be looked for on the hub.
    """
    if source.startswith(_PREFIX):
        return True
    path = Path(source)
    return _NAME.fullmatch(source) is not None and file_kind(path) is None and not path.exists()


def hub_rows(source: str) -> Iterator[Row]:
    """The rows of a hub dataset, ``train`` unless another split is named. A row's line is its number, from 1.

    A configuration stands before the split: ``openai/gsm8k:main:test``, or ``openai/gsm8k:main:`` for its ``train``.
    """
    missing = "" if source.startswith(_PREFIX) else "no such file; "
    need_extra("data", f"{source}: {missing}a hub dataset", "datasets")
    import datasets

    parts = _PARTS.fullmatch(source.removeprefix(_PREFIX))
    if parts is None:
        raise InputError(f"{source}: expected hf:OWNER/NAME, hf:OWNER/NAME:SPLIT or hf:OWNER/NAME:CONFIG:SPLIT")
    name, config, split = parts["name"], parts["config"], parts["split"]
    try:
        rows = datasets.load_dataset(name, config, split=split or "train")
    except Exception as error:  # a wrong name, split or network surfaces as one of a dozen types
        reason = (str(error) or type(error).__name__).partition("\n")[0]
        if configs := re.search(r"pick one among the available configs: (\[.*\])", str(error)):
            reason = f"it has configurations, {configs[1]}: name one, {name}:CONFIG:{split or 'train'}"
        raise InputError(f"{source}: {missing}not readable as a hub dataset: {reason}") from None
    for number, fields in enumerate(rows, start=1):
        yield Row(number, without_gaps(dict(fields)))
