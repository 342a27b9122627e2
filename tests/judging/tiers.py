"""The isolation tiers of this machine, as parameters: a missing one is skipped with the command that brings it."""

import functools
from typing import Any

import pytest

from holdfast.judging.sandbox import CONFINED, NoIsolationError, WarmSandbox


def each_tier() -> list[Any]:
    return [pytest.param(tier, marks=pytest.mark.skipif(bool(why := _why_not(tier)), reason=why)) for tier in CONFINED]


@functools.cache
def _why_not(tier: Any) -> str:
    try:
        WarmSandbox(tier).close()
    except NoIsolationError as error:
        return str(error)
    return ""
