"""Every YAML as a frozen pydantic model; overrides; did-you-mean."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.config.errors import InputError, did_you_mean, nearest_or_all

if TYPE_CHECKING:
    from holdfast.config.loading import dump_config, load_config
    from holdfast.config.training import TrainConfig

__all__ = ["InputError", "TrainConfig", "did_you_mean", "dump_config", "load_config", "nearest_or_all"]

_LATER = {"TrainConfig": "training", "dump_config": "loading", "load_config": "loading"}


def __getattr__(name: str) -> Any:
    """pydantic takes a tenth of a second to import, which `holdfast --help` does not have."""
    if name not in _LATER:
        raise AttributeError(f"module 'holdfast.config' has no attribute '{name}'")
    return getattr(import_module(f"holdfast.config.{_LATER[name]}"), name)
