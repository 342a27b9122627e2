"""``hf.card``: write a run's model card anew, with what its audits measured. `holdfast report RUN --card` calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from holdfast.audits.public import Audit, result_of
from holdfast.config import InputError
from holdfast.config.arguments import checked
from holdfast.config.base import user_path
from holdfast.data import atomic_text
from holdfast.data.model_card import Audited, Training, card_text
from holdfast.records import AuditResult

Given = Audit | str | Path


@checked("card")
def write_card(run: str | Path | object, *, after: Given | None = None, before: Given | None = None) -> Path:
    """Write ``run/model/README.md`` and give its path. Nothing is sent anywhere.

    ``run``: the folder of a training, or the result of ``hf.train``.
    ``after``: the audit of the trained model, by default the run's own ``audit.json``; without any the card has no figures.
    ``before``: an audit of the model before training that asked the same requests. Both may be folders.
    """
    run = user_path(run, "card: run")
    training = _training(run)
    audit_file = run / "audit.json"
    now = _audit(after) if after is not None else _audit(audit_file) if audit_file.is_file() else None
    if now is None and before is not None:
        raise InputError(f"{run}: has no audit.json to compare with {before}: `holdfast audit {run}/model --out {run}`")
    audited = None if now is None else _audited(run, now, before)
    path = run / "model" / "README.md"
    with atomic_text(path) as file:
        file.write(card_text(training, audited))
    return path


def _training(run: Path) -> Training:
    if not (run / "model").is_dir() or not (run / "config.yaml").is_file():
        raise InputError(f"{run}: has no trained model; expected the folder of a finished `holdfast train`")
    config = (run / "config.yaml").read_text(encoding="utf-8", errors="replace")
    settings = _settings(run, config)
    return Training(
        run=run.resolve().name,
        model=str(settings["model"]["name"]),
        config=config,
        data=[_stream(entry, settings) for entry in _rows(run / "data.json")],
        last=(_rows(run / "steps.jsonl") or [{}])[-1],
        is_adapter=(run / "model" / "adapter_config.json").is_file(),
    )


def _settings(run: Path, config: str) -> dict[str, Any]:
    """The run's own config, as plain YAML: one that names rows in memory does not validate outside its script."""
    try:
        settings: dict[str, Any] = yaml.safe_load(config)
        settings["model"]["name"]
    except (yaml.YAMLError, KeyError, TypeError):
        raise InputError(f"{run / 'config.yaml'}: expected the config of a `holdfast train`, with model.name") from None
    return settings


def _stream(entry: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """An entry of ``data.json``. A run of RL keeps only the number of its prompts and their hash; its config has the rest."""
    if "stream" in entry:
        return entry
    source = settings.get("data") or settings.get("task")
    return {**entry, "stream": "prompts", "objective": "grpo", "source": source, "rows": entry["prompts"]}


def _rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a log, or of the list in a JSON file."""
    if not path.is_file():
        raise InputError(f"{path}: is missing; the run's own files make its card")
    try:
        text = path.read_text(encoding="utf-8")
        rows = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError
    except ValueError:
        raise InputError(f"{path}: damaged; the same `holdfast train` command mends the run") from None
    return rows


def _audit(given: Given) -> Audit:
    return given if isinstance(given, Audit) else Audit(result_of(given, "card"), ())


def _audited(run: Path, now: Audit, before: Given | None) -> Audited:
    _refuse_another_model(run, now.result)
    if before is None:
        return Audited(now.result)
    earlier = _audit(before)
    if earlier.result.fingerprints != now.result.fingerprints:
        raise InputError("before=: the two audits did not ask the same rows, so they cannot be compared on one card")
    return Audited(now.result, earlier.result, now.against(earlier))


def _refuse_another_model(run: Path, audit: AuditResult) -> None:
    """A name that is no folder here may have been typed elsewhere; a folder that is here is another model or this one."""
    path = Path(audit.model)
    if path.exists() and path.resolve() not in (run.resolve(), (run / "model").resolve()):
        raise InputError(
            f"the audit is of {audit.model}, not of {run / 'model'}: its figures do not belong on this card"
        )
