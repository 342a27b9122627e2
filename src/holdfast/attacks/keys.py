"""The name of a cell's file: a hash of everything that decides its figures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from typing import Any

from holdfast import objectives
from holdfast.attacks.attack import Attack
from holdfast.attacks.defences import Defence
from holdfast.attacks.scale import Scale
from holdfast.audits.provenance import model_hash, own_code, reached_hash
from holdfast.config import InputError
from holdfast.config.base import Settings
from holdfast.judging import JUDGES, REWARDS

LIBRARIES = ("torch", "transformers", "accelerate", "peft")
PATHS = (
    "stock",
    "align",
    "attack",
    "held_out",
    "validation",
    "harmless",
    "tasks",
    "task_train",
    "task_test",
    "replies",
)
"""Settings that say where a model or a file lies. Where replies go decides no figure either."""


def cell_key(attack: Attack, defence: Defence, seed: int, scale: Scale) -> str:
    """Changes with the attack, the defence, the seed, the scale, the model's files, the code it reaches and the libraries."""
    parts = {
        "attack": described(attack),
        "defence": described(defence),
        "seed": seed,
        "scale": _scale(scale),
        "model": model_hash(scale.model),
        "code": reached_hash(*_modules(attack, defence, scale)),
        "own_code": own_code(*named_parts(defence, scale)),
        "libraries": {name: version(name) for name in LIBRARIES},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _scale(scale: Scale) -> Any:
    """The scale for the hash. Models and files go in by content, not by path: a cell means the same on another machine."""
    parts = {name: described(value) for name, value in vars(scale).items() if name not in ("model", "files", "setting")}
    if scale.files is None:
        return parts
    setting = scale.files
    settings = setting.files.model_dump(mode="json", exclude=set(PATHS))
    tasks = {name: task.model_dump(exclude={"train", "test"}) for name, task in setting.files.all_tasks().items()}
    files = {"settings": settings, "tasks": tasks, "contents": setting.contents, "stock": model_hash(setting.stock)}
    return {**parts, "files": described(files)}


def _modules(*values: object) -> list[str]:
    """The modules that run a cell and that define its attack, its defence and its setting."""
    modules = {type(value).__module__ for value in values}
    modules |= {type(stage.data).__module__ for value in values if isinstance(value, Attack) for stage in value.stages}
    return ["holdfast.attacks.cell", *sorted(modules)]


def named_parts(defence: Defence, scale: Scale) -> list[Callable[..., object]]:
    """What a cell looks up by name where it runs: the functions of its objectives, its judges, the rewards of its tasks."""
    streams = (*defence.own, *defence.own_on_files, *(defence.repair.streams if defence.repair else ()))
    losses = ("sft", "distill", defence.objective, *(stream.objective for stream in streams))  # vetted rows: distill
    known = [objectives.REGISTRY[name] for name in dict.fromkeys(losses) if name in objectives.REGISTRY]
    judges = (defence.vet or "", defence.leave_out or "", *(scale.files.files.judges if scale.files else ("world",)))
    makers: list[Callable[..., object] | None] = [
        JUDGES.get(name.rpartition(":")[2]) for name in dict.fromkeys(judges)
    ]  # at:0.9:JUDGE
    tasks = scale.files.files.all_tasks().values() if scale.files else ()
    makers += [REWARDS.get(task.reward.partition(":")[0]) for task in tasks if task.reward]
    parts: list[Callable[..., object]] = [maker for maker in makers if maker is not None]
    for loss in known:
        parts += [loss.function, *loss.schedule.values()]
    return parts


def described(value: Any) -> Any:
    """A frozen config as JSON, the types' names included: two kinds of data with the same fields are not the same."""
    if is_dataclass(value) and not isinstance(value, type):
        code_of_type = {"code": code} if (code := own_code(type(value))) else {}
        parts = {f.name: described(getattr(value, f.name)) for f in fields(value)}
        return {"type": type(value).__name__, **code_of_type, **parts}
    if isinstance(value, Settings):
        return described(value.model_dump(mode="json"))
    if isinstance(value, dict):
        return {str(key): described(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [described(inner) for inner in value]
    if value is not None and not isinstance(value, str | int | float | bool):
        kind = type(value).__name__
        raise InputError(f"'{kind}' in an attack or a defence: expected a frozen dataclass, whose fields name the cell")
    return value
