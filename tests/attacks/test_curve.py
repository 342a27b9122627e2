"""Asked along a training: at which steps, what is kept, and that the training does not notice."""

from dataclasses import replace
from pathlib import Path

import pytest

from attacks.small_setting import files, small_model
from holdfast.attacks import (
    ATTACKS,
    DEFENCES,
    Attack,
    BenignDrift,
    FileSetting,
    Stage,
    file_scale,
    read_cell,
    write_cell,
)
from holdfast.attacks.cell import run_cell
from holdfast.attacks.curve import curve_steps
from holdfast.config.files import CurveSettings, FilesConfig
from holdfast.records import Cell


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> FileSetting:
    folder = tmp_path_factory.mktemp("curve")
    stock, aligned = small_model(folder / "stock"), small_model(folder / "aligned", seed=1)
    tree = {**files(folder, stock), "judges": ["outcome", "refusal_phrases"], "steps": 1.0}
    return FileSetting.read(FilesConfig.model_validate(tree), anchor=aligned, device="cpu")


@pytest.fixture(scope="module")
def attack() -> Attack:
    sizes = Stage(data=BenignDrift("task", 4), lr=1e-2, epochs=5, batch_size=2)
    return replace(ATTACKS["benign_sql"], on_files=sizes)


def _cell(setting: FileSetting, attack: Attack, defence: str, curve: CurveSettings | None, scratch: Path) -> Cell:
    scale = file_scale(setting.anchor, setting.files.model_copy(update={"curve": curve}))
    return run_cell(attack, DEFENCES[defence], 0, scale, scratch=scratch)


@pytest.mark.parametrize(("num_steps", "points", "steps"), [(10, 4, [2, 5, 8, 10]), (2, 4, [1, 2]), (50, 1, [50])])
def test_steps_in_equal_distances(num_steps: int, points: int, steps: list[int]) -> None:
    assert curve_steps(num_steps, points) == steps


def test_a_point_has_three_outcomes_the_task_and_the_drift(
    setting: FileSetting, attack: Attack, tmp_path: Path
) -> None:
    curve = CurveSettings(points=2, num_requests=3, num_task=1)
    cell, plain = (_cell(setting, attack, "sft", each, tmp_path) for each in (curve, None))
    assert [point.step for point in cell.curve] == [5, 10]
    for point in cell.curve:
        assert set(point.shares) == {"asr", "over_refusal", "utility", "missed", "harmless_missed"}
        assert len(point.kl_by_position) > 1
        assert all(value > 0 for value in point.kl_by_position)
    first, last = (sum(point.kl_by_position) for point in cell.curve)
    assert first < last, "it drifts away step by step"
    assert replace(cell, curve=(), seconds=0) == replace(plain, seconds=0), "the training does not notice"
    write_cell(tmp_path / "cell.json", cell)
    assert read_cell(tmp_path / "cell.json") == cell


def test_who_is_not_tuned_has_no_curve(setting: FileSetting, attack: Attack, tmp_path: Path) -> None:
    assert _cell(setting, attack, "untouched", CurveSettings(points=2), tmp_path).curve == ()
