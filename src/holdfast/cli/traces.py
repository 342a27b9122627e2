"""`holdfast traces make`: right answers become answers with mistakes that are taken back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from holdfast.cli.output import check_target, json_option, write_json
from holdfast.cli.progress import progress_bar
from holdfast.config.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.records import Trace
    from holdfast.traces import Builder

app = typer.Typer(no_args_is_help=True)
BuilderName = Literal["align", "perturb", "random", "refusal"]


@app.callback()
def group() -> None:
    """Backtrack traces: prefix, error, <UNDO>, correction."""


@app.command()
def make(
    data: Annotated[
        str, typer.Argument(help="Right answers: a dataset, world:..., sql:FILE, gsm8k:FILE, arithmetic:train")
    ],
    out: Annotated[Path, typer.Argument(help="A .jsonl file to write", callback=check_target)],
    builder: Annotated[BuilderName, typer.Option(help="Where the errors come from")] = "perturb",
    model: Annotated[
        str | None, typer.Option(help="align samples from it; random and perturb keep to its words")
    ] = None,
    errors: Annotated[str, typer.Option(help="Errors per answer, MIN-MAX")] = "1-2",
    length: Annotated[str, typer.Option(help="Words per error, MIN-MAX")] = "1-3",
    clean: Annotated[float, typer.Option(help="Share of answers left without an error")] = 0.2,
    starts: Annotated[str | None, typer.Option(help="refusal: a dataset whose answers are the wrong starts")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first rows")] = None,
    temperature: Annotated[float | None, typer.Option(help="align: of its samples; default: 1")] = None,
    seed: Annotated[int, typer.Option(help="Decides everything that is drawn")] = 0,
    json: json_option = None,
) -> None:
    """Write errors into right answers and take them back. Undone, every trace is its reference exactly: checked."""
    from holdfast.traces import Budget, make_traces, read_references, write_made

    if out.exists() and Path(data.rpartition(":")[2]).resolve() == out.resolve():
        raise InputError(f"{out}: the traces would take the place of the right answers that they are made from")
    for option, given, owners in (
        ("--starts", starts, ("refusal",)),
        ("--temperature", temperature, ("align",)),
        ("--model", model, ("align", "random", "perturb")),
    ):
        if given is not None and builder not in owners:
            raise InputError(f"{option}: belongs to --builder {' or '.join(owners)}, not to {builder}")
    budget = Budget(_range("--errors", errors), _range("--length", length))
    rows = read_references(data, limit=limit)
    made = make_traces(
        rows,
        _builder(builder, rows, model, starts, 1.0 if temperature is None else temperature, seed),
        budget=budget,
        clean=clean,
        seed=seed,
    )
    write_made(out, made)
    figures = {
        "traces": len(made.traces),
        "errors": made.num_errors,
        "clean": made.num_kept_clean,
        "without_place": made.num_without_place,
        "file": str(out),
    }
    if not write_json(json, figures):
        Console(highlight=False).print(f"{made.sentence}\nwrote {out}", markup=False)


def _builder(
    name: BuilderName, rows: Sequence[Trace], model: str | None, starts: str | None, temperature: float, seed: int
) -> Builder:
    """Only ``align`` needs the model itself."""
    from transformers.utils import logging as transformers_logging

    from holdfast.models import load, load_tokenizer
    from holdfast.traces import choose_builder

    transformers_logging.disable_progress_bar()
    with progress_bar("finding errors") as on_progress:
        return choose_builder(
            name,
            rows,
            tokenizer=load_tokenizer(model) if model and name in ("random", "perturb") else None,
            model=load(model) if model and name == "align" else None,
            starts=starts,
            temperature=temperature,
            seed=seed,
            on_progress=on_progress,
        )


def _range(option: str, text: str) -> tuple[int, int]:
    low, dash, high = text.partition("-")
    try:
        return int(low), int(high) if dash else int(low)
    except ValueError:
        raise InputError(f"{option}: expected MIN-MAX such as 1-3, or one number; not '{text}'") from None
