"""The files of an audit, read with a clear line for anything else: ``audit.json`` and ``completions.jsonl``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast.data.writing import atomic_text
from holdfast.records import AuditResult


def write_audit(path: Path, result: AuditResult) -> None:
    """Write an audit, whole or not at all."""
    with atomic_text(path) as file:
        json.dump(result.to_json(), file, indent=1, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def read_audit(path: Path) -> AuditResult:
    """Read an ``audit.json``. Raises ``InputError`` for a file that is missing or holds anything else."""
    try:
        return AuditResult.from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path}: expected the audit.json of a `holdfast audit`") from None


def read_answer_lines(path: Path) -> list[dict[str, Any]]:
    """Read a ``completions.jsonl``, one object per answer. Raises ``InputError`` for a missing file or anything else in it."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):
        raise InputError(f"{path}: expected the completions.jsonl of a `holdfast audit`") from None
