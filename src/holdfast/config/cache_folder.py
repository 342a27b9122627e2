"""Where files are kept that any run can make anew: unpacked models, and the anchor's answers."""

from __future__ import annotations

import os
from pathlib import Path

PLACE = "HOLDFAST_CACHE"
"""Environment variable with another place than ``~/.cache/holdfast``."""


def cache_folder() -> Path:
    """``HOLDFAST_CACHE``, or ``holdfast`` in the system's folder for caches. It need not be there."""
    root = os.environ.get(PLACE) or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "holdfast")
    return Path(root).expanduser()
