"""[001] on a model that writes code. Settings are changed by ``key=value``.

    python -m holdfast_studies.choosing plan   CONFIG model=M.gguf data=FOLDER
    python -m holdfast_studies.choosing sample CONFIG model=M.gguf data=FOLDER [pack=pools.tar.gz]
    python -m holdfast_studies.choosing score  CONFIG model=M.gguf data=FOLDER [pack=pools.tar.gz] [page=FILE]
    python -m holdfast_studies.choosing page   CONFIG page=FILE

``plan`` says what sampling costs. ``sample`` draws the pools that are missing: it wants a GPU and no sandbox; ``pack`` is one
file with all of them, written anew as they grow, and where it is there already sampling goes on from it. ``score`` runs the
programs in the sandbox and counts: it wants no GPU and no model. ``page`` writes the section of the page from the figures.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from holdfast.config import InputError, load_config, mistakes_end_it
from holdfast_studies.choosing.config import ChoosingConfig, plan
from holdfast_studies.choosing.page import write_page
from holdfast_studies.choosing.results import score
from holdfast_studies.choosing.sample import sample, unpack
from holdfast_studies.study_words import read_words, unless_given

VERBS = ("plan", "sample", "score", "page")
OWN = ("page", "pack")
PLACES = ("model=", "data=", "packages=")  # on one machine: a page does not name them


def main(arguments: Sequence[str]) -> None:
    """Run one verb."""
    verb, path, words, changes = read_words("choosing", arguments, VERBS, OWN)
    own = {key: Path(value) for key, value in words.items()}
    if verb == "page":
        if "page" not in own:
            raise InputError("page: say which file: page=FILE")
        changes = unless_given(changes, "model=none", "data=none")
    config = load_config(ChoosingConfig, Path(path), changes)
    say = partial(print, flush=True)
    if verb == "plan":
        say("\n".join(plan(config)))
    elif verb == "sample":
        sample(config, say, own.get("pack"))
    elif verb == "score":
        if "pack" in own:
            unpack(config, own["pack"])
        score(config, say)
    if "page" in own:
        named = [change for change in changes if not change.startswith(PLACES)]
        write_page(
            config, own["page"], shlex.join(["python", "-m", "holdfast_studies.choosing", "score", path, *named])
        )


if __name__ == "__main__":
    with mistakes_end_it():
        main(sys.argv[1:])
