"""`holdfast diagnose calibration FILE [FILE2]`: does the model know when it is wrong?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.output import as_written, json_option, write_json
from holdfast.stats import Unknown

if TYPE_CHECKING:
    from holdfast.diagnostics.calibration import Calibration
    from holdfast.diagnostics.decomposition import Decomposition

LINES = {
    "p_s": "p_s, first attempt right",
    "p_s_pooled": "p_s pooled over all attempts",
    "p_dC": "p_dC, stops when right",
    "p_dW": "p_dW, tries again when wrong",
    "gain": "p_dC + p_dW - 1 (above 0: reflection pays)",
    "observed": "accuracy observed (cut off = wrong)",
    "observed_stopped": "accuracy of those that stopped",
    "held_out": "accuracy predicted, problems held out",
    "predicted": "accuracy predicted, same problems",
    "wrong_to_right": "F -> T, last right | first wrong",
    "right_to_wrong": "T -> F, last wrong | first right",
    "echo": "echo, same answer again | tried again",
    "cut_off": "cut off",
    "attempts": "attempts per response",
}
IDENTITY = (
    "With p_s pooled over all attempts the formula is an identity: it returns the accuracy of any process whatever, so only "
    "the held-out line, with p_s of first attempts, tests it."
)


def calibration(
    file: Annotated[Path, typer.Argument(help="Responses with reference answers: JSONL, TRL, verl, lm-eval, inspect")],
    other: Annotated[Path | None, typer.Argument(help="A second model on the same problems, to compare with")] = None,
    extract: Annotated[str, typer.Option(help="What an answer is: number, boxed, choice, code, product")] = "number",
    markers: Annotated[Path | None, typer.Option(help="File of phrases (regular expressions), one a line")] = None,
    base: Annotated[int, typer.Option(help="With --extract product: the base it counts in", min=2)] = 5,
    resample: Annotated[str | None, typer.Option(help="Split exactly, at this token, instead of at phrases")] = None,
    stop: Annotated[str | None, typer.Option(help="With --resample: the token that ends a response")] = None,
    response: Annotated[str | None, typer.Option(help="Column of the response")] = None,
    reference: Annotated[str | None, typer.Option(help="Column of the reference answer")] = None,
    problem: Annotated[str | None, typer.Option(help="Column that names the problem")] = None,
    by: Annotated[str | None, typer.Option(help="One table per value of this column")] = None,
    max_attempts: Annotated[int | None, typer.Option(help="Predict for at most so many attempts", min=1)] = None,
    draws: Annotated[int, typer.Option(help="Bootstrap draws", min=100)] = 1000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap")] = 0,
    json: json_option = None,
) -> None:
    """p_s, p_dC, p_dW with intervals, predicted against observed accuracy, and what two models differ by."""
    from holdfast.diagnostics import how_to_split
    from holdfast.diagnostics.from_transcripts import by_group, differ, judge
    from holdfast.diagnostics.transcripts import Columns, read_transcripts

    split, extractor = how_to_split(extract, base=base, markers=markers, resample=resample, stop=stop)
    columns = Columns(response, reference, problem, by)
    rows: list[dict[str, Any]] = []
    judged = {}
    for path in [path for path in (file, other) if path is not None]:
        read = read_transcripts(path, columns)
        typer.echo(read.sentence, err=True)
        for group, transcripts in by_group(read.transcripts).items():
            judged[path, group] = judge(transcripts, split, extractor)
            figures = judged[path, group].calibrate(max_attempts=max_attempts, draws=draws, seed=seed)
            rows.append({"file": str(path), "group": group, "figures": figures})
    differences: list[dict[str, Any]] = [
        {"group": group, "parts": differ(judged[file, group], second, draws=draws, seed=seed)}
        for (path, group), second in judged.items()
        if path == other and (file, group) in judged
    ]
    shown = [{**row, "figures": row["figures"].row()} for row in rows]
    parts = [{**row, "parts": row["parts"].row()} for row in differences]
    if not write_json(json, {"calibration": shown, "decomposition": parts}):
        _print(rows, differences)


def _print(rows: list[dict[str, Any]], differences: list[dict[str, Any]]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for row in rows:
        name = row["file"] + (f", {row['group']}" if row["group"] else "")
        console.print(_table(row["figures"], name))
        console.print(_verdict(row["figures"]), markup=False)
        console.print()
    for row in differences:
        console.print(_parts_table(row["parts"], row["group"]))
        console.print()
    console.print(IDENTITY, markup=False)


def _table(figures: Calibration, name: str) -> Any:
    from rich.table import Table

    from holdfast.diagnostics.calibration import normal_interval

    table = Table(
        "", "value", "95 % (bootstrap)", "95 % (normal)", "of", title=as_written(name), title_justify="left", box=None
    )
    for field, line in LINES.items():
        figure = getattr(figures, field)
        if isinstance(figure, Unknown):
            table.add_row(line, "-", figure.why)
            continue
        interval = f"{figure.low:.3f} to {figure.high:.3f}" if figure.has_interval else ""
        ends = normal_interval(figure)
        normal, trials = ("", "") if ends is None else (f"{ends[0]:.3f} to {ends[1]:.3f}", str(figure.n))
        table.add_row(line, f"{figure.value:.3f}", interval, normal, trials)
    return table


def _verdict(figures: Calibration) -> str:
    gain = figures.gain
    if isinstance(gain, Unknown):
        verdict = f"whether reflection pays is unknown ({gain})"
    elif gain.has_interval and gain.low > 0:
        verdict = "reflection pays"
    elif gain.has_interval and gain.high < 0:
        verdict = "reflection costs: stopping after the first attempt would be right more often"
    else:
        verdict = "not shown whether reflection pays: the interval of p_dC + p_dW - 1 includes 0"
    error = figures.held_out_error
    return verdict if error is None else f"{verdict}; held-out prediction minus observed: {error:+.3f}"


def _parts_table(parts: Decomposition, group: str) -> Any:
    from rich.table import Table

    title = "second minus first" + (f", {group}" if group else "")
    table = Table("", "sampling", "decision", title=as_written(title), title_justify="left", box=None)
    table.add_row("sampling exchanged first", str(parts.sampling_first), str(parts.decision_second))
    table.add_row("decision exchanged first", str(parts.sampling_second), str(parts.decision_first))
    table.add_row("mean of the two (Shapley)", str(parts.sampling), str(parts.decision))
    table.add_row(f"in all {parts.total}; observed {parts.observed}")
    return table
