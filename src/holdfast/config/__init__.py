"""Every YAML as a frozen pydantic model; overrides; did-you-mean."""

from holdfast.config.errors import InputError, did_you_mean
from holdfast.config.loading import dump_config, load_config
from holdfast.config.training import TrainConfig

__all__ = ["InputError", "TrainConfig", "did_you_mean", "dump_config", "load_config"]
