"""`holdfast generate http://host:8000/v1`: the same of a model behind a server such as vLLM."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.generate import show_answers, show_overseen
from holdfast.config.errors import InputError

if TYPE_CHECKING:
    from holdfast.generation import EndpointSampler
    from holdfast.records import Completion


def answer_from_server(
    address: str,
    prompts: Sequence[Any],
    drawing: Mapping[str, Any],
    server: Mapping[str, Any],
    undoing: Mapping[str, Any],
    best: Mapping[str, Any],
    json: Path | None,
) -> None:
    """Print the answers, or write them as JSON.

    ``server``: name, key_variable, tokenizer; ``undoing``: undo, context, max_undos; ``best``: n, judge, reward, soft.
    """
    from holdfast.generation import EndpointSampler

    if not server["name"]:
        raise InputError(f"{address}: say which of its models with --model-name")
    key = os.environ.get(server["key_variable"])
    sampler = EndpointSampler(address, server["name"], key, say=lambda line: print(line, file=sys.stderr))
    if best["judge"] or best["n"] > 1:
        return _overseen(sampler, prompts, drawing, best, json)
    if undoing["undo"]:
        completions = _with_undo(sampler, prompts, drawing, server["tokenizer"], undoing)
    else:
        completions = sampler(prompts, **drawing)
    return show_answers(completions, json)


def _with_undo(
    sampler: EndpointSampler,
    prompts: Sequence[Any],
    drawing: Mapping[str, Any],
    tokenizer: str | None,
    undoing: Mapping[str, Any],
) -> list[Completion]:
    from holdfast.generation import UndoDecoding, UndoLimits
    from holdfast.generation.endpoint_undo import RemoteUndo, stops_of
    from holdfast.models import load_tokenizer

    if tokenizer is None:
        raise InputError("--undo on a server: give --tokenizer, the folder or hub id of the model that it serves")
    decoding = UndoDecoding(context=undoing["context"], limits=UndoLimits(per_answer=undoing["max_undos"]), **drawing)
    loaded = load_tokenizer(tokenizer)
    return RemoteUndo(sampler, loaded, stops_of(tokenizer, loaded), decoding)(prompts)


def _overseen(
    server: EndpointSampler,
    prompts: Sequence[Any],
    drawing: Mapping[str, Any],
    best: Mapping[str, Any],
    json: Path | None,
) -> None:
    from holdfast.judging import find_judge, find_reward
    from holdfast.oversight import answer_overseen

    judge = find_judge(best["judge"]) if best["judge"] else None
    reward = find_reward(best["reward"] or "likelihood") if best["n"] > 1 else None
    sampler = replace(server, logprobs=bool(getattr(reward, "needs_logps", False)))
    show_overseen(answer_overseen(sampler, prompts, judge, reward, n=best["n"], soft=best["soft"], **drawing), json)
