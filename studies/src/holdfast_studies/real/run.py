"""``python -m holdfast_studies.real.run CONFIG key=value ... [page=FILE]``: the matrix with one line per cell, then its page.

The same engine and the same cells as `holdfast attack CONFIG`; for machines without the command line's packages.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.attacks import run_config
from holdfast.config import InputError, MatrixConfig, load_config, mistakes_end_it
from holdfast.data import atomic_text
from holdfast.records import Cell, unsafe_means
from holdfast_studies.real.page import page


def run(config: MatrixConfig) -> list[Cell]:
    """Run the cells that are missing, and print a line for each."""
    if config.files is None:
        raise InputError(
            "field 'files': expected the files of a real model's matrix: `holdfast recipes matrix_real` shows them"
        )
    started = time.monotonic()

    def on_cell(cell: Cell, done: int, total: int) -> None:
        outcome = "failed: " + cell.reason if cell.asr is None else f"{unsafe_means(cell.judge)} {cell.asr.value:.1%}"
        names = f"{cell.attack} x {cell.defence} seed {cell.seed}"
        print(f"{time.monotonic() - started:6.0f}s {done}/{total} {names}: {outcome} ({cell.seconds:.0f}s)", flush=True)

    return list(run_config(config, on_cell=on_cell).cells)


def main(arguments: Sequence[str]) -> None:
    """Run the matrix of CONFIG, and write its page into FILE or print it."""
    out = next((word.removeprefix("page=") for word in arguments if word.startswith("page=")), None)
    overrides = [word for word in arguments[1:] if not word.startswith("page=")]
    with mistakes_end_it():
        if not arguments:
            raise InputError("usage: python -m holdfast_studies.real.run CONFIG [key=value ...] [page=FILE]")
        config = load_config(MatrixConfig, Path(arguments[0]), overrides)
        text = page(
            run(config),
            f"python -m holdfast_studies.real.run {' '.join(arguments)}",
            Path(config.model).parent / "align.json",
            config.model if config.files is None else config.files.stock,
        )
        if out is None:
            print(text)
        else:
            with atomic_text(Path(out)) as file:
                file.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
