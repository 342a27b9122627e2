"""Every YAML as a frozen pydantic model; overrides; did-you-mean."""

from holdfast.config.errors import InputError, did_you_mean

__all__ = ["InputError", "did_you_mean"]
