"""`holdfast audit MODEL`: is it still safe, and still useful? Bars make it a gate."""

from __future__ import annotations

import json as json_format
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.audit_table import show
from holdfast.cli.output import check_folder, json_option, write_json
from holdfast.config.errors import InputError

if TYPE_CHECKING:
    from holdfast.audits.bars import Bars
    from holdfast.audits.model_audit import Plan
    from holdfast.generation import Sampler
    from holdfast.models import LoadedModel
    from holdfast.records import AuditResult


def audit(
    model: Annotated[str, typer.Argument(help="tiny:aligned, a folder, a LoRA folder, a hub id, or http://host/v1")],
    anchor: Annotated[str | None, typer.Option(help="The model before tuning: drift and KL are measured to it")] = None,
    suite: Annotated[str, typer.Option(help="safety, utility or all")] = "all",
    requests: Annotated[Path | None, typer.Option(help="Requests that must be refused")] = None,
    safe_requests: Annotated[Path | None, typer.Option(help="Harmless requests that look alike (XSTest)")] = None,
    sql: Annotated[Path | None, typer.Option(help="Rows with question, context (CREATE TABLE), answer")] = None,
    gsm8k: Annotated[Path | None, typer.Option(help="Rows with question, answer (ends in #### number)")] = None,
    summaries: Annotated[Path | None, typer.Option(help="Rows with dialogue, summary (SAMSum's shape)")] = None,
    world: Annotated[
        bool | None, typer.Option("--world/--no-world", help="The embedded world's suites; default: if it speaks them")
    ] = None,
    judge: Annotated[list[str] | None, typer.Option(help="Who judges answers; several may be named")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Rows of every file, drawn from all over it")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="Length of answers; default: by suite")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Answers written at once")] = 32,
    max_asr: Annotated[float | None, typer.Option(help="Bar: share of forbidden requests answered")] = None,
    max_over_refusal: Annotated[float | None, typer.Option(help="Bar: share of harmless requests refused")] = None,
    min_utility: Annotated[float | None, typer.Option(help="Bar: every task's first figure")] = None,
    before: Annotated[Path | None, typer.Option(help="Bar: no worse than in this folder of an earlier audit")] = None,
    max_worse: Annotated[float, typer.Option(help="What --before allows, as a share")] = 0.0,
    strict_before: Annotated[bool, typer.Option(help="--before compares the upper end of the change")] = False,
    strict: Annotated[bool, typer.Option(help="Bars compare the worse end of the interval, not the value")] = False,
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
    """Ask a model what it must refuse, what it must not, and its tasks. Exit code 1 if it misses a bar."""
    from holdfast.audits.bars import Bars
    from holdfast.audits.model_audit import Plan
    from holdfast.audits.suites import Files, choose_suites

    if keep_answers and out is None:
        raise InputError("--keep-answers: needs --out, the folder to keep them in")
    files = Files(requests, safe_requests, sql, gsm8k, summaries)
    asks_world = _speaks_the_world(model, bool(files.given)) if world is None else world
    safety, tasks = choose_suites(suite, files, world=asks_world, judges=judge or (), limit=limit, timeout=timeout)
    bars = Bars(max_asr, max_over_refusal, min_utility, strict, _earlier(before), max_worse, strict_before)
    bars.check({each.name for each in safety}, has_utility=bool(tasks))
    bars.check_before((*safety, *tasks), [each.name for suite in safety for each in suite.judges])
    if is_address(model):
        sampler = _endpoint(model, model_name, api_key_env, concurrency, timeout, anchor)
    else:
        sampler = _loaded(model, batch_size, dtype=dtype, device=device, allow_pickle=allow_pickle)
    reference = None if anchor is None else _load(anchor, dtype=dtype, device=device, allow_pickle=allow_pickle)
    result = _run(sampler, Plan(safety, tasks, max_new_tokens, keep_answers), reference, bars, out)
    if not write_json(json, result.to_json()):
        show(result)
    if not result.passed:
        raise typer.Exit(1)


def _earlier(before: Path | None) -> AuditResult | None:
    from holdfast.data import read_audit

    return None if before is None else read_audit(before / "audit.json" if before.is_dir() else before)


def is_address(model: str) -> bool:
    """Whether a server answers, not a model here. (The samplers have this too, behind an import of torch.)"""
    return model.startswith(("http://", "https://"))


def _speaks_the_world(model: str, has_files: bool) -> bool:
    """Without files, the embedded world is asked of every model that speaks its language."""
    from holdfast.models import load_tokenizer
    from holdfast.worlds.tokenizer import speaks_the_world

    return not has_files and not is_address(model) and speaks_the_world(load_tokenizer(model))


def _endpoint(
    url: str, name: str | None, key_variable: str, concurrency: int, timeout: float, anchor: str | None
) -> Sampler:
    from holdfast.generation import EndpointSampler

    if anchor is not None:
        raise InputError("--anchor: an endpoint gives no token probabilities to compare; leave it out")
    if name is None:
        raise InputError(f"{url}: say which of its models with --model-name")
    key = os.environ.get(key_variable)
    return EndpointSampler(url, name, key, concurrency, timeout, say=_say)


def _loaded(model: str, batch_size: int, *, dtype: str, device: str, allow_pickle: bool) -> Sampler:
    from holdfast.generation import ModelSampler

    return ModelSampler(_load(model, dtype=dtype, device=device, allow_pickle=allow_pickle), batch_size)


def _load(model: str, *, dtype: str, device: str, allow_pickle: bool) -> LoadedModel:
    from holdfast.models import load

    loaded = load(model, dtype=dtype, device=device, allow_pickle=allow_pickle)
    _say(loaded.sentence)
    return loaded


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _run(sampler: Sampler, plan: Plan, anchor: LoadedModel | None, bars: Bars, out: Path | None) -> AuditResult:
    """Under a progress bar; writes ``out`` when everything is there."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from holdfast.audits.model_audit import ASKED, audit_model
    from holdfast.data import atomic_text, write_audit

    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        tasks = {suite.name: bar.add_task(suite.name, total=len(suite.rows)) for suite in (*plan.safety, *plan.tasks)}
        result, lines = audit_model(
            sampler,
            plan,
            anchor=anchor,
            bars=bars,
            out=out,
            on_progress=lambda suite, done, total: bar.update(tasks[suite], completed=done, total=total),
        )
    if out is not None:
        with atomic_text(out / "completions.jsonl") as file:
            file.writelines(json_format.dumps(line) + "\n" for line in lines)
        write_audit(out / "audit.json", result)
        shutil.rmtree(out / ASKED, ignore_errors=True)
    return result
