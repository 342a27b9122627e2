"""`holdfast generate`: answers from a model; with --undo it may take back what it wrote, before your eyes."""

from __future__ import annotations

import json as json_format
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.output import is_narrow, json_option, write_json
from holdfast.cli.progress import progress_bar
from holdfast.config.errors import InputError

if TYPE_CHECKING:
    from holdfast.generation import UndoDecoding
    from holdfast.models import LoadedModel
    from holdfast.oversight import Overseen
    from holdfast.records import Completion, Trace

    Prompts = Sequence[str] | Sequence[Trace]

MAX_UNDOS = 64  # per answer
pace_option = Annotated[
    float | None, typer.Option(min=0, help="--undo: seconds between two changes on the screen; default 0")
]
n_option = Annotated[
    int, typer.Option("--n", "--best-of", min=1, help="Draw this many per request and return the best")
]
judge_option = Annotated[str | None, typer.Option(help="--safe: as for audit (world, outcome, code_policy, a guard)")]
reward_option = Annotated[
    str | None,
    typer.Option(
        help="--n: likelihood (the default), none, learned:FOLDER, endpoint:MODEL@URL, judge:JUDGE, answer:EXTRACTOR, tests"
    ),
]
soft_option = Annotated[
    float | None, typer.Option(help="--n: draw among the safe by exp(reward / SOFT) instead of taking the best")
]


def generate(
    model: Annotated[str, typer.Argument(help="tiny:aligned, a folder, a hub id, or a server: http://host:8000/v1")],
    prompts: Annotated[list[str] | None, typer.Argument(help="Requests; or give --data")] = None,
    data: Annotated[
        str | None, typer.Option(help="A file of requests, or a dataset whose requests are answered")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Let the model take back what it wrote")] = False,
    context: Annotated[str, typer.Option(help="soft or hard: what the model sees after an undo")] = "soft",
    begin: Annotated[
        str | None, typer.Option(help="--undo: text every answer begins with; it can be taken back")
    ] = None,
    events: Annotated[bool, typer.Option("--events", help="--undo: insertions and deletions as JSON lines")] = False,
    pace: pace_option = None,
    max_new_tokens: Annotated[int, typer.Option(help="Undos and what they take back included")] = 256,
    temperature: Annotated[float, typer.Option(help="0 is greedy")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Sample from this share of the probability")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the sampling")] = 0,
    max_undos: Annotated[int | None, typer.Option(min=0, help="--undo: per answer; default 64")] = None,
    batch_size: Annotated[int, typer.Option(min=1)] = 64,
    limit: Annotated[int | None, typer.Option(min=1, help="--data: only the first rows")] = None,
    n: n_option = 1,
    safe: Annotated[bool, typer.Option("--safe", help="Return only what --judge calls safe, or nothing")] = False,
    judge: judge_option = None,
    reward: reward_option = None,
    soft: soft_option = None,
    model_name: Annotated[str | None, typer.Option(help="A server's model")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="--undo on a server: the folder of the model it serves")] = None,
    api_key_env: Annotated[str, typer.Option(help="Environment variable with a server's key")] = "OPENAI_API_KEY",
    json: json_option = None,
) -> None:
    """Answer requests. With --undo one request on a terminal is typed out, and visibly taken back."""
    of_undo = (begin, events or None, pace, max_undos)
    _check(undo, overseen=safe or n > 1, context=context, of_undo=of_undo, events=events, json=json)
    _check_oversight(judged=judge is not None, safe=safe, rewarded=reward is not None, soft=soft, n=n)
    _check_place(model, of_server=(model_name, tokenizer), of_model=(begin, events or None))
    from holdfast.generation import is_endpoint

    requests = _requests(prompts, data, limit)
    judge_name = judge_for([model], judge, "--safe") if safe else None
    drawing: dict[str, Any] = {"max_new_tokens": max_new_tokens, "temperature": temperature}
    drawing |= {"top_p": top_p, "seed": seed}
    most = MAX_UNDOS if max_undos is None else max_undos
    undoing: dict[str, Any] = {"undo": undo, "context": context, "begin": begin, "max_undos": most}
    if is_endpoint(model):
        from holdfast.cli.generate_endpoint import answer_from_server

        server = {"name": model_name, "key_variable": api_key_env, "tokenizer": tokenizer}
        best = {"n": n, "judge": judge_name, "reward": reward, "soft": soft}
        return answer_from_server(model, requests, drawing, server, undoing, best, json)
    loaded = _load(model)
    drawing["batch_size"] = batch_size
    if safe or n > 1:
        chosen_by = (reward or "likelihood") if n > 1 else None
        how = {**drawing, "n": n, "judge": judge_name, "reward": chosen_by, "soft": soft}
        _print_overseen(loaded, requests, how, json)
    elif undo and (events or (len(requests) == 1 and sys.stdout.isatty() and json is None)):
        _show_undoing(loaded, requests, drawing, undoing, None if events else pace or 0.0)
    else:
        _print_answers(loaded, requests, {**drawing, **undoing}, json)
    return _warn_of_other_languages(loaded, requests)


def _check_place(model: str, *, of_server: Sequence[object], of_model: Sequence[object]) -> None:
    """Refuse options that only a server has, or only a model in this process."""
    from holdfast.generation import is_endpoint

    if is_endpoint(model):
        if any(option is not None for option in of_model):
            raise InputError("--events and --begin need the model itself, not a server")
    elif any(option is not None for option in of_server):
        raise InputError(f"--model-name and --tokenizer go with a server, such as http://host:8000/v1; {model} is none")


def _load(model: str) -> LoadedModel:
    from transformers.utils import logging as transformers_logging

    from holdfast.models import load

    transformers_logging.disable_progress_bar()
    return load(model)


def _warn_of_other_languages(loaded: LoadedModel, requests: Sequence[str | Trace]) -> None:
    """The embedded models, and models tuned from them, answer nonsense to whatever is not in their small language."""
    from holdfast.worlds.tokenizer import speaks_the_world

    if not speaks_the_world(loaded.tokenizer):
        return
    from holdfast.data.fields import listed
    from holdfast.generation.prompts import turns_of
    from holdfast.worlds.hint import HINT, hint_for

    if strange := [str(number) for number, prompt in enumerate(requests, 1) if hint_for(turns_of(prompt))]:
        print(f"holdfast: request {listed(strange)}: {HINT}", file=sys.stderr)


def _print_answers(loaded: LoadedModel, requests: Prompts, how: dict[str, Any], json: Path | None) -> None:
    from holdfast.generation import generate_answers

    with progress_bar("answering") as on_progress:
        answers = generate_answers(loaded, requests, on_progress=on_progress, **how)
    show_answers(answers, json)


def show_answers(answers: Sequence[Completion], json: Path | None) -> None:
    """Print the answers, or write them as JSON."""
    if not write_json(json, [asdict(answer) for answer in answers]):
        for answer in answers:
            print(answer.text)


def _show_undoing(
    loaded: LoadedModel, requests: Prompts, drawing: dict[str, Any], undoing: dict[str, Any], pace: float | None
) -> None:
    """Type the answers out at ``pace``, or print events where there is none."""
    from holdfast.generation import UndoDecoding, UndoLimits

    sampling = {name: value for name, value in drawing.items() if name != "batch_size"}
    limits = UndoLimits(per_answer=undoing["max_undos"])
    how = UndoDecoding(context=undoing["context"], limits=limits, **sampling)
    if pace is None:
        return _print_events(loaded, requests, how, undoing["begin"])
    return _type_out(loaded, requests, how, undoing["begin"], pace)


def _print_overseen(loaded: LoadedModel, requests: Prompts, how: dict[str, Any], json: Path | None) -> None:
    """The best safe answer to each request, or an abstention with its reason."""
    from holdfast.oversight import best_of

    with progress_bar("answering") as on_progress:
        answers = best_of(loaded, requests, on_progress=on_progress, **how)
    show_overseen(answers, json)


def show_overseen(answers: Sequence[Overseen], json: Path | None) -> None:
    """Print what is returned, or why nothing is; or write all of it as JSON."""
    if not write_json(json, [answer.row() for answer in answers]):
        for answer in answers:
            print(f"({answer.selection.reason})" if answer.text is None else answer.text)


def judge_for(models: Sequence[str], judge: str | None, option: str) -> str:
    """The judge named, or the oracle for embedded models. Raises ``InputError`` for others: no judge fits every request."""
    if judge is None and not all(model.startswith("tiny:") for model in models):
        raise InputError(
            f"{option}: whose word decides? Give --judge: a guard model (such as wildguard:MODEL@URL), code_policy for programs, "
            "or outcome where every request is one to refuse: it calls whatever complies unsafe"
        )
    return judge or "world"


def _check(
    undo: bool, *, overseen: bool, context: str, of_undo: Sequence[object], events: bool, json: Path | None
) -> None:
    if undo and overseen:
        raise InputError("--n and --safe go with plain sampling, not with --undo")
    if context not in ("soft", "hard"):
        raise InputError(f"--context: expected soft or hard, got '{context}'")
    if not undo and (context == "hard" or any(option is not None for option in of_undo)):
        raise InputError("--begin, --events, --pace, --max-undos and --context hard need --undo")
    if events and json is not None:
        raise InputError("--events are JSON already, on stdout: leave --json out, or --events")


def _check_oversight(*, judged: bool, safe: bool, rewarded: bool, soft: float | None, n: int) -> None:
    if judged and not safe:
        raise InputError("--judge needs --safe: without it nothing is judged")
    if (rewarded or soft is not None) and n == 1:
        raise InputError("--reward and --soft need --n: with one candidate there is nothing to choose")
    if soft is not None and not soft > 0:
        raise InputError(f"--soft {soft:g}: expected a temperature above 0; without --soft the best is taken")


def _requests(prompts: list[str] | None, data: str | None, limit: int | None) -> Prompts:
    if bool(prompts) == (data is not None):
        raise InputError("generate: expected either requests or --data")
    if limit is not None and data is None:
        raise InputError("--limit needs --data: it takes the first rows of a dataset")
    if data is None:
        for number, prompt in enumerate(prompts or [], 1):
            if not prompt.strip():
                raise InputError(f"request {number}: is empty; write what the model is to answer")
            if not prompt.isascii() and any("\ud800" <= letter <= "\udfff" for letter in prompt):
                raise InputError(f"request {number}: expected UTF-8 text, got other bytes")
        return prompts or []
    return _from_data(data, limit)


def _from_data(data: str, limit: int | None) -> Prompts:
    """The conversations of a dataset up to their answers; or of a file the requests alone, where it has no answers."""
    from holdfast.data import DataError, read_table, take_request
    from holdfast.traces import read_references

    path = Path(data).expanduser()
    if path.suffix.lower() == ".txt" and path.is_file():
        return read_table(path, take_request)[:limit]
    try:
        return read_references(data, limit=limit)
    except DataError:
        if path.is_file():
            with suppress(DataError):
                return read_table(path, take_request)[:limit]
        raise


def _print_events(loaded: LoadedModel, requests: Prompts, how: UndoDecoding, begin: str | None) -> None:
    """One JSON object per line: {"event": "insert", "row": 0, "text": ...}."""
    from holdfast.generation import begun_with, stream_with_undo

    begun = begun_with(loaded, begin, len(requests))
    for event in stream_with_undo(loaded.model, loaded.tokenizer, requests, how, begun=begun):
        line = {"event": type(event).__name__.lower(), **asdict(event)}
        print(json_format.dumps(line, ensure_ascii=is_narrow()), flush=True)


def _type_out(loaded: LoadedModel, requests: Prompts, how: UndoDecoding, begin: str | None, pace: float) -> None:
    from holdfast.cli.paper import Paper
    from holdfast.generation import Delete, Insert, begun_with, stream_with_undo

    paper = Paper(sys.stdout.write, shutil.get_terminal_size().columns)
    for event in stream_with_undo(loaded.model, loaded.tokenizer, requests, how, begun=begun_with(loaded, begin, 1)):
        if isinstance(event, Insert):
            paper.insert(event.text)
        elif isinstance(event, Delete):
            paper.delete(event.num_chars)
        sys.stdout.flush()
        time.sleep(pace)
    print()
