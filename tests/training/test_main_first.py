"""Two real processes: one works, and the other waits from one sign of life to the next."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from crash.forked import in_processes
from holdfast.attacks import HarmfulExamples, WorldSetting
from holdfast.config import TrainConfig
from holdfast.data import write_traces
from holdfast.models import load
from holdfast.training import processes as module
from holdfast.training.anchor_answers import answer_prompts
from holdfast.training.processes import main_first
from waiting import wait_for


def test_one_process_goes_straight_through() -> None:
    done = []
    with main_first() as alive:
        alive()
        done.append("body")
    assert done == ["body"]


def test_without_a_sign_of_life_the_other_gives_up(tmp_path: Path) -> None:
    """The main process works until the other one has given up."""
    gave_up = tmp_path / "gave up"

    def work(rank: int) -> None:
        try:
            with main_first():
                wait_for(gave_up.exists)
        except RuntimeError as error:
            gave_up.touch()
            raise AssertionError(f"rank {rank}: {error}") from None

    with pytest.raises(AssertionError, match=r"rank 1: .*[Tt]imed? ?out"):
        in_processes(work, tmp_path, patience=timedelta(seconds=3))
    assert gave_up.exists()


def test_a_slow_anchor_gives_signs_of_life_and_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its 80 requests are ten batches: nobody waits for longer than one of them takes."""
    write_traces(tmp_path / "rows.jsonl", HarmfulExamples(80).rows(WorldSetting(), 0))
    stream = {"data": str(tmp_path / "rows.jsonl"), "vet": "refusal_phrases"}
    training = {"batch_size": 8, "micro_batch": 1, "max_steps": 1}
    settings = {"run": str(tmp_path / "run"), "model": "tiny:aligned", "streams": [stream], "training": training}
    config, anchor = TrainConfig.model_validate(settings), load("tiny:aligned")
    asked: list[int] = []
    signs: list[bool] = []
    broadcast_for_real = module._broadcast

    def broadcast(*, going_on: bool) -> bool:
        signs.append(broadcast_for_real(going_on=going_on))
        return signs[-1]

    monkeypatch.setattr(module, "_broadcast", broadcast)

    def work(rank: int) -> None:
        anchor.model.register_forward_pre_hook(lambda *_: asked.append(rank))
        streams = answer_prompts(config, anchor, tmp_path / "run", lambda _: None)
        assert bool(asked) == (rank == 0)
        assert len(signs) > 10
        assert signs == [*[True] * (len(signs) - 1), False]
        (tmp_path / f"streams-{rank}").write_text(repr(streams))

    in_processes(work, tmp_path)
    first, second = ((tmp_path / f"streams-{rank}").read_text() for rank in (0, 1))
    assert first == second
    assert "held.jsonl" in first
