"""Clients that wait: httpx by itself gives up after five seconds, which a busy machine may need."""

from collections.abc import Iterator
from functools import partial

import httpx
import pytest

from waiting import PATIENCE


@pytest.fixture(autouse=True, scope="session")
def patient_clients() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("get", "post", "request"):
            patch.setattr(httpx, name, partial(getattr(httpx, name), timeout=PATIENCE))
        yield
