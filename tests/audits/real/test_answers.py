"""Answers that are learned from: made once for all processes of a run, and never by two models at once."""

import json
import multiprocessing
from pathlib import Path

from audits.real.small import small_model
from holdfast.audits.real.answers import answered_by, shared_in
from holdfast.records import Trace

PROMPTS = ("Who are you?", "What is rain?", "Name a tree.")


def ask(model: str, folder: str) -> list[Trace]:
    with shared_in(Path(folder)):
        return answered_by(model, PROMPTS[:2], "cpu", everything=PROMPTS, max_new_tokens=3)


def test_processes_of_a_run_share_what_was_answered(tmp_path: Path) -> None:
    model = small_model(tmp_path / "model")
    alone = answered_by(model, PROMPTS[:2], "cpu", everything=PROMPTS, max_new_tokens=3)
    shared = tmp_path / "scratch"
    shared.mkdir()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first, second = pool.starmap(ask, [(model, str(shared))] * 2)
    assert first == second == alone
    (kept,) = shared.glob("answers-*.json")
    kept.write_text(json.dumps(dict.fromkeys(PROMPTS, "from the folder")))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(ask, (model, str(shared)))[0].turns[1].visible == "from the folder"
