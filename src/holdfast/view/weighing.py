"""A conversation token by token: what policy and anchor give each token, and what every objective would weigh it."""

from __future__ import annotations

import json
import re
from typing import Any

import torch
from torch import Tensor

from holdfast.config import InputError
from holdfast.config.base import Settings
from holdfast.data import read_rows
from holdfast.heads import Reference, TokenStats, stats_from_logits
from holdfast.models import LoadedModel
from holdfast.models.positions import num_positions
from holdfast.objectives import REGISTRY, Objective
from holdfast.records import Role, Trace
from holdfast.reports.text import shown
from holdfast.serve.embedded import ONE_AT_A_TIME
from holdfast.tokens import TokenRow, answer_positions, pad, tokenize_all
from holdfast.tokens.show import text_in_place, token_texts
from holdfast.view.models import Models

MAX_LENGTH = 1024
MAX_ROWS = 4
MAX_TEXT = 120  # characters of a token
MEMORY = re.compile(r"^memory(:1)?: ", re.MULTILINE)
SAID = re.compile(r"^(system|user|assistant)[ \t]*:[ \t]*", re.MULTILINE)


class Weighed(Settings):
    """What the page asks: a conversation, the model to read it and the one to compare with."""

    conversation: str
    model: str
    anchor: str


def conversation_of(text: str) -> Trace:
    """A row as JSON, in any shape that `holdfast validate` reads, or lines that begin with ``user:`` and ``assistant:``.

    A text without such lines is a document. Raises ``InputError`` where something stands before the first of them.
    """
    if text.lstrip().startswith(("{", "[")):
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"not JSON: {error}") from None
        row = {"messages": content} if isinstance(content, list) else content
    elif heads := list(SAID.finditer(text)):
        if text[: heads[0].start()].strip():
            raise InputError("the lines before the first user:, assistant: or system: belong to nobody")
        ends = [*(head.start() for head in heads[1:]), len(text)]
        turns = [(head[1], text[head.end() : end].strip()) for head, end in zip(heads, ends, strict=True)]
        row = {"messages": [{"role": who, "content": said} for who, said in turns]}
    else:
        row = {"text": text}
    try:
        (trace,) = read_rows([row]).traces
    except InputError as error:  # there is no file, and one row
        raise InputError(MEMORY.sub("", str(error))) from None
    return trace


def weigh(request: Weighed, models: Models) -> dict[str, Any]:
    """Every token with its role and figures; those of the prompt have none."""
    trace = conversation_of(request.conversation)
    policy, anchor = models.load(request.model), models.load(request.anchor)
    if policy.tokenizer.get_vocab() != anchor.tokenizer.get_vocab():
        raise InputError(
            f"{request.anchor} reads other tokens than {request.model}: choose an anchor with the same tokenizer"
        )
    longest = min(MAX_LENGTH, num_positions(policy.model.config), num_positions(anchor.model.config))
    rows, report = tokenize_all([trace], policy.tokenizer, max_length=longest)
    with ONE_AT_A_TIME:  # an answer that is given up would stop this pass too
        weighed = [_row(row, policy, anchor) for row in rows[:MAX_ROWS]]
    return {
        "rows": weighed,
        "objectives": list(REGISTRY),
        "note": report.sentence if len(rows) > 1 or report.num_cut else "",
    }


def _row(row: TokenRow, policy: LoadedModel, anchor: LoadedModel) -> dict[str, Any]:
    places = [place for place in range(1, len(row)) if row.roles[place] != Role.PROMPT]
    texts = token_texts(row.ids, policy.tokenizer)
    by_place = _figures(row, places, policy, anchor)
    roles = [Role(role).label for role in row.roles]
    labels = list(dict.fromkeys(roles))
    tokens = []
    for place, text in enumerate(texts):
        role = labels.index(roles[place])
        token: list[Any] = [_cut(text), None, None, None, None, role, None]
        if place in by_place:
            figures = by_place[place]
            anchor_top, policy_top = (
                _cut(text_in_place(row.ids, place, figures[model], texts, policy.tokenizer))
                for model in ("anchor", "policy")
            )
            token = [_cut(text), None, figures["kl"], None, anchor_top, role, policy_top, figures]
        tokens.append(token)
    return {"title": f"{len(row)} tokens, {row.num_targets} trained", "model": "", "roles": labels, "tokens": tokens}


def _cut(text: str) -> str:
    return shown(text, MAX_TEXT)


def _figures(row: TokenRow, places: list[int], policy: LoadedModel, anchor: LoadedModel) -> dict[int, dict[str, Any]]:
    logits, reference = (_logits(loaded, row, places) for loaded in (policy, anchor))
    logits.requires_grad_()
    ids, role = (torch.tensor([values[place] for place in places]) for values in (row.ids, row.roles))
    position = torch.tensor(answer_positions(row.roles, row.blanks))[places]
    with torch.enable_grad():
        stats = stats_from_logits(logits, ids, Reference(logits=reference))
        weighed = {name: _weights(objective, stats, logits, role, position) for name, objective in REGISTRY.items()}
    columns = {name: getattr(stats, name).tolist() for name in ("logp", "logp_ref", "kl")}
    return {
        place: {
            **{name: _rounded(column[index]) for name, column in columns.items()},
            "anchor": int(stats.need("top_ref")[index]),
            "policy": int(stats.top[index]),
            "weights": [_at(parts, 0, index) for parts in weighed.values()],
            "shares": [_at(parts, 1, index) for parts in weighed.values()],
        }
        for index, place in enumerate(places)
    }


def _weights(
    objective: Objective, stats: TokenStats, logits: Tensor, role: Tensor, position: Tensor
) -> tuple[Tensor | None, Tensor] | None:
    """What the objective multiplies each token's likelihood gradient by, and each token's share of the whole gradient.

    No weight where the objective does not read log p; neither where it has options without a default.
    """
    try:
        loss = objective.on(stats, role, position)
    except TypeError:
        return None
    inputs = [stats.logp, logits]
    slope, gradient = torch.autograd.grad(loss.sum(), inputs, allow_unused=True, retain_graph=True)
    norm = torch.zeros(len(role)) if gradient is None else torch.linalg.vector_norm(gradient, dim=-1)
    return None if slope is None else -slope, norm / norm.sum().clamp(min=1e-30)


@torch.no_grad()
def _logits(loaded: LoadedModel, row: TokenRow, places: list[int]) -> Tensor:
    inputs = pad([row], 0).to(loaded.device).model_inputs()
    logits: Tensor = loaded.model(**inputs).logits[0, [place - 1 for place in places]]
    return logits.float().cpu()


def _at(parts: tuple[Tensor | None, Tensor] | None, which: int, index: int) -> float | None:
    column = None if parts is None else parts[which]
    return None if column is None else _rounded(float(column[index]))


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
