"""Settings that a config file cannot check by itself: refused in one line before the run directory is anybody's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import save_learned_positions, save_small_model
from holdfast.config import InputError
from training.runs import config, run

ROWS = "world:safety/tune/guide"


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"streams": [{"data": ROWS, "objective": "csft", "options": {"beta": {"frist": 1}}}]}, "did you mean 'first'"),
        (
            {"streams": [{"data": ROWS, "objective": "csft", "options": {"beta": "abc"}}]},
            "wrong kind in {'beta': 'abc'}",
        ),
        ({"streams": [{"data": ROWS, "objective": "first_k_masked", "options": {"k": "abc"}}]}, "{'k': 'abc'}"),
        ({"streams": [{"data": ROWS, "objective": "pa", "options": {"kl": "foo"}}]}, "kl: unknown 'foo'; known: grad"),
        ({"streams": [{"data": ROWS, "objective": "pa", "options": {"soften": -1}}]}, "expected a temperature above 0"),
        ({"training": {"scheduler": "linaer"}}, "field 'training.scheduler': unknown 'linaer'; did you mean 'linear'"),
        ({"training": {"scheduler": "cosine_with_min_lr"}}, "'cosine_with_min_lr' wants settings of its own"),
        ({"training": {"optimizer": "foo"}}, "field 'training.optimizer': unknown 'foo'; known: "),
        ({"report_to": ["tensorbord"]}, "field 'report_to': unknown 'tensorbord'; did you mean 'tensorboard'"),
        ({"lora": {"targets": "nosuch"}}, "field 'lora': Target modules nosuch not found"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_it_is_refused_and_the_right_settings_then_run_there(
    wrong: dict[str, Any], line: str, tmp_path: Path, small_model: Path
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(InputError) as caught:
        run(config(folder, small_model, **wrong))
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (folder / "config.yaml").exists()


def test_after_a_mistake_the_same_folder_can_be_used(tmp_path: Path, small_model: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(InputError):
        run(config(folder, small_model, training={"scheduler": "foo"}))
    assert run(config(folder, small_model)).model.is_dir()


def test_rows_beyond_the_models_positions(tmp_path: Path) -> None:
    """Learned positions (GPT-2) end: refused with the setting that helps. Rotary ones do not: it is said."""
    save_learned_positions(tmp_path / "learned", 16)
    with pytest.raises(InputError, match=r"rows of up to \d\d tokens, .* 16 positions: set training.max_length: 16"):
        run(config(tmp_path / "run", tmp_path / "learned"))
    run(config(tmp_path / "run", tmp_path / "learned", training={"max_length": 16}))
    rotary = save_small_model(tmp_path / "rotary", max_position_embeddings=16)
    said: list[str] = []
    run(config(tmp_path / "rotary-run", rotary), said)
    assert any("16 positions: what it makes of those beyond is untrained" in line for line in said)


def test_a_file_is_no_run(tmp_path: Path, small_model: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(InputError, match=r"field 'run': .* is a file; expected a folder"):
        run(config(tmp_path / "run", small_model))
