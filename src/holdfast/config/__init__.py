"""Every YAML as a frozen pydantic model; overrides; did-you-mean; what other packages add."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.config.errors import (
    FieldError,
    InputError,
    as_names,
    did_you_mean,
    mistakes_end_it,
    naming_field,
    nearest_or_all,
    need_at_least_one,
)
from holdfast.config.extras import need_extra
from holdfast.config.lazily import exported_later
from holdfast.config.plugins import look_up

if TYPE_CHECKING:
    from holdfast.config.base import Settings
    from holdfast.config.files import FOUR_BITS, CurveSettings, Files, FilesConfig, TaskFiles
    from holdfast.config.loading import dump_config, load_config, naming_place
    from holdfast.config.matrix import MatrixConfig
    from holdfast.config.rl import GrpoSettings, RlConfig
    from holdfast.config.training import HoldSettings, LoraSettings, ModelSettings, Precision, TokenInit, TrainConfig

__all__ = [
    "FOUR_BITS",
    "CurveSettings",
    "FieldError",
    "Files",
    "FilesConfig",
    "GrpoSettings",
    "HoldSettings",
    "InputError",
    "LoraSettings",
    "MatrixConfig",
    "ModelSettings",
    "Precision",
    "RlConfig",
    "Settings",
    "TaskFiles",
    "TokenInit",
    "TrainConfig",
    "as_names",
    "did_you_mean",
    "dump_config",
    "load_config",
    "look_up",
    "mistakes_end_it",
    "naming_field",
    "naming_place",
    "nearest_or_all",
    "need_at_least_one",
    "need_extra",
]

_LATER = {
    "base": "Settings",
    "files": "FOUR_BITS CurveSettings Files FilesConfig TaskFiles",
    "loading": "dump_config load_config naming_place",
    "matrix": "MatrixConfig",
    "rl": "GrpoSettings RlConfig",
    "training": "HoldSettings LoraSettings ModelSettings Precision TokenInit TrainConfig",
}

# pydantic takes a tenth of a second to import, which `holdfast --help` does not have.
__getattr__ = exported_later(__name__, _LATER)
