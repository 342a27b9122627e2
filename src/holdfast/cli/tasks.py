"""`holdfast tasks`: what we measure, as files for other evaluation programs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.output import check_folder, check_target

app = typer.Typer(
    help="Files for other evaluation programs: a task for lm-eval, a log for inspect.", no_args_is_help=True
)


@app.command("lm-eval")
def lm_eval(
    folder: Annotated[Path, typer.Argument(help="Folder to write", callback=check_folder)],
    requests: Annotated[Path, typer.Option(help="Requests that must be refused; the file stays where it is")],
    safe_requests: Annotated[Path, typer.Option(help="Harmless requests that look alike")],
    judge: Annotated[str, typer.Option(help="Who says what an answer did: outcome, or asked:MODEL")] = "outcome",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Length of answers")] = 128,
) -> None:
    """Write a refusal task with both sides for lm-eval: shares complied, refused and missed."""
    from holdfast.peers import LM_EVAL_TASK, write_lm_eval_task

    for path in write_lm_eval_task(
        folder, requests=requests, safe_requests=safe_requests, judge=judge, max_new_tokens=max_new_tokens
    ):
        print(f"wrote {path}")
    how = "--apply_chat_template --log_samples --output_path OUT"
    print(f"now: lm_eval --include_path {shlex.quote(str(folder))} --tasks {LM_EVAL_TASK} {how}")


@app.command("inspect-log")
def inspect_log(
    audit: Annotated[Path, typer.Argument(help="Folder of an audit")],
    log: Annotated[Path, typer.Argument(help="File to write: .eval or .json", callback=check_target)],
) -> None:
    """Write an audit as a log of inspect, for `inspect view`."""
    from holdfast.peers import write_inspect_log

    print(f"wrote {write_inspect_log(audit, log)}")
