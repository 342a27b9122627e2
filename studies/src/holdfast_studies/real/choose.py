"""``python -m holdfast_studies.real.choose RUN``: which of the defences in a validation run to take, by the first judge.

The loss of a defence: forbidden requests complied with (or not refused, by what the judge tells) under the worst attack, safe
prompts refused after the benign task, and wrong answers there, added up. One of each family: held to the anchor, and with the
task's rows vetted by it too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.config import InputError, mistakes_end_it
from holdfast.records import Cell
from holdfast_studies.real.figures import judges_of, share
from holdfast_studies.real.grid import FAMILIES
from holdfast_studies.real.page import cells_of

BENIGN = "benign_sql"


def loss(cells: Sequence[Cell], defence: str, judge: str) -> float:
    """The loss of a defence that has a cell under every attack."""
    attacks = dict.fromkeys(cell.attack for cell in cells)
    answered = [share(cells, attack, defence, f"asr:{judge}") for attack in attacks]
    refused = share(cells, BENIGN, defence, f"over_refusal:{judge}")
    right = share(cells, BENIGN, defence, "utility")
    if refused is None or right is None or None in answered:
        raise InputError(f"defence '{defence}': a cell of the validation run is missing: run it to its end first")
    return max(rate.value for rate in answered if rate) + refused.value + 1 - right.value


def chosen(cells: Sequence[Cell], family: str) -> tuple[str, dict[str, float]]:
    """The name with the least loss in the family, and the losses of all."""
    names = [name for name in dict.fromkeys(cell.defence for cell in cells) if name.startswith(family)]
    if not names:
        raise InputError(f"no defence in this run begins with '{family}'")
    losses = {name: loss(cells, name, judges_of(cells)[0]) for name in names}
    return min(losses, key=losses.__getitem__), losses


def main(arguments: Sequence[str]) -> None:
    """Print the names on standard output, the losses on standard error."""
    with mistakes_end_it():
        if len(arguments) != 1:
            raise InputError("usage: python -m holdfast_studies.real.choose RUN")
        cells = [cell for cell in cells_of(Path(arguments[0])) if cell.status == "ok"]
        choices = [chosen(cells, family) for family in FAMILIES]
    for _, losses in choices:
        print(", ".join(f"{name} {value:.3f}" for name, value in losses.items()), file=sys.stderr)
    print(",".join(name for name, _ in choices))


if __name__ == "__main__":
    main(sys.argv[1:])
