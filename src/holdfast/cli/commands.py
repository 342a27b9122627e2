"""Verbs that other installed packages add, and one clear line for those of our studies where they are not installed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import entry_points

import typer

from holdfast.config.errors import InputError
from holdfast.config.plugins import COMMANDS, STUDIES

OF_THE_STUDIES = {
    "": ("reproduce",),
    "oversee": ("study",),
    "diagnose": ("checks", "decisions", "safety-gap", "theory", "undo-costs", "undo-defence", "wrong-start"),
}
"""Group -> verbs of the package holdfast-studies."""


def add_installed(app: typer.Typer, groups: Mapping[str, typer.Typer]) -> None:
    """Call ``register(app, groups)`` of every entry point of the group ``holdfast.commands``."""
    for entry in entry_points(group=COMMANDS):
        try:
            entry.load()(app, groups)
        except ImportError as error:  # of another version than ours: the product goes on without it
            print(f"holdfast: the commands of {entry.value} are left out: {error}", file=sys.stderr)
    known = {command.name for place in (app, *groups.values()) for command in place.registered_commands}
    for group, verbs in OF_THE_STUDIES.items():
        for verb in verbs:
            if verb not in known:
                _say_how_to_install(groups[group] if group else app, f"{group} {verb}".strip())


def _say_how_to_install(place: typer.Typer, verb: str) -> None:
    settings = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

    @place.command(verb.split()[-1], hidden=True, context_settings=settings)
    def missing() -> None:
        raise InputError(f"`holdfast {verb}` {STUDIES}")
