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
    from transformers import PreTrainedTokenizerBase

    from holdfast.data import Dataset
    from holdfast.tokens import TruncationReport


def validate(
    file: Annotated[
        str,
        typer.Argument(
            help="A .jsonl, .json, .csv or .parquet file (.gz too), a folder or glob of them, a folder of `save_to_disk`, "
            "a hub dataset, or world:..."
        ),
    ],
    model: Annotated[
        str | None, typer.Option(help="Try every row in this model's chat template too: a folder or a hub id")
    ] = None,
    skip_bad: Annotated[int, typer.Option(min=0, help="Allow up to this many bad rows; they are counted")] = 0,
    json: json_option = None,
) -> None:
    """Read a dataset, say its format aloud, and report every bad row with file, line and field."""
    from holdfast.judging import missing_instruction

    dataset = _read(file, skip_bad)
    report = None if model is None else _tokenized(dataset, model, skip_bad - dataset.num_skipped)
    refused = report.problems if report else ()  # by the chat template
    for problem in (*dataset.problems, *refused):
        print(f"skipped {problem}", file=sys.stderr)
    summary = {
        "source": dataset.source,
        "format": dataset.format,
        "rows": len(dataset.traces) - len(refused),
        "skipped": dataset.num_skipped + len(refused),
        "fingerprint": dataset.fingerprint,
    }
    if report is not None:
        summary["token_rows"] = report.num_rows
    if hint := missing_instruction(dataset.traces):
        summary["hint"] = hint
    if not write_json(json, summary):
        print(dataset.sentence)
        if report is not None:
            print(f"{model}: {report.sentence}")
        skipped = f", {summary['skipped']} bad rows skipped" if summary["skipped"] else ""
        print(f"{summary['rows']} rows good{skipped}")
        if hint:
            print(f"hint: {hint}")


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
    train_on_prompt: Annotated[
        bool, typer.Option(help="As a stream with train_on_prompt: the prompt is trained")
    ] = False,
) -> None:
    """Show a row as the model will see it, each token coloured by its role; one that training divides, part by part."""
    if context not in ("soft", "hard"):
        raise InputError(f"--context: expected soft or hard, got '{context}'")
    dataset = _read(file, skip_bad)
    if not 0 <= row < len(dataset.traces):
        raise InputError(f"--row {row}: {file} has rows 0 to {len(dataset.traces) - 1}")

    from holdfast.tokens import render_html, render_terminal, tokenize_all

    tokenizer = _tokenizer(model, undo)
    rows, report = tokenize_all(
        [dataset.traces[row]],
        tokenizer,
        max_length=max_length,
        context=context,  # type: ignore[arg-type]
        train_on_prompt=train_on_prompt,
        where=lambda _: dataset.where(row),
    )
    print(dataset.sentence)
    if len(rows) > 1 or report.num_cut or report.left_out or report.stops:
        print(report.sentence)
    if html is None:
        for token_row in rows:
            Console(highlight=False).print(render_terminal(token_row, tokenizer))
    else:
        html.write_text("\n".join(render_html(token_row, tokenizer) for token_row in rows), encoding="utf-8")
        print(f"wrote {html}")


def _tokenizer(model: str, undo: bool = True) -> PreTrainedTokenizerBase:
    from holdfast.models import load_tokenizer
    from holdfast.tokens import UNDO_TOKEN

    tokenizer = load_tokenizer(model)
    if undo and UNDO_TOKEN not in tokenizer.get_vocab():
        tokenizer.add_tokens([UNDO_TOKEN], special_tokens=True)
    return tokenizer


def _tokenized(dataset: Dataset, model: str, skip_bad: int) -> TruncationReport:
    from holdfast.tokens import tokenize_all

    return tokenize_all(dataset.traces, _tokenizer(model), where=dataset.where, skip_bad=skip_bad)[1]


def _read(source: str, skip_bad: int = 0) -> Dataset:
    """Read a dataset as a training stream reads it."""
    if source.startswith("world:"):
        from holdfast.worlds import world_traces

        return world_traces(source)
    from holdfast.data import read_traces

    return read_traces(source, skip_bad=skip_bad)
