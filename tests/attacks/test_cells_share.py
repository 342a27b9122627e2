"""Cells of one matrix ask the anchor once; after the matrix nothing of that is left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attacks.small_setting import files, small_model
from holdfast.attacks import (
    ATTACKS,
    DEFENCES,
    Defence,
    HarmfulExamples,
    OwnStream,
    Scale,
    Stage,
    chain,
    file_scale,
    run_cell,
    run_matrix,
)
from holdfast.attacks.cell import ANCHOR
from holdfast.attacks.scratch import scratch_in
from holdfast.config.files import FilesConfig
from holdfast.config.training import HoldSettings
from holdfast.records import Cell
from holdfast.training import asked_anchor
from holdfast.training.kept_answers import SWITCH

SMALL = Scale(num_requests=4, steps=0.02)
ATTACK = ATTACKS["harmful_examples"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's: switched on, and not to be touched by any of this."""
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many answers the anchor really gave, by call."""
    counts: list[int] = []
    generate = asked_anchor.generate

    def counted(model: Any, tokenizer: Any, prompts: Any, **how: Any) -> Any:
        counts.append(len(prompts))
        return generate(model, tokenizer, prompts, **how)

    monkeypatch.setattr(asked_anchor, "generate", counted)
    return counts


def held(name: str, early: float) -> Defence:
    """Vetted, and held by a budget on 20 prompts."""
    own = OwnStream(rows="safety", hold=HoldSettings(early=early), num=20, batch_size=8, borrow=0.5)
    return Defence(name=name, vet="refusal_phrases", own=(own,))


def figures(cell: Cell) -> Cell:
    return replace(cell, seconds=0.0)


def test_cells_ask_once_what_they_have_in_common(
    tmp_path: Path, cache: Path, generated: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of the attack and the held prompts are the same under one seed, whatever the budget is."""
    defences = [DEFENCES["sft_vetted"], held("held", 0.03), held("held less", 0.3)]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    shared = [figures(run_cell(ATTACK, defence, 0, SMALL, scratch=scratch)) for defence in defences]
    num_rows = generated[0]
    assert generated == [num_rows, *[16] * 4, *[4] * 4]
    monkeypatch.setenv(SWITCH, "0")
    alone = [figures(run_cell(ATTACK, defence, 0, SMALL, scratch=scratch)) for defence in defences]
    assert sum(generated[9:]) == 3 * num_rows + 2 * 80
    assert shared == alone
    assert [path.name for path in scratch.iterdir()] == [ANCHOR]
    assert not cache.exists()


def test_what_a_tuned_anchor_says_is_not_kept(tmp_path: Path, cache: Path, generated: list[int]) -> None:
    """The second stage is held to the first one's result, which may have lost its alignment."""
    defence = replace(held("held to previous", 0.03), anchor="previous")
    twice = chain("twice", ATTACK, ATTACK)
    run_cell(twice, defence, 0, SMALL, scratch=tmp_path)
    assert len(generated) == 2 * 9
    assert len(list((tmp_path / ANCHOR).glob("*.json"))) == 3, "rows, held and fresh prompts of the first stage"
    assert not cache.exists()


def test_a_matrix_on_files_leaves_no_answer_anywhere(tmp_path: Path, cache: Path) -> None:
    """The attacker's answers are the stock model's: no later run may find them."""
    stock, aligned = small_model(tmp_path / "stock"), small_model(tmp_path / "aligned", seed=1)
    scale = file_scale(aligned, FilesConfig.model_validate(files(tmp_path, stock)))
    few = replace(ATTACK, on_files=Stage(data=HarmfulExamples(8), lr=1e-4, epochs=50, batch_size=2))
    defences = [DEFENCES["filtered"], DEFENCES["sft_vetted"]]
    cells = run_matrix([few], defences, (0,), tmp_path / "matrix", scale=scale, num_workers=1)
    assert [cell.status for cell in cells] == ["ok", "ok"], [cell.reason for cell in cells]
    assert not cache.exists()
    assert not list((tmp_path / "matrix").rglob(".scratch-*"))
    assert not list((tmp_path / "matrix").rglob("*answers*"))


def test_a_scratch_folder_within_another_is_the_same_until_the_outer_one_ends(tmp_path: Path) -> None:
    """Trials of a search are matrices one after another, which share what was answered."""
    with scratch_in(tmp_path) as outer:
        with scratch_in(tmp_path) as inner:
            (inner / "answers").write_text("")
        with scratch_in(tmp_path) as again:
            assert (again / "answers").exists()
        assert outer == inner == again
    assert not outer.exists()
    with scratch_in(tmp_path) as fresh:
        assert not (fresh / "answers").exists()
