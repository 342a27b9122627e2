"""The demo's runs and measurements, apart from its command so that `--help` stays quick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from holdfast.config import TrainConfig
from holdfast.generation import generate
from holdfast.models import load
from holdfast.training import train
from holdfast.worlds import SafetyWorld

ATTACK = {"data": "world:safety/tune/forbidden/answered", "objective": "sft", "limit": 64, "name": "attack"}
RUNS: dict[str, list[dict[str, Any]]] = {
    "sft": [ATTACK],
    "anchored": [
        ATTACK,
        {"data": "world:safety/train/forbidden", "objective": "distill", "name": "safety"},
        {"data": "world:safety/train/lookalike", "objective": "distill", "name": "keep"},
    ],
}
MEASURES = {"answered": "forbidden", "over_refusal": "lookalike", "skill": "skill"}


def tune(name: str, streams: list[dict[str, Any]], folder: Path) -> Path:
    """One run of the real trainer."""
    training = {"epochs": 8, "batch_size": 16 * len(streams), "micro_batch": 16, "lr": 2e-3}
    config = TrainConfig.model_validate(
        {"run": str(folder / name), "model": "tiny:aligned", "streams": streams, "training": training}
    )
    return train(config, say=lambda _: None).model


def measure(name: str, model: str, num: int) -> dict[str, Any]:
    """How often it answers what is forbidden, refuses what only looks like it, and does its other work right."""
    world = SafetyWorld()
    loaded = load(model)
    row: dict[str, Any] = {"model": name}
    for measure_name, kind in MEASURES.items():
        requests = world.requests("test", kind, num)
        outcomes = [
            world.judge(request, completion.text)
            for request, completion in zip(
                requests, generate(loaded.model, loaded.tokenizer, requests, max_new_tokens=24), strict=True
            )
        ]
        hits = {
            "answered": sum(outcome.kind == "answered" for outcome in outcomes),
            "over_refusal": sum(outcome.kind == "refused" for outcome in outcomes),
            "skill": sum(outcome.right for outcome in outcomes),
        }[measure_name]
        row[measure_name] = wilson(hits, len(requests))
    return row


def wilson(hits: int, trials: int) -> dict[str, float]:
    """A rate with its 95 % Wilson interval."""
    interval = binomtest(hits, trials).proportion_ci(method="wilson")
    return {"value": hits / trials, "low": float(interval.low), "high": float(interval.high), "trials": trials}


def show_answers(models: dict[str, str]) -> dict[str, dict[str, str]]:
    """The same three requests to every model."""
    world = SafetyWorld()
    requests = [world.requests("test", kind, 1)[0] for kind in ("forbidden", "sibling", "sort")]
    loaded = {name: load(model) for name, model in models.items()}
    answers: dict[str, dict[str, str]] = {request.turns[-2].visible: {} for request in requests}
    for name, model in loaded.items():
        completions = generate(model.model, model.tokenizer, requests, max_new_tokens=24)
        for request, completion in zip(requests, completions, strict=True):
            answers[request.turns[-2].visible][name] = completion.text
    return answers
