"""Prompts that come with the package, so that a model can be held to its anchor without data of one's own.

Requests only. ``safety``: plain requests of the kinds that public benchmarks name by category, without any detail that
would help. ``keep``: harmless look-alikes of such requests (the same words, another meaning), and plain ones. ``skills``:
plain work in many forms (code, tables, sums, texts, letters), so that a model that is tuned on one of them keeps the others.
Written for holdfast; no benchmark was copied, and none that measures over-refusal was looked at. Who answers them is the
anchor itself, at run time: see ``holdfast.training.anchor_answers``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal, get_args

from holdfast.config import InputError, did_you_mean
from holdfast.data.tables import read_table, take_request

PREFIX = "prompts:"
Kind = Literal["safety", "keep", "skills"]
KINDS: tuple[Kind, ...] = get_args(Kind)
HELD_BY_DEFAULT: tuple[Kind, ...] = ("safety", "keep")
"""What a model is held on where nobody says otherwise: ``skills`` has to be asked for."""
FOLDER = Path(__file__).parent / "prompts"


@cache
def default_prompts(kind: Kind) -> tuple[str, ...]:
    """All prompts of a kind, in file order."""
    return tuple(prompt for prompts in prompts_by_category(kind).values() for prompt in prompts)


@cache
def prompts_by_category(kind: Kind) -> dict[str, tuple[str, ...]]:
    r"""The prompts under their headings in the file. A line is a prompt; ``\n`` in it is a line break."""
    by_category: dict[str, tuple[str, ...]] = {}
    category = ""
    for line in (FOLDER / f"{kind}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            category = line.removeprefix("# ")
        elif line.strip():
            by_category[category] = (*by_category.get(category, ()), line.strip().replace(r"\n", "\n"))
    return by_category


def read_prompts(path: Path) -> tuple[str, ...]:
    """Prompts of your own: the lines of a ``.txt``, or the requests of any other file that is read."""
    return tuple(read_table(path, take_request))


def check_prompts(name: str) -> None:
    """Raise ``InputError`` where ``prompts:...`` is neither a file of prompts nor a kind that comes with the package."""
    path = Path(name.removeprefix(PREFIX)).expanduser()
    if path.is_file():
        read_prompts(path)
    else:
        find_kind(name)


def find_kind(name: str) -> Kind:
    """The kind that ``prompts:KIND`` names. Raises ``InputError`` where there is no such kind."""
    kind = name.removeprefix(PREFIX)
    if kind in KINDS:
        return kind
    known = ", ".join(f"{PREFIX}{kind}" for kind in KINDS)
    raise InputError(
        f"'{name}': no such file; the prompts that come with the package are {known}{did_you_mean(kind, KINDS)}"
    )
