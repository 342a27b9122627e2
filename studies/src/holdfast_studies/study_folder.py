"""A study's folder belongs to its settings: figures made with others must not be shown as theirs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from holdfast.config import InputError, Settings, dump_config
from holdfast.data import atomic_text

FREE = ("run", "title", "seeds", "workers", "micro_batch", "eval_batch", "device", "model.device")


def claim_study(config: Settings, run: str, *, free: Collection[str] = ()) -> None:
    """Write the settings to ``study.yaml``. Raises ``InputError`` where the folder's figures were made with other settings.

    Settings that only say which figures are made, or how fast, may change (FREE and ``free``). So may settings that only one
    side has, such as a new variant.
    """
    path = Path(run) / "study.yaml"
    now: dict[str, Any] = config.model_dump(mode="json")
    is_begun = path.is_file() and any(other != path for other in path.parent.iterdir())
    there = yaml.safe_load(path.read_text(encoding="utf-8")) if is_begun else now
    changed = [line for name, line in _differences(there, now) if name not in {*FREE, *free}]
    if changed:
        raise InputError(
            f"{path}: the figures here were made with other settings; choose another run:, or restore them:\n"
            + "\n".join(f"  {line}" for line in changed)
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_text(path) as file:
        file.write(dump_config(config))


def _differences(there: Mapping[str, Any], now: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """The dotted names of settings that both have and that differ, each with a line about it."""
    for key in [key for key in now if key in there]:
        old, new, name = there[key], now[key], f"{above}{key}"
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differences(old, new, f"{name}.")
        elif old != new:
            yield name, f"{name}: {old} there, {new} now"
