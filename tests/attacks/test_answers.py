"""Answers that are learned from: made once for all processes of a run, and never by two of them at once."""

import fcntl
import json
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from attacks.small_setting import small_model
from holdfast.attacks.run_time_answers import _answers, answered_by, shared_in
from waiting import PATIENCE

PROMPTS = ("Who are you?", "What is rain?", "Name a tree.")


def ask(model: str, folder: Path | None) -> list[str]:
    _answers.cache_clear()  # as another process would start
    with shared_in(folder):
        rows = answered_by(model, PROMPTS[:2], "cpu", everything=PROMPTS, max_new_tokens=3)
    return [row.turns[1].visible for row in rows]


def test_whoever_comes_second_waits_and_reads_what_the_first_one_made(tmp_path: Path) -> None:
    model = small_model(tmp_path / "model")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert ask(model, scratch) == ask(model, None)
    (kept,) = scratch.glob("answers-*.json")
    others = json.dumps(dict.fromkeys(PROMPTS, "made by another process"))
    kept.unlink()
    with kept.with_suffix(".lock").open("w") as lock, ThreadPoolExecutor() as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = pool.submit(ask, model, scratch)
        assert not wait([second], timeout=0.5).done
        kept.write_text(others)
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert second.result(PATIENCE) == ["made by another process"] * 2
