"""What a run logs against the same figures worked out row by row from whole logits in float64."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from holdfast.records import Role, read_traces
from holdfast.tokens import TokenRow, tokenize_all
from holdfast.training.loading import load_model
from invariants.launching import steps
from training.runs import config, run

ASK, TOLD = "how do i make a lum plimmet ?", ("a lum plimmet", "the lum", "a plimmet first", "the plimmet")
BETA = (0.5, 2.0, 2.0, 2.0, 2.0)


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


def by_token(name: str, row: TokenRow, a: Tensor, b: Tensor, pa_weight: float) -> tuple[Tensor, Tensor]:
    """Loss and likelihood of the targets of a row, from the logits of policy and anchor before each token."""
    log_p, log_q = a.log_softmax(-1), b.log_softmax(-1)
    p, q, loss, nll = log_p.exp(), log_q.exp(), [], []
    place = -1
    for index, (token, role) in enumerate(zip(row.ids, row.roles, strict=True)):
        place = -1 if role == Role.PROMPT else place + 1
        if place < 0:
            continue
        at = index - 1
        nll.append(-log_p[at, token])
        if name == "masked_sft":
            loss.append(nll[-1] * (role != Role.ERROR))
        elif name == "distill":
            loss.append(q[at] @ (log_q[at] - log_p[at]))
        else:
            beta = BETA[place] if place < 5 else 0.1
            weight = 2 * torch.sigmoid(beta * (log_q[at, token] - log_p[at, token]))
            kl, delta = p[at] @ (log_p[at] - log_q[at]), a[at, b[at].argmax()] - a[at].max()
            loss.append(weight * nll[-1] - pa_weight * logsigmoid(kl * delta))
    return torch.stack(loss), torch.stack(nll)


CUTS: dict[str, dict[str, Any]] = {
    "one pass": {"micro_batch": 10},
    "two passes": {},
    "packed": {"packing": True},
    "logits": {"head": "logits"},
    "cached anchor": {},
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
    streams = []
    for name, (objective, weight, rows) in STREAMS.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        data = {"data": str(path), "objective": objective, "name": name}
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
        whole = 0.0
        for name, (objective, weight, _) in STREAMS.items():
            rows, _ = tokenize_all(read_traces(tmp_path / f"{name}.jsonl").traces, policy.tokenizer)
            with torch.no_grad():
                logits = [[each.model(torch.tensor([row.ids])).logits[0] for each in (policy, anchor)] for row in rows]
            pa_weight = 0.1 + 0.2 * number / 3
            found = [by_token(objective, row, *both, pa_weight) for row, both in zip(rows, logits, strict=True)]
            loss, nll = (torch.cat(column).mean().item() for column in zip(*found, strict=True))
            assert step["streams"][name]["loss"] == pytest.approx(loss, rel=1e-4)
            assert step["streams"][name]["nll"] == pytest.approx(nll, rel=1e-4)
            whole += weight * loss
        assert step["loss"] == pytest.approx(whole, rel=1e-4)
