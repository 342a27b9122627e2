"""`holdfast diagnose attribution FILE --model M --anchor A`: which tokens each objective's gradient comes from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.output import check_target, json_option, write_json
from holdfast.cli.progress import progress_bar


def attribution(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Responses with reference answers, as for `diagnose calibration`")],
    model: Annotated[str, typer.Option(help="tiny:aligned, a folder, an adapter's folder, or a hub id")],
    anchor: Annotated[str | None, typer.Option(help="The reference model of KL, csft and csft_pa")] = None,
    old: Annotated[str | None, typer.Option(help="The model that wrote the responses, for ratio and clipping")] = None,
    objective: Annotated[list[str] | None, typer.Option(help="Which objectives; default: all")] = None,
    extract: Annotated[str, typer.Option(help="What an answer is: number, boxed, choice, code, product")] = "number",
    base: Annotated[int, typer.Option(help="With --extract product: the base it counts in", min=2)] = 5,
    markers: Annotated[Path | None, typer.Option(help="File of phrases (regular expressions), one a line")] = None,
    resample: Annotated[str | None, typer.Option(help="Split exactly, at this token, instead of at phrases")] = None,
    stop: Annotated[str | None, typer.Option(help="With --resample: the token that ends a response")] = None,
    limit: Annotated[int, typer.Option(help="Use so many responses", min=1)] = 64,
    max_length: Annotated[int, typer.Option(help="Tokens of a row; the rest is cut", min=8)] = 1024,
    batch_size: Annotated[int, typer.Option(help="Rows per forward", min=1)] = 8,
    sketch: Annotated[int | None, typer.Option(help="Keep sketches of gradients, of this size", min=1)] = None,
    growth: Annotated[bool, typer.Option(help="Fit the sampling/decision ratio against attempt length")] = True,
    results: Annotated[
        Path | None, typer.Option(help="Write the table here, between the marks 'attribution'", callback=check_target)
    ] = None,
    json: json_option = None,
) -> None:
    """Each objective's gradient by role: norm, norm per token, cosine with the whole, share; and how it grows with length."""
    from holdfast.data import write_between_marks
    from holdfast.diagnostics import attribute_transcripts, read_transcripts
    from holdfast.diagnostics.attribution_page import page
    from holdfast.models import load

    read, policy = read_transcripts(file), load(model, dtype="float32", trainable=True)
    typer.echo(f"{read.sentence}\n{policy.sentence}", err=True)
    with progress_bar("gradients by role") as on_progress:
        attributed = attribute_transcripts(
            policy,
            read.transcripts,
            anchor=anchor,
            old=old,
            objectives=objective,
            extract=extract,
            base=base,
            markers=markers,
            resample=resample,
            stop=stop,
            limit=limit,
            max_length=max_length,
            batch_size=batch_size,
            sketch=sketch,
            growth=growth,
            on_progress=on_progress,
        )
    report = attributed.row()
    if results is not None:
        write_between_marks(results, page(report, _command(file, context)), "attribution")
    if not write_json(json, report):
        _print(report)


def _command(file: Path, context: typer.Context) -> str:
    """The command as it was given, without the options that only say where figures go."""
    parts = ["holdfast", "diagnose", "attribution", str(file)]
    for option in context.command.params:
        name, source = option.name or "", context.get_parameter_source(option.name or "")
        if name in ("file", "json", "results") or source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        if isinstance(value, bool):
            parts.append(option.opts[0] if value else option.secondary_opts[0])
        else:
            for item in value if isinstance(value, list | tuple) else [value]:
                parts += [option.opts[0], str(item)]
    return shlex.join(parts)


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table("objective", "role", "tokens", "norm", "per token", "cosine", "share", box=None)
    for row in report["rows"]:
        figures = [f"{row['norm']:.3g}", f"{row['per_token_norm']:.3g}"]
        figures += ["-" if row[name] is None else f"{row[name]:.3f}" for name in ("cosine", "share")]
        table.add_row(row["objective"], row["role"], str(row["tokens"]), *figures)
    console.print(table)
    console.print("\nexpected gradient of each objective, over responses of the policy itself:")
    for name, expected in {row["objective"]: row["expected"] for row in report["rows"]}.items():
        console.print(f"  {name}: {expected}", markup=False)
    for law in report["growth"]:
        interval = "" if law["low"] is None else f" [{law['low']:.2f}, {law['high']:.2f}]"
        console.print(
            f"|sampling| / |decision| of {law['objective']} ~ L^{law['exponent']:.2f}{interval}", markup=False
        )
    cost = report["cost"]
    console.print(
        f"cost: {cost['forward_seconds']:.1f} s of forwards, {cost['backwards']} backwards in {cost['backward_seconds']:.1f} s,"
        f" {cost['parameters']} parameters",
        markup=False,
    )
