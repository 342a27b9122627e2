"""What a run logs against the same figures worked out row by row from whole logits in float64."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from holdfast.data import read_traces
from holdfast.models import LoadedModel
from holdfast.records import Role
from holdfast.tokens import TokenRow, tokenize_all
from holdfast.training.policy import load_model
from invariants.launching import steps
from training.runs import config, run

ASK, TOLD = "how do i make a lum plimmet ?", ("a lum plimmet", "the lum", "a plimmet first", "the plimmet")
BETA = torch.tensor([0.7, 1.5, 1.5, 0.1, *[0.1] * 20])
OPTIONS = {"beta": {"first": 0.7, "early": 1.5, "num_early": 3}}


def undone(error: str, correction: str) -> dict[str, Any]:
    parts = [{"role": "prefix", "text": "first "}, {"role": "error", "text": error}, {"role": "undo"}]
    return {"prompt": ASK, "segments": [*parts, {"role": "correction", "text": correction}]}


def told(answer: str) -> dict[str, Any]:
    return {"prompt": ASK, "completion": answer}


STREAMS: dict[str, tuple[str, float, list[dict[str, Any]]]] = {
    "undo": ("masked_sft", 1.0, [undone("the lum", "a plimmet"), undone("a", "the lum plimmet first")]),
    "task": ("csft_pa", 0.5, [told(f"{text} {other}") for text in TOLD for other in TOLD[:2]][:6]),
    "hold": ("distill", 0.3, [told("the lum plimmet"), told("a first")]),
}


def by_token(name: str, row: TokenRow, a: Tensor, b: Tensor, pa_weight: float, soften: float | None) -> Tensor:
    """Role, loss, -log p, w and |d loss / d logits| of the one answer in a row, from the logits of policy and anchor."""
    where = [index for index, role in enumerate(row.roles) if role != Role.PROMPT]
    before = [index - 1 for index in where]
    role, token = (torch.tensor(values)[where] for values in (row.roles, row.ids))
    a, b = a[before].requires_grad_(), b[before]
    log_p, log_q = a.log_softmax(-1), b.log_softmax(-1)
    nll, nll_ref = (-each.gather(1, token[:, None]).squeeze(1) for each in (log_p, log_q))
    weight = torch.ones_like(nll)
    if name == "masked_sft":
        loss = torch.where(role == Role.ERROR, 0.0, nll)
    elif name == "distill":
        loss = (log_q.exp() * (log_q - log_p)).sum(-1)
    else:
        weight = 2 * torch.sigmoid(BETA[: len(where)] * (nll - nll_ref)).detach()
        kl = (log_p.exp() * (log_p - log_q)).sum(-1)
        delta = a.gather(1, b.argmax(-1, keepdim=True)).squeeze(1) - a.max(-1).values
        if soften is not None:
            delta = (((b / soften).softmax(-1) - (a / soften).softmax(-1)) * a).sum(-1)
        loss = weight * nll - pa_weight * logsigmoid(kl * delta)
    (grad,) = torch.autograd.grad(loss.sum(), a)
    return torch.stack([role, loss, nll, weight, grad.norm(dim=-1)], 1).detach()


CUTS: dict[str, dict[str, Any]] = {
    "one pass": {"micro_batch": 10},
    "two passes": {},
    "packed": {"packing": True},
    "logits": {"head": "logits"},
    "cached anchor": {},
    "soft argmax": {},
}


@pytest.mark.parametrize("cut", CUTS)
def test_three_streams_are_what_their_rows_say(
    tmp_path: Path, small_model: Path, untied_model: Path, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step takes every row once, so its loss needs no plan; nothing is learned, so the models stay as they were.

    The cache has several shards and does not know the rows of the first stream.
    """
    monkeypatch.setattr("holdfast.training.anchor_cache.ROWS_PER_SHARD", 3)
    cache = {"cache": str(tmp_path / "cache")} if cut == "cached anchor" else {}
    soften = 0.5 if cut == "soft argmax" else None
    options = {**OPTIONS, **({"soften": soften} if soften else {})}
    streams = []
    for name, (objective, weight, rows) in STREAMS.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        data = {"data": str(path), "objective": objective, "name": name, "options": options if name == "task" else {}}
        streams.append({**data, "weight": weight, "share": len(rows)})
    settings = config(
        tmp_path / "run",
        small_model,
        model={"new_tokens": ["<UNDO>"]},
        anchor={"model": str(untied_model), **cache},
        streams=streams,
        training={"batch_size": 10, "micro_batch": 5, "max_steps": 3, "lr": 1e-30, **CUTS[cut]},
    )
    run(settings)
    policy, anchor = (load_model(settings, str(name))[0] for name in (small_model, untied_model))
    policy.model.double()
    anchor.model.double()
    for number, step in enumerate(steps(tmp_path / "run")):
        whole, streams_tokens = 0.0, []
        for name, (objective, weight, _) in STREAMS.items():
            rows, _ = tokenize_all(read_traces(tmp_path / f"{name}.jsonl").traces, policy.tokenizer)
            both = [[logits(each, row) for each in (policy, anchor)] for row in rows]
            how = {"pa_weight": 0.1 + 0.2 * number / 3, "soften": soften}
            tokens = torch.cat([by_token(objective, row, *ab, **how) for row, ab in zip(rows, both, strict=True)])
            _, loss, nll, w, _ = tokens.mean(0).tolist()
            told = step["streams"][name]
            assert (told["loss"], told["nll"], told.get("w", 1.0)) == pytest.approx((loss, nll, w), rel=1e-4)
            whole += weight * loss
            tokens[:, 4] *= weight / len(tokens)
            streams_tokens.append(tokens)
        assert step["loss"] == pytest.approx(whole, rel=1e-4)
        roles_are_what_their_tokens_say(step, torch.cat(streams_tokens))


def logits(loaded: LoadedModel, row: TokenRow) -> Tensor:
    with torch.no_grad():
        found: Tensor = loaded.model(torch.tensor([row.ids])).logits[0]
    return found


def roles_are_what_their_tokens_say(step: dict[str, Any], tokens: Tensor) -> None:
    assert step["nll"] == pytest.approx(tokens[:, 2].mean().item(), rel=1e-4)
    for role in Role:
        own = tokens[tokens[:, 0] == role]
        told = step["roles"].get(role.label, {"tokens": 0, "gradient_share": 0.0})
        assert told["tokens"] == len(own)
        assert told["gradient_share"] == pytest.approx((own[:, 4].sum() / tokens[:, 4].sum()).item(), rel=1e-3)
