"""The base of every configuration: frozen, nothing unknown allowed."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """A frozen piece of a YAML file; an unknown field is an error, not a comment."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
