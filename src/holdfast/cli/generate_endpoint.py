"""`holdfast generate http://host:8000/v1`: the same of a model behind a server such as vLLM."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.output import write_json
from holdfast.config.errors import InputError

if TYPE_CHECKING:
    from holdfast.generation import EndpointSampler
    from holdfast.records import Completion


def answer_from_server(
    address: str,
    prompts: Sequence[Any],
    drawing: Mapping[str, Any],
    *,
    name: str | None,
    key_variable: str,
    tokenizer: str | None,
    undo: bool,
    context: str,
    max_undos: int,
    n: int,
    judge: str | None,
    reward: str | None,
    json: Path | None,
) -> None:
    """Print the answers, or write them as JSON."""
    from holdfast.generation import EndpointSampler

    if not name:
        raise InputError(f"{address}: say which of its models with --model-name")
    if reward not in (None, "none", "likelihood"):
        raise InputError(f"--reward {reward}: of a server's answers none or likelihood can be had")
    how = {key: drawing[key] for key in ("max_new_tokens", "temperature", "top_p", "seed")}
    server = EndpointSampler(address, name, os.environ.get(key_variable), say=lambda line: print(line, file=sys.stderr))
    if judge or n > 1:
        return _overseen(server, prompts, how, n, judge, reward, json)
    completions = _with_undo(server, prompts, how, tokenizer, context, max_undos) if undo else server(prompts, **how)
    if not write_json(json, [asdict(completion) for completion in completions]):
        for completion in completions:
            print(completion.text)
    return None


def _with_undo(
    server: EndpointSampler,
    prompts: Sequence[Any],
    how: Mapping[str, Any],
    tokenizer: str | None,
    context: str,
    max_undos: int,
) -> list[Completion]:
    from holdfast.generation import UndoDecoding, UndoLimits
    from holdfast.generation.endpoint_undo import RemoteUndo, stops_of
    from holdfast.models import load_tokenizer

    if tokenizer is None:
        raise InputError("--undo on a server: give --tokenizer, the folder or hub id of the model that it serves")
    decoding = UndoDecoding(context=context, limits=UndoLimits(per_answer=max_undos), **how)  # type: ignore[arg-type]
    loaded = load_tokenizer(tokenizer)
    return RemoteUndo(server, loaded, stops_of(tokenizer, loaded), decoding)(prompts)


def _overseen(
    server: EndpointSampler,
    prompts: Sequence[Any],
    how: Mapping[str, Any],
    n: int,
    judge: str | None,
    reward: str | None,
    json: Path | None,
) -> None:
    from holdfast.generation import LikeliestFirst
    from holdfast.judging import find_judge
    from holdfast.oversight import answer_overseen

    sampler = server if reward == "none" else LikeliestFirst(server, n)
    answers = answer_overseen(sampler, prompts, find_judge(judge) if judge else None, None, n=n, **how)
    if not write_json(json, [answer.row() for answer in answers]):
        for answer in answers:
            print(f"({answer.selection.reason})" if answer.text is None else answer.text)
