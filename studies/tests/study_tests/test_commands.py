"""The verbs of the studies: holdfast knows them all where the studies are not installed."""

from __future__ import annotations

import typer

from holdfast.cli.commands import OF_THE_STUDIES
from holdfast_studies.cli import register


def test_every_verb_is_on_the_list_of_those_that_may_be_missing() -> None:
    places = {group: typer.Typer() for group in OF_THE_STUDIES}
    register(places[""], places)
    verbs = {group: {command.name for command in place.registered_commands} for group, place in places.items()}
    assert verbs == {group: set(names) for group, names in OF_THE_STUDIES.items()}
