"""docs/extending.md: its file is run as a user would, workers and all, and what it registers is found by name."""

from __future__ import annotations

import json
import runpy
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from docs.pages import DOCS, fenced
from forked import Forked
from holdfast import objectives
from holdfast.attacks import ATTACKS, DEFENCES
from holdfast.config.training import StreamSettings
from holdfast.judging import JUDGES, REWARDS, find_judge, find_reward, verdicts
from holdfast.records import Reply
from holdfast.training.streams import bind_objective

MATRIX = "{run: matrix, attacks: [few_examples], defences: [focal], seeds: [0], num_requests: 4, workers: 1}"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (text,) = fenced((DOCS / "extending.md").read_text(encoding="utf-8"), "python")
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_it_registers_is_found_by_name(script: Path) -> None:
    registries: tuple[dict[str, Any], ...] = (objectives.REGISTRY, ATTACKS, DEFENCES, JUDGES, REWARDS)
    before = [dict(registry) for registry in registries]
    try:
        runpy.run_path(str(script))
        stream = StreamSettings(data="world:safety/tune/guide", objective="focal", options={"gamma": 1.5})
        assert bind_objective(stream, 0).want == ("logp",)
        said = verdicts(find_judge("brief"), [("ask", "no ."), ("ask", "yes " * 20)])
        assert [each.safe for each in said] == [True, False]
        assert find_reward("few_words")([Reply((), "yes"), Reply((), "yes indeed it is")]) == [0.5, 0.2]
    finally:
        for registry, known in zip(registries, before, strict=True):
            registry.clear()
            registry.update(known)


def ran(script: Path, *command: str) -> str:
    done = Forked(*command, script=script, cwd=script.parent).done()
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_its_reward_chooses_among_drawn_answers(script: Path) -> None:
    options = ["--best-of", "6", "--reward", "few_words", "--temperature", "3", "--max-new-tokens", "12", "--json", "-"]
    (row,) = json.loads(ran(script, "generate", "tiny:aligned", "copy : sun river stone", *options))
    assert len(set(row["rewards"])) > 1, "at this temperature answers differ in length"
    assert row["rewards"][row["index"]] == max(row["rewards"]) == 1 / (1 + len(row["text"].split()))


def test_its_reward_chooses_in_the_server(script: Path) -> None:
    pytest.importorskip("uvicorn", reason="the extra serve is not installed")
    import httpx

    from serve.processes import holdfast_serve

    options = ["tiny:aligned", "--reward", "few_words", "--n", "4", "--max-tokens", "12"]
    with holdfast_serve(*options, script=script) as address:
        body = {"messages": [{"role": "user", "content": "copy : sun river stone"}], "temperature": 2}
        answer = httpx.post(f"{address}/v1/chat/completions", json=body, timeout=60).json()
    text = answer["choices"][0]["message"]["content"]
    assert answer["holdfast"]["reason"].startswith(f"reward {1 / (1 + len(text.split())):.3g}, the best of")


def test_its_reward_trains_a_policy(script: Path) -> None:
    pytest.importorskip("trl", reason="the extra rl is not installed")
    page = (DOCS / "extending.md").read_text(encoding="utf-8").splitlines()
    lines = [line.strip() for line in page if line.startswith("    ") and "questions.jsonl" in line]
    for line in lines[:-1]:
        subprocess.run(line, shell=True, check=True, cwd=script.parent)
    small = ["rl.steps=1", "rl.group=2", "rl.temperature=2", "model.device=cpu"]
    ran(script, *shlex.split(lines[-1])[2:], *small)
    run = script.parent / "runs" / "rl"
    (step,) = map(json.loads, (run / "steps.jsonl").read_text(encoding="utf-8").splitlines())
    assert 1 / 17 <= step["reward"] <= 1, "between sixteen words and none; the answer's own reward would be 0 or 1"
    assert "few_words" in (run / "config.yaml").read_text(encoding="utf-8")


def test_it_runs(script: Path) -> None:
    """Objective, attack and defence, in a worker that is an interpreter of its own."""
    (script.parent / "matrix.yaml").write_text(MATRIX, encoding="utf-8")
    (cell,) = json.loads(ran(script, "attack", "matrix.yaml", "--json", "-"))
    assert (cell["attack"], cell["defence"], cell["status"]) == ("few_examples", "focal", "ok")
