"""Figures that pages give about the code."""

from __future__ import annotations

import re

from docs.pages import DOCS, ROOT
from holdfast import __version__
from holdfast.training.checkpoints.durable import POINTS
from holdfast.worlds.lexicon import WORDS


def test_reliability_counts_the_points_of_saving() -> None:
    found = re.search(r"\((\d+) kinds", (DOCS / "reliability.md").read_text(encoding="utf-8"))
    assert found
    assert int(found[1]) == len(POINTS)


def test_the_world_is_as_large_as_it_is_said_to_be() -> None:
    found = re.search(r"some (\d+) words", (DOCS / "threat-model.md").read_text(encoding="utf-8"))
    assert found
    assert abs(len(WORDS) - int(found[1])) < 50


def test_the_changelog_begins_with_this_version() -> None:
    found = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    assert found[1] == __version__
