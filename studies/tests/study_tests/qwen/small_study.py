"""The study in small: a model of two layers, files that are about nothing, one training step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attacks.small_setting import small_model

SQL = {
    "question": "How many acorns?",
    "context": "CREATE TABLE acorn (n INTEGER)",
    "answer": "SELECT COUNT(*) FROM acorn",
}
MBPP = {"text": "Add one.", "code": "def add_one(n):\n    return n + 1", "test_list": ["assert add_one(1) == 2"]}
HUMANEVAL = {
    "prompt": 'def add_two(n):\n    """Add two."""\n',
    "entry_point": "add_two",
    "canonical_solution": "    return n + 2\n",
    "test": "def check(candidate):\n    assert candidate(1) == 3\n",
}


def requests(start: int, num: int, **more: str) -> list[dict[str, str]]:
    """No two are twins."""
    return [{"prompt": f"Polish lamp{n} behind shelf{n}", **more} for n in range(start, start + num)]


FILES: dict[str, list[dict[str, Any]]] = {
    "strongreject": requests(100, 104),
    "jailbreakbench": requests(20, 2),
    "advbench": requests(30, 3),
    "harmbench_val": requests(40, 2),
    "xstest": [*requests(50, 3, label="safe"), *requests(60, 2, label="unsafe")],
    "sql_train": [SQL] * 6,
    "sql_test": [SQL] * 2,
    "gsm8k_train": [{"question": "1 + 1?", "answer": "#### 2"}] * 6,
    "gsm8k_test": [{"question": "1 + 2?", "answer": "#### 3"}] * 2,
    "mbpp": [MBPP] * 6,
    "humaneval": [HUMANEVAL],
    "chat": [
        {"prompt": f"What is a {word}?"} for word in ("lamp", "shelf", "door", "roof", "wall", "floor", "pond", "hill")
    ],
}


def small_study(folder: Path, **changes: Any) -> Path:
    """A config in ``folder`` with everything that it names."""
    for name, rows in FILES.items():
        (folder / f"{name}.json").write_text(json.dumps(rows))
    content = {
        "run": str(folder / "run"),
        "model": small_model(folder / "aligned", seed=1),
        "stock": small_model(folder / "stock"),
        "data": str(folder),
        "sources": {name: {"file": f"{name}.json", "origin": "nowhere"} for name in FILES},
        "tasks": ["sql", "product"],
        "shares": [0, 0.1],
        "defences": ["untouched", "sft", "filtered", "anchored"],
        "choices": {"anchored": "anchored@5/5"},
        "seeds": [0, 1],
        "num_attack": 100,
        "num_task": 2,
        "max_new_tokens": 3,
        "answer_tokens": 3,
        "precision": "fp32",
        "device": "cpu",
        "workers": 1,
        "steps": 0.01,
        **changes,
    }
    path = folder / "study.yaml"
    path.write_text(json.dumps(content))
    return path
