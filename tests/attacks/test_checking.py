"""What a matrix on files lacks is told before a model is loaded, by the attack or the defence that wants it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attacks.small_setting import files, small_model
from holdfast.attacks import (
    ATTACKS,
    DEFENCES,
    Defence,
    OwnStream,
    Reworded,
    Scale,
    SelfWritten,
    file_scale,
    find_attack,
    find_defence,
)
from holdfast.attacks import file_setting as file_setting_module
from holdfast.attacks.checking import check_cells
from holdfast.config import InputError
from holdfast.config.files import FilesConfig


@pytest.fixture(scope="module")
def scale(tmp_path_factory: pytest.TempPathFactory) -> Scale:
    folder = tmp_path_factory.mktemp("real")
    return file_scale(small_model(folder / "model"), FilesConfig.model_validate(files(folder, str(folder / "model"))))


@pytest.fixture(autouse=True)
def nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: Any, **__: Any) -> Sequence[str]:
        raise AssertionError("a model was asked")

    monkeypatch.setattr(file_setting_module, "answered_by", asked)


@pytest.mark.parametrize(
    ("attack", "defence", "line"),
    [
        (
            "harmful_examples",
            "sft",
            r"attack 'harmful_examples': the attack's files have only 8 requests for .*: num_attack is \d+, and twins",
        ),
        ("mixture@task=sqll", "sft", r"attack 'mixture@task=sqll': task 'sqll': no such task in files\.tasks"),
        ("benign_sql", "chat_mixed", "defence 'chat_mixed': field 'files.tasks': general chat is wanted here"),
    ],
)
def test_what_is_lacking_is_named(attack: str, defence: str, line: str, scale: Scale) -> None:
    with pytest.raises(InputError, match=line):
        check_cells([find_attack(attack)], [DEFENCES[defence]], 0, scale)


@pytest.mark.parametrize(
    ("defence", "line"),
    [
        (
            Defence(name="d", objective="stf"),
            r"defence 'd': field 'streams.0.objective': unknown 'stf'; did you mean 'sft'",
        ),
        (Defence(name="d", objective="csft", options={"flor": 1}), "csft has no such option; did you mean 'floor'"),
        (
            Defence(name="d", own=(OwnStream(rows="keep", objective="distil"),)),
            "streams.1.objective': unknown 'distil'",
        ),
        (Defence(name="d", vet="outcom"), "defence 'd': judge 'outcom': no such judge; did you mean 'outcome'"),
        (Defence(name="d", leave_out="outcom"), "defence 'd': judge 'outcom': no such judge"),
        (Defence(name="d", training={"warmup": 2}), r"defence 'd': training: field 'warmup': unknown; [^\n]*$"),
    ],
)
def test_what_a_defence_misspells_is_named_before_anything_is_trained(defence: Defence, line: str) -> None:
    """In the embedded world too. Its cells failed one by one."""
    with pytest.raises(InputError, match=line):
        check_cells([find_attack("harmful_examples")], [defence], 0, Scale())


def test_rows_that_no_defender_has_are_refused() -> None:
    """The embedded world gave others in their place."""
    with pytest.raises(InputError, match="OwnStream: rows 'safty': no such rows; did you mean 'safety'"):
        OwnStream(rows="safty")  # type: ignore[arg-type]


def test_a_part_that_is_registered_by_another_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells bear its own name: two defences of one name would be pooled as one."""
    monkeypatch.setitem(DEFENCES, "mine", replace(DEFENCES["sft"], options={}))
    monkeypatch.setitem(ATTACKS, "mine", ATTACKS["backdoor"])
    with pytest.raises(
        InputError, match="defence 'mine': it is registered as 'mine' and named 'sft'; give both one name"
    ):
        find_defence("mine")
    with pytest.raises(InputError, match="attack 'mine': it is registered as 'mine' and named 'backdoor'"):
        find_attack("mine")


def test_rows_that_can_be_had_are_no_mistake(scale: Scale) -> None:
    attacks = [
        replace(find_attack("harmful_examples"), on_files=replace(find_attack("benign_sql").on_files, data=data))
        for data in (Reworded(8), SelfWritten(8))
    ]
    check_cells([*attacks, find_attack("benign_sql")], [DEFENCES["vetted"], DEFENCES["repair"]], 0, scale)


def test_nothing_is_drawn_where_nothing_is_tuned(scale: Scale) -> None:
    check_cells([find_attack("harmful_examples")], [DEFENCES["untouched"]], 0, scale)


def test_a_stock_model_that_is_not_there_is_told(scale: Scale, tmp_path: Path) -> None:
    assert scale.files is not None
    wrong = replace(scale, files=replace(scale.files, stock=str(tmp_path / "nowhere")))
    with pytest.raises(InputError, match=r"field 'files.stock': model '.*nowhere': there is no such folder"):
        check_cells([find_attack("benign_sql")], [DEFENCES["sft"]], 0, wrong)
