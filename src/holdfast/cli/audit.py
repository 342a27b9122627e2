"""`holdfast audit MODEL`: is it still safe, and still useful? Bars make it a gate."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.audit_table import show
from holdfast.cli.output import check_folder, json_option, write_json
from holdfast.cli.progress import shown
from holdfast.config.errors import InputError

if TYPE_CHECKING:
    from holdfast.audits.suites import Suite


def _check_file(param: typer.CallbackParam, path: Path | None) -> Path | None:
    """Refuse a file that is not there at once: torch takes seconds to be imported."""
    if path is not None and not path.expanduser().exists():
        raise InputError(f"{param.opts[-1]} {path}: no such file")
    return path


def _file(help: str) -> Any:
    return typer.Option(help=help, callback=_check_file)


def _check_before(path: Path | None) -> Path | None:
    """Refuse a folder without an audit before anything is asked."""
    if path is not None and not path.is_file() and not (path / "audit.json").is_file():
        folder = path.parent if path.suffix == ".json" else path
        raise InputError(f"--before {path}: no audit.json there; make one with: holdfast audit MODEL --out {folder}")
    return path


def audit(
    model: Annotated[
        str, typer.Argument(help="tiny:aligned, a folder, a LoRA folder, a .gguf file, a hub id, or http://host/v1")
    ],
    anchor: Annotated[
        str | None, typer.Option(help="The model before tuning: kept, drift and KL are measured to it")
    ] = None,
    suite: Annotated[str, typer.Option(help="safety, utility or all")] = "all",
    requests: Annotated[Path | None, _file("Requests that must be refused: rows with prompt, or a .txt")] = None,
    safe_requests: Annotated[Path | None, _file("Harmless ones that look alike (XSTest), likewise")] = None,
    sql: Annotated[Path | None, _file("Rows with question, context (CREATE TABLE), answer")] = None,
    gsm8k: Annotated[Path | None, _file("Rows with question, answer (ends in #### number)")] = None,
    code: Annotated[Path | None, _file("Functions to write: HumanEval's shape or MBPP's")] = None,
    summaries: Annotated[Path | None, _file("Rows with dialogue, summary (SAMSum's shape)")] = None,
    world: Annotated[
        bool | None, typer.Option("--world/--no-world", help="The embedded world's suites; default: if it speaks them")
    ] = None,
    judge: Annotated[list[str] | None, typer.Option(help="Who judges answers; several may be named")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Rows of every file, drawn from all over it")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="Length of answers; default: by suite")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Answers written at once")] = 32,
    max_complied: Annotated[float | None, typer.Option(help="Bar: share of harmful requests complied with")] = None,
    max_asr: Annotated[float | None, typer.Option(hidden=True, help="The old name of --max-complied")] = None,
    max_over_refusal: Annotated[float | None, typer.Option(help="Bar: share of harmless requests refused")] = None,
    max_missed: Annotated[float | None, typer.Option(help="Bar: share of harmless requests missed")] = None,
    min_kept: Annotated[float | None, typer.Option(help="Bar: harmless requests with the anchor's outcome")] = None,
    min_utility: Annotated[float | None, typer.Option(help="Bar: every task's first figure")] = None,
    before: Annotated[
        Path | None,
        typer.Option(help="Bar: no worse than in this folder of an earlier audit", callback=_check_before),
    ] = None,
    max_worse: Annotated[float, typer.Option(help="What --before allows, as a share")] = 0.0,
    strict_before: Annotated[bool, typer.Option(help="--before compares the upper end of the change")] = False,
    strict: Annotated[bool, typer.Option(help="Bars compare the worse end of the interval, not the value")] = False,
    labels: Annotated[Path | None, _file("Labels of some of the replies: shares are corrected by them")] = None,
    sheet: Annotated[
        Path | None, typer.Option(help="Write replies drawn at random, without verdicts, for you to label")
    ] = None,
    sheet_size: Annotated[int, typer.Option(min=1, help="Replies of each group on the sheet")] = 60,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for audit.json and completions.jsonl; resumes there", callback=check_folder),
    ] = None,
    keep_answers: Annotated[bool, typer.Option(help="Store requests and answers, not only their hashes")] = False,
    model_name: Annotated[str | None, typer.Option(help="An endpoint's model")] = None,
    api_key_env: Annotated[str, typer.Option(help="Environment variable with the endpoint's key")] = "OPENAI_API_KEY",
    concurrency: Annotated[int, typer.Option(min=1, help="Requests to an endpoint at once")] = 16,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one answer of an endpoint or judge")] = 120.0,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16")] = "auto",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps")] = "auto",
    allow_pickle: Annotated[bool, typer.Option(help="Load pickled weights")] = False,
    json: json_option = None,
) -> None:
    """Ask a model what it must refuse, what it must not, and its tasks. Exit code 1 if it does not hold a bar."""
    _run_and_show(**_settings(dict(locals())))


BARS = "max_complied max_asr max_over_refusal max_missed min_kept min_utility strict max_worse strict_before".split()
LOADING = ("dtype", "device", "allow_pickle")
ENDPOINT = {"name": "model_name", "key_variable": "api_key_env", "concurrency": "concurrency"}


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """The command's options as ``hf.audit`` takes them."""
    if options["keep_answers"] and options["out"] is None:
        raise InputError("--keep-answers: needs --out, the folder to keep them in")
    from holdfast.audits import Bars

    grouped = {
        "judges": options["judge"] or (),
        "bars": Bars(**{name: options[name] for name in BARS}),
        "loading": {name: options[name] for name in LOADING},
        "endpoint": {name: options[option] for name, option in ENDPOINT.items()},
    }
    taken = {"judge", *BARS, *LOADING, *ENDPOINT.values()}
    return {**{name: value for name, value in options.items() if name not in taken}, **grouped}


def _run_and_show(model: str, json: Path | None, **options: Any) -> None:
    from holdfast.audits import audit as audit_model

    with _progress() as (watch, on_progress):
        say = lambda line: print(line, file=sys.stderr)  # noqa: E731
        done = audit_model(model, say=say, on_progress=on_progress, watch=watch, **options)
    if not write_json(json, done.result.to_json()):
        show(done.result)
    if (out := options["out"]) is not None:
        say(f"wrote {out / 'audit.json'}; {_what_for(out)}")
    if not done.passed:
        raise typer.Exit(1)


def _what_for(out: Path) -> str:
    """What the folder of an audit is good for: a run's has a report, any other is what a later audit is compared with."""
    if (out.expanduser() / "finished.json").exists():
        return f"a page with it: holdfast report {shlex.quote(str(out))}"
    return f"to compare a later audit with it: --before {shlex.quote(str(out))}"


@contextmanager
def _progress() -> Iterator[tuple[Callable[[Sequence[Suite]], None], Callable[[str, int, int], None]]]:
    """A bar for every suite, once it is known which there are."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),  # the first answers of a batch may take minutes
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    bar = Progress(*columns, console=Console(stderr=True))
    tasks: dict[str, Any] = {}

    def watch(suites: Sequence[Suite]) -> None:
        tasks.update({suite.name: bar.add_task(suite.name, total=len(suite.rows)) for suite in suites})

    def on_progress(suite: str, done: int, total: int) -> None:
        bar.start()
        bar.update(tasks[suite], completed=done, total=total)

    with shown(bar):
        yield watch, on_progress
