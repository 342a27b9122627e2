"""The base of every configuration: frozen, nothing unknown allowed."""

from __future__ import annotations

import os.path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

UserPath = Annotated[str, AfterValidator(os.path.expanduser)]
"""A path, or a name of another kind. A leading ``~`` is the home folder: no shell expands it in ``run=~/mine`` or in YAML."""


class Settings(BaseModel):
    """A frozen piece of a YAML file; an unknown field is an error, not a comment."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
