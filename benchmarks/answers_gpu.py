"""Before and after training on a GPU: the anchor's answers, vetting, an audit, and steps of GRPO; on random weights.

Random weights never end an answer, so every answer takes all of its tokens: an upper bound of what a real model needs.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig

from benchmarks.defended_steps import forget
from benchmarks.random_models import Shape, make_loaded
from holdfast.audits.model_audit import Plan, audit_model
from holdfast.audits.suites import RequestSuite
from holdfast.audits.suites.suite import question
from holdfast.config.rl import RlConfig
from holdfast.generation import ModelSampler, turns_of
from holdfast.generation.conversations import ids_to_continue
from holdfast.judging import find_judge
from holdfast.models import LoadedModel
from holdfast.records import Reply, Trace, answer, context
from holdfast.training.anchor_answers import ANSWER_TOKENS
from holdfast.training.asked_anchor import AskedAnchor, Asking
from holdfast.training.kept_answers import kept_in
from holdfast.training.vetting import vetted
from holdfast.worlds import SafetyWorld

NUM_PROMPTS = 634
NUM_ROWS = 1000  # vetted: 48 tokens each
NUM_REQUESTS, AUDIT_TOKENS, AUDIT_BATCH = 512, 64, 64
JUDGES = ("outcome", "refusal_phrases")
ROLLOUT_STEPS, ROLLOUT_PROMPTS, GROUP, ROLLOUT_TOKENS, ROLLOUT_PASS = 3, 16, 8, 128, 16
GROWTH_STEPS, GROWTH_TOKENS = 50, 32


def prompts(num: int) -> list[str]:
    """Requests of the embedded world, one to seven of them in a prompt, so that lengths are mixed."""
    texts = [row.turns[0].visible for row in SafetyWorld(0).requests("test", "recipe", 7 * num)]
    return [" ".join(texts[7 * index : 7 * index + 1 + index % 7]) for index in range(num)]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that the work took, and what it returned."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    begun = time.perf_counter()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begun, result


def preparation(shape: Shape, device: str, share: float = 1.0) -> dict[str, Any]:
    """Seconds of what `holdfast train defended` does before its first step, in both dtypes, and again with the answers kept."""
    figures: dict[str, Any] = {"model": shape.name}
    requests = prompts(max(2, round(share * NUM_PROMPTS)))
    rows = [Trace((context("user", text), answer("yes"))) for text in prompts(max(2, round(share * NUM_ROWS)))]
    for name, dtype in (("bfloat16", torch.bfloat16), ("float32", torch.float32)):
        loaded = make_loaded(shape, dtype, device)
        with tempfile.TemporaryDirectory() as folder, kept_in(Path(folder)):
            first, again = (_prepared(loaded, requests, rows) for _ in range(2))
        figures[name] = {**first, "again s": again["seconds"]}
        del loaded
        forget()
    return {**figures, "prompts": len(requests), "rows": len(rows)}


def _prepared(loaded: LoadedModel, requests: Sequence[str], rows: Sequence[Trace]) -> dict[str, float]:
    """Ask as the trainer asks its anchor: greedy, 64 at a time. The second time it hashes the weights and finds the answers."""
    anchor = AskedAnchor(loaded)
    answering, _ = timed(partial(anchor.ask, requests, Asking(ANSWER_TOKENS)))
    vetting, _ = timed(partial(vetted, rows, anchor, "outcome", batch_size=64))
    return {"answers s": round(answering, 2), "vetting s": round(vetting, 2), "seconds": round(answering + vetting, 2)}


def audit(shape: Shape, device: str, share: float = 1.0) -> dict[str, Any]:
    """Requests per second of a whole audit with two judges, and of transformers' own generation of as many tokens."""
    loaded = make_loaded(shape, torch.bfloat16, device)
    requests = prompts(max(2, round(share * NUM_REQUESTS)))
    suite = suite_of(requests, AUDIT_TOKENS)
    sampler = ModelSampler(loaded, AUDIT_BATCH)
    first, written = timed(lambda: sampler([row.prompt for row in suite.rows], max_new_tokens=AUDIT_TOKENS))
    whole, _ = timed(lambda: audit_model(sampler, Plan(safety=(suite,))))
    judging, _ = timed(lambda: suite.score(written))
    theirs, num = timed(lambda: by_transformers(loaded, requests, AUDIT_TOKENS, AUDIT_BATCH))
    return {
        "model": shape.name,
        "requests": len(requests),
        "audit s": round(whole, 3),
        "judges s": round(judging, 3),
        "first generation s": round(first, 3),
        "transformers s": round(theirs, 3),
        "tokens": sum(len(one.token_ids) for one in written),
        "tokens of transformers": num,
        "requests per second": round(len(requests) / whole, 1),
        "requests per second, transformers": round(len(requests) / theirs, 1),
        "judges' share": round(judging / whole, 3),
        "peak GB": round(torch.cuda.max_memory_allocated() / 1e9, 2) if device == "cuda" else 0.0,
    }


def suite_of(requests: Sequence[str], num_new: int) -> RequestSuite:
    """The requests as an audit asks them, with two judges."""
    return RequestSuite(
        name="harmful",
        source="the embedded world",
        rows=tuple(question(text) for text in requests),
        max_new_tokens=num_new,
        noun="harmful requests",
        judges=tuple(find_judge(name) for name in JUDGES),
    )


def by_transformers(loaded: LoadedModel, requests: Sequence[str], num_new: int, batch_size: int) -> int:
    """Answer with transformers' plain ``generate`` in batches of similar length, and return the number of tokens. No judge."""
    ids = sorted((ids_to_continue(turns_of(text), loaded.tokenizer) for text in requests), key=len, reverse=True)
    end, total = int(loaded.tokenizer.eos_token_id), 0
    settings = GenerationConfig(max_new_tokens=num_new, do_sample=False, eos_token_id=end, pad_token_id=end)
    for at in range(0, len(ids), batch_size):
        rows = ids[at : at + batch_size]
        width = len(rows[0])
        filled = torch.tensor([[end] * (width - len(row)) + row for row in rows], device=loaded.device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=loaded.device)
        model: Any = loaded.model
        with torch.inference_mode():
            whole = model.generate(input_ids=filled, attention_mask=mask, generation_config=settings)
        total += int((whole[:, width:] != end).sum())
    return total


def by_length(replies: Sequence[Reply]) -> list[float | None]:
    """A reward that differs within a group: the share of different words."""
    return [len(set(reply.text.split())) / (1 + len(reply.text.split())) for reply in replies]


def grpo(
    shape: Shape, device: str, folder: Path, sampler: str, *, growth: bool = False, share: float = 1.0
) -> dict[str, Any]:
    """Seconds of a step's parts and rollout tokens per second; ``growth``: memory alive after every one of many small steps."""
    from holdfast.training.rl import RlPrompt, train_rl  # TRL: where it is missing, only this part fails

    model = folder / "model"
    if not model.is_dir():
        loaded = make_loaded(shape, torch.bfloat16, device)
        loaded.model.save_pretrained(model)
        loaded.tokenizer.save_pretrained(model)
        del loaded
        forget()
    num_steps = max(4, round(share * GROWTH_STEPS)) if growth else ROLLOUT_STEPS
    num_prompts, num_new = (4, GROWTH_TOKENS) if growth else (max(2, round(share * ROLLOUT_PROMPTS)), ROLLOUT_TOKENS)
    num_new = max(4, round(share * num_new))
    config = RlConfig.model_validate(
        {
            "run": str(folder / f"{sampler}{'-growth' if growth else ''}"),
            "model": {"name": str(model), "device": device, "dtype": "bfloat16"},
            "rl": {
                "steps": num_steps,
                "prompts_per_step": num_prompts,
                "group": GROUP,
                "micro_batch": min(ROLLOUT_PASS, num_prompts * GROUP),
                "max_new_tokens": num_new,
                "sampler": sampler,
            },
        }
    )
    problems = [RlPrompt(text, "1") for text in prompts(num_prompts * num_steps)]
    alive: list[int] = []
    train_rl(config, problems, by_length, observe=lambda _: remember(alive), say=lambda _: None)
    lines = (Path(config.run) / "steps.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines][1:]
    figures: dict[str, Any] = {"model": shape.name, "sampler": sampler, "steps": num_steps}
    for part in ("rollout", "scoring", "reward"):
        figures[f"{part} s"] = round(statistics.median(row[f"{part}_seconds"] for row in rows), 4)
    figures["step s"] = round(statistics.median(row["step_time"] for row in rows), 4)
    tokens = statistics.median(row["completions/mean_length"] for row in rows) * num_prompts * GROUP
    figures["rollout tokens per second"] = round(tokens / max(figures["rollout s"], 1e-6))
    figures["step tokens per second"] = round(tokens / max(figures["step s"], 1e-6))
    figures["peak GB"] = round(torch.cuda.max_memory_allocated() / 1e9, 2) if device == "cuda" else 0.0
    quarter = len(alive) // 4
    if growth and quarter:
        early, late = statistics.median(alive[quarter : 2 * quarter]), statistics.median(alive[-quarter:])
        figures["late / early bytes"] = round(late / early, 4)
    forget()
    return figures


def remember(alive: list[int]) -> dict[str, float]:
    """Bytes alive on the device; on a CPU, of the process."""
    if torch.cuda.is_available():
        alive.append(torch.cuda.memory_allocated())
    else:
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
        alive.append(4096 * pages)
    return {}
