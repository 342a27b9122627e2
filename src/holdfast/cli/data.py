"""`holdfast validate` and `holdfast tokens`: look at data before training on it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from holdfast.cli.output import check_target, json_option, write_json
from holdfast.config.errors import InputError

if TYPE_CHECKING:
    from holdfast.data import Dataset


def validate(
    file: Annotated[
        str, typer.Argument(help="A .jsonl, .json, .csv or .parquet file (.gz too), a hub dataset, or world:...")
    ],
    skip_bad: Annotated[int, typer.Option(min=0, help="Allow up to this many bad rows; they are counted")] = 0,
    model: Annotated[str | None, typer.Option(help="Check too that this model's tokenizer can read every row")] = None,
    json: json_option = None,
) -> None:
    """Read a dataset, say its format aloud, and report every bad row with file, line and field."""
    dataset = _read(file, skip_bad)
    if model is not None:
        print(_tokenized(dataset, model, skip_bad), file=sys.stderr)
    for problem in dataset.problems:
        print(f"skipped {problem}", file=sys.stderr)
    summary = {
        "source": dataset.source,
        "format": dataset.format,
        "rows": len(dataset.traces),
        "skipped": dataset.num_skipped,
        "fingerprint": dataset.fingerprint,
    }
    if not write_json(json, summary):
        skipped = f", {dataset.num_skipped} bad rows skipped" if dataset.num_skipped else ""
        print(f"{dataset.sentence}\n{len(dataset.traces)} rows good{skipped}")


def tokens(
    file: Annotated[str, typer.Argument(help="A dataset, as for `holdfast validate`")],
    model: Annotated[str, typer.Option(help="tiny:aligned, a folder, or a hub id: only its tokenizer is loaded")],
    row: Annotated[int, typer.Option(help="Which row, from 0; bad ones that are skipped do not count")] = 0,
    skip_bad: Annotated[int, typer.Option(min=0, help="Allow up to this many bad rows")] = 0,
    html: Annotated[Path | None, typer.Option(help="Write a page instead of printing", callback=check_target)] = None,
    context: Annotated[str, typer.Option(help="soft or hard: what a token sees after an undo")] = "soft",
    max_length: Annotated[
        int | None, typer.Option(min=2, help="Cut as training.max_length does; left out: whole")
    ] = None,
    undo: Annotated[bool, typer.Option(help="Add <UNDO> to the tokenizer if it lacks it")] = True,
) -> None:
    """Show a row as the model will see it, each token coloured by its role; one that training divides, part by part."""
    if context not in ("soft", "hard"):
        raise InputError(f"--context: expected soft or hard, got '{context}'")
    dataset = _read(file, skip_bad)
    if not 0 <= row < len(dataset.traces):
        raise InputError(f"--row {row}: {file} has rows 0 to {len(dataset.traces) - 1}")

    from holdfast.models import load_tokenizer
    from holdfast.tokens import UNDO_TOKEN, render_html, render_terminal, tokenize_all

    tokenizer = load_tokenizer(model)
    if undo and UNDO_TOKEN not in tokenizer.get_vocab():
        tokenizer.add_tokens([UNDO_TOKEN], special_tokens=True)
    rows, report = tokenize_all(
        [dataset.traces[row]],
        tokenizer,
        max_length=max_length,
        context=context,  # type: ignore[arg-type]
        where=[dataset.where(row)],
    )
    print(dataset.sentence)
    if len(rows) > 1 or report.num_cut or report.left_out:
        print(report.sentence)
    if html is None:
        for token_row in rows:
            Console(highlight=False).print(render_terminal(token_row, tokenizer))
    else:
        html.write_text("\n".join(render_html(token_row, tokenizer) for token_row in rows), encoding="utf-8")
        print(f"wrote {html}")


def _tokenized(dataset: Dataset, model: str, skip_bad: int) -> str:
    """What training would make of the rows, in a sentence; raises where it could not."""
    from holdfast.models import load_tokenizer
    from holdfast.tokens import UNDO_TOKEN, tokenize_all

    tokenizer = load_tokenizer(model)
    if UNDO_TOKEN not in tokenizer.get_vocab():
        tokenizer.add_tokens([UNDO_TOKEN], special_tokens=True)
    where = [f"{dataset.source}:{line}" for line in dataset.lines]
    skip_bad -= dataset.num_skipped
    return tokenize_all(dataset.traces, tokenizer, where=where, skip_bad=skip_bad)[1].sentence


def _read(source: str, skip_bad: int = 0) -> Dataset:
    """As a training stream reads it."""
    if source.startswith("world:"):
        from holdfast.worlds import world_traces

        return world_traces(source)
    if source.startswith("prompts:"):
        raise InputError(
            f"{source}: requests only, which your model answers when training begins; there are no rows to show"
        )
    from holdfast.data import read_traces

    return read_traces(source, skip_bad=skip_bad)
