"""`holdfast validate` and `holdfast tokens`: look at data before training on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from holdfast.cli.output import check_target, json_option, write_json
from holdfast.config.errors import InputError

if TYPE_CHECKING:
    from holdfast.records import Dataset


def validate(
    file: Annotated[
        str, typer.Argument(help="A .jsonl, .json, .csv or .parquet file (.gz too), a hub dataset, or world:...")
    ],
    skip_bad: Annotated[int, typer.Option(help="Allow up to this many bad rows; they are counted")] = 0,
    json: json_option = None,
) -> None:
    """Read a dataset, say its format aloud, and report every bad row with file, line and field."""
    dataset = _read(file, skip_bad)
    console = Console(highlight=False)
    for problem in dataset.problems:
        console.print(f"skipped {problem}", markup=False)
    summary = {
        "source": dataset.source,
        "format": dataset.format,
        "rows": len(dataset.traces),
        "skipped": dataset.num_skipped,
        "fingerprint": dataset.fingerprint,
    }
    if not write_json(json, summary):
        skipped = f", {dataset.num_skipped} bad rows skipped" if dataset.num_skipped else ""
        console.print(f"{dataset.sentence}\n{len(dataset.traces)} rows good{skipped}", markup=False)


def tokens(
    file: Annotated[str, typer.Argument(help="A dataset, as for `holdfast validate`")],
    model: Annotated[str, typer.Option(help="tiny:aligned, a folder, or a hub id: only its tokenizer is loaded")],
    row: Annotated[int, typer.Option(help="Which row, from 0")] = 0,
    html: Annotated[Path | None, typer.Option(help="Write a page instead of printing", callback=check_target)] = None,
    context: Annotated[str, typer.Option(help="soft or hard: what a token sees after an undo")] = "soft",
    undo: Annotated[bool, typer.Option(help="Add <UNDO> to the tokenizer if it lacks it")] = True,
) -> None:
    """Show a row as the model will see it, each token coloured by its role."""
    if context not in ("soft", "hard"):
        raise InputError(f"--context: expected soft or hard, got '{context}'")
    dataset = _read(file)
    if not 0 <= row < len(dataset.traces):
        raise InputError(f"--row {row}: {file} has rows 0 to {len(dataset.traces) - 1}")

    from holdfast.models import load_tokenizer
    from holdfast.tokens import UNDO_TOKEN, render_html, render_terminal, tokenize

    tokenizer = load_tokenizer(model)
    if undo and UNDO_TOKEN not in tokenizer.get_vocab():
        tokenizer.add_tokens([UNDO_TOKEN], special_tokens=True)
    token_row = tokenize(dataset.traces[row], tokenizer, context=context)  # type: ignore[arg-type]
    console = Console(highlight=False)
    if html is None:
        console.print(dataset.sentence, markup=False)
        console.print(render_terminal(token_row, tokenizer))
    else:
        html.write_text(render_html(token_row, tokenizer), encoding="utf-8")
        console.print(f"wrote {html}", markup=False)


def _read(source: str, skip_bad: int = 0) -> Dataset:
    """As a training stream reads it."""
    if source.startswith("world:"):
        from holdfast.worlds import world_traces

        return world_traces(source)
    if source.startswith("prompts:"):
        raise InputError(
            f"{source}: requests only, which your model answers when training begins; there are no rows to show"
        )
    from holdfast.records import read_traces

    return read_traces(source, skip_bad=skip_bad)
