"""`holdfast oversee`: what best-of-n with a safety bar gives (curve), promises (calibrate) and learns (fit-reward)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.output import check_folder, json_option, write_json
from holdfast.config.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from holdfast.oversight.curves import Point
    from holdfast.stats import Estimate, Unknown

app = typer.Typer(no_args_is_help=True, help="Best-of-n with a safety bar: curves over n, guarantees, rewards.")

COLUMNS = ("n", "reward", "gold", "pass@n", "abstains", "E[R*S]", "KL(overseen||base)", "bound", "KL(base||overseen)")


@app.command()
def calibrate(
    file: Annotated[Path, typer.Argument(help="JSONL: unsafe, and score or prompt + response; one row per prompt")],
    n: Annotated[int, typer.Option(min=1, help="Candidates per request")] = 4,
    alpha: Annotated[float, typer.Option(help="The guarantee fails in at most this share of calibrations")] = 0.05,
    threshold: Annotated[
        float | None, typer.Option(help="Safety score from which a candidate passes; default 0.5")
    ] = None,
    target: Annotated[float | None, typer.Option(help="Choose the threshold for this risk of an unsafe answer")] = None,
    judge: Annotated[str | None, typer.Option(help="Score prompt and response with this judge")] = None,
    json: json_option = None,
) -> None:
    """An upper bound on P(unsafe answer returned), or the loosest threshold that keeps a target; exit 1 if none does."""
    if target is not None and not 0 < target < 1:
        raise InputError(f"--target {target}: expected a risk between 0 and 1")
    if target is not None and threshold is not None:
        raise InputError("--target chooses the threshold: leave --threshold out, or --target")
    threshold = 0.5 if threshold is None else threshold
    if not 0 <= threshold <= 1:
        raise InputError(f"--threshold {threshold}: expected a safety score between 0 and 1")
    from holdfast.judging import find_judge
    from holdfast.oversight.bounds import ASSUMPTIONS, Guarantee, choose_threshold, guarantee
    from holdfast.oversight.files import read_calibration

    rows = read_calibration(file, None if judge is None else find_judge(judge))
    counts = {"rows": len(rows.scores), "left_out": rows.num_left_out, "unscored": rows.num_unscored}
    result: dict[str, Any] = {**counts, "assumptions": ASSUMPTIONS}
    made: Guarantee | None
    if target is None:
        made, reason = guarantee(rows.scores, rows.unsafe, n=n, threshold=threshold, alpha=alpha), ""
    else:
        choice = choose_threshold(rows.scores, rows.unsafe, n=n, target=target, alpha=alpha)
        made, reason = choice.guarantee, choice.reason
    result |= {"met": made is not None, "reason": reason, "guarantee": None if made is None else asdict(made)}
    result["statement"] = f"{reason}. Assumed: {ASSUMPTIONS}." if made is None else made.statement()
    if not write_json(json, result):
        if rows.num_left_out:
            print(f"{rows.num_left_out} further rows of the same prompts left out: they are not independent")
        if rows.num_unscored:
            print(f"{rows.num_unscored} answers that the judge could not score count as not passing")
        print(result["statement"])
        if made is not None:
            print(f"{made.passed:.1%} of the calibration candidates pass at this threshold.")
            print(f"To use it: --judge at:{made.threshold:.10g}:{judge or 'JUDGE'}")
    if made is None:
        raise typer.Exit(1)


@app.command()
def curve(
    file: Annotated[Path, typer.Argument(help="JSONL: prompt, reward, safe, perhaps gold; m samples per prompt")],
    n: Annotated[list[int] | None, typer.Option(help="Only these n (repeat the option)")] = None,
    json: json_option = None,
) -> None:
    """Every n from one pool of samples: reward, gold, pass@n, abstention, E[R*S] and how far the model is moved."""
    from holdfast.oversight import curves
    from holdfast.oversight.files import read_pools

    pools = list(read_pools(file).values())
    points = curves.curve(pools, n)
    if write_json(json, [point.row() for point in points]):
        return
    from rich.console import Console

    Console(highlight=False).print(_curve_table(points, len(pools)))


def _curve_table(points: Sequence[Point], num_prompts: int) -> Table:
    """95 % intervals over prompts; KL in nats."""
    from rich.table import Column, Table

    from holdfast.oversight.kl import shown_kl

    title = f"best-of-n with the safety bar, mean over {num_prompts} prompts (95 % interval over prompts)"
    columns = (Column(name, overflow="fold") for name in COLUMNS)  # in a narrow terminal no figure is cut
    table = Table(*columns, box=None, header_style="bold", title=title)
    for point in points:
        table.add_row(
            str(point.n),
            *(_shown(value) for value in (point.reward, point.gold, point.pass_at_n, point.abstention, point.joint)),
            *(shown_kl(value) for value in (point.kl, point.kl_bound, point.kl_reverse)),
        )
    return table


def _shown(estimate: Estimate | Unknown | None) -> str:
    """A value with its interval."""
    from holdfast.stats import Unknown

    if estimate is None:
        return ""
    if isinstance(estimate, Unknown):
        return estimate.why
    if not estimate.has_interval:
        return f"{estimate.value:.3f} (no interval)"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


@app.command("fit-reward")
def fit_reward(
    file: Annotated[Path, typer.Argument(help="JSONL: prompt, response, right")],
    out: Annotated[Path, typer.Option(help="Folder for the head; use it as learned:FOLDER", callback=check_folder)],
) -> None:
    """Train the learned reward: a linear head on sentence embeddings, from right and wrong answers of a training split."""
    from holdfast import judging
    from holdfast.oversight.files import read_labelled

    pairs, right = read_labelled(file)
    head = judging.fit_reward(pairs, right)
    head.save(out)
    print(f"{len(pairs)} answers, {sum(right)} right: wrote {out}")
