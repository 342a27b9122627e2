"""Parameters that stay as they are (``training.freeze``): lower layers keep what they know, and cost no gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from holdfast.config import InputError, did_you_mean


def freeze(model: Any, patterns: Sequence[str], say: Callable[[str], None]) -> None:
    """Those whose names match a pattern, such as ``model.layers.[0-9].*``. A tied head goes with its embedding."""
    parameters = dict(model.named_parameters())
    for pattern in patterns:
        matched = [name for name in parameters if fnmatchcase(name, pattern)]
        if not matched:
            raise InputError(
                f"field 'training.freeze': no parameter is called '{pattern}'"
                f"{did_you_mean(pattern, parameters) or '; the first is ' + next(iter(parameters))}"
            )
        for name in matched:
            parameters[name].requires_grad_(False)
    frozen = sum(each.numel() for each in parameters.values() if not each.requires_grad)
    total = sum(each.numel() for each in parameters.values())
    if frozen == total:
        raise InputError("field 'training.freeze': nothing is left to train")
    say(f"frozen: {frozen:,} of {total:,} parameters")
