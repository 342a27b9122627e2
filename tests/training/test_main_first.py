"""Two real processes: one works for longer than the other waits for an answer."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from crash.forked import in_processes
from holdfast.attacks.rows import HarmfulExamples
from holdfast.config import TrainConfig
from holdfast.data import write_traces
from holdfast.models import load
from holdfast.training.anchor_answers import answer_prompts
from holdfast.training.main_first import main_first
from holdfast.worlds import SafetyWorld

PATIENCE = timedelta(seconds=3)


def test_one_process_goes_straight_through() -> None:
    done = []
    with main_first() as alive:
        alive()
        done.append("body")
    assert done == ["body"]


def test_without_a_sign_of_life_the_other_gives_up(tmp_path: Path) -> None:
    def work(rank: int) -> None:
        with main_first():
            time.sleep(5 if rank == 0 else 0)

    with pytest.raises(AssertionError, match=r"[Tt]imed? ?out"):
        in_processes(work, tmp_path, patience=PATIENCE)


def test_a_slow_anchor_is_waited_for_and_asked_once(tmp_path: Path) -> None:
    """Its 80 requests take ten batches of at least half a second."""
    write_traces(tmp_path / "rows.jsonl", HarmfulExamples(80).rows(SafetyWorld(), 0))
    stream = {"data": str(tmp_path / "rows.jsonl"), "vet": "refusal_phrases"}
    training = {"batch_size": 8, "micro_batch": 1, "max_steps": 1}
    settings = {"run": str(tmp_path / "run"), "model": "tiny:aligned", "streams": [stream], "training": training}
    config, slow = TrainConfig.model_validate(settings), load("tiny:aligned")
    asked = []

    def work(rank: int) -> None:
        def take_time(*_: object) -> None:
            asked.append(rank)
            time.sleep(0.05)

        slow.model.register_forward_pre_hook(take_time)
        began = time.monotonic()
        streams = answer_prompts(config, slow, tmp_path / "run", lambda _: None)
        assert time.monotonic() - began > PATIENCE.total_seconds(), "or this shows nothing"
        assert bool(asked) == (rank == 0)
        (tmp_path / f"streams-{rank}").write_text(repr(streams))

    in_processes(work, tmp_path, patience=PATIENCE)
    first, second = ((tmp_path / f"streams-{rank}").read_text() for rank in (0, 1))
    assert first == second
    assert "held.jsonl" in first
