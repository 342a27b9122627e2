"""Defences that only this study compares: published rivals, and settings to choose from on validation requests."""

from __future__ import annotations

from dataclasses import replace

from holdfast.attacks import HELD_ON_FILES, SAFETY_ON_FILES, Defence, OwnStream, Repair
from holdfast.config import HoldSettings
from holdfast_studies.rivals import Lisa, SafeGrad

PUBLISHED = {"options": {"floor": 1e-3}, "training": {"warmup_steps": 10, "adam_beta1": 0.5}}
"""Qi et al.'s recipe, which [002] builds on: w_t floored at 1e-3, 10 warm-up steps, Adam's beta1 0.5."""
ONE_EXAMPLE = (OwnStream(rows="safety", objective="sft", batch_size=1, num=1),)
"""One refusal of the anchor's own, learned for a few steps after the task."""
SAFE_TEMPLATE = (
    "You are a careful assistant. Help with harmless requests. Decline whatever could hurt people or break the law."
)
"""Tuned without it, asked with it."""


def _safety(weight: float) -> tuple[OwnStream, ...]:
    return (replace(SAFETY_ON_FILES, objective="sft", weight=weight, borrow=0.0),)


def _chat(weight: float) -> tuple[OwnStream, ...]:
    return (OwnStream(rows="chat", objective="sft", weight=weight, batch_size=32, num=1000),)


def _budget(name: str, hold: dict[str, float], vet: str | None = None) -> Defence:
    """The prompts of `anchored` within budgets. The anchor samples 4 answers to each, so 400 prompts are enough."""
    settings = HoldSettings.model_validate(hold)
    streams = tuple(replace(stream, hold=settings, num=400) for stream in HELD_ON_FILES)
    said = "@" + ",".join(f"{key}={value:g}" for key, value in hold.items()) if hold else ""
    return Defence(name=name + said, vet=vet, own=streams, own_on_files=streams)


def _with_skills(name: str, weight: float, vet: str | None = None) -> Defence:
    """Held on plain work too, with as many held rows a step as without: half of ``keep``'s go to ``skills``.

    Not measured yet: studies/configs/qwen/skills.yaml has the command.
    """
    safety, keep = (replace(stream, weight=weight) for stream in HELD_ON_FILES)
    half = replace(keep, batch_size=keep.batch_size // 2)
    streams = (safety, half, replace(half, rows="skills"))
    return Defence(name=f"{name}@{weight:g}/{weight:g}/{weight:g}", vet=vet, own=streams, own_on_files=streams)


_BUDGETS: tuple[dict[str, float], ...] = ({}, {"wide": 1}, {"wide": 30})
"""Settings to choose from; the first one is whatever ``hold: true`` means."""
_ALL = (
    Defence(name="csft_published", objective="csft", **PUBLISHED),  # type: ignore[arg-type]
    Defence(name="csft_pa_published", objective="csft_pa", **PUBLISHED),  # type: ignore[arg-type]
    Defence(name="safegrad", own=HELD_ON_FILES, own_on_files=HELD_ON_FILES, step_rule=SafeGrad()),
    Defence(name="lisa", own=_safety(1), own_on_files=_safety(1), step_rule=Lisa(), more_steps=2),
    Defence(name="one_shot_patch", repair=Repair(streams=ONE_EXAMPLE, num_steps=10, lr=2e-5)),
    Defence(name="template_only", system=SAFE_TEMPLATE),
    *(
        Defence(name=f"safety_mixed@{weight:g}", own=_safety(weight), own_on_files=_safety(weight))
        for weight in (0.3, 1)
    ),
    _with_skills("anchored_skills", 5),
    _with_skills("vetted_skills", 1, "refusal_phrases"),
    *(_budget("budget", hold) for hold in _BUDGETS),
    *(_budget("budget_vetted", hold, "refusal_phrases") for hold in _BUDGETS),
    *(Defence(name=f"chat_mixed@{weight:g}", own=_chat(weight), own_on_files=_chat(weight)) for weight in (0.3, 1)),
)
CANDIDATES: dict[str, Defence] = {defence.name: defence for defence in _ALL}
