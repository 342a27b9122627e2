"""What other installed packages add to holdfast: names in its registries, and commands.

A package names a module in the entry point group ``holdfast.plugins``. The module adds to the registries (``ATTACKS``,
``DEFENCES``, ``JUDGES``, ``WORLDS``, ``RL_TASKS``, ...) when it is imported. It is imported the first time a name is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import TypeVar

PLUGINS = "holdfast.plugins"
COMMANDS = "holdfast.commands"
STUDIES = "comes with the studies, in a clone of the repository: pip install -c constraints.txt -e studies"
"""Said of a name that the package holdfast-studies would add."""

Value = TypeVar("Value")


def look_up(registry: Mapping[str, Value], name: str) -> Value | None:
    """The registry's value of that name, plugins included; None where nobody registered it."""
    if name not in registry:
        load_plugins()
    return registry.get(name)


@cache
def load_plugins() -> None:
    """Import every plugin, once."""
    for entry in entry_points(group=PLUGINS):
        entry.load()
