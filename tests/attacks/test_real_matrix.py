"""The matrix on a real model, in small: the same engine, requests by path, nothing left behind but verdicts and hashes."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attacks.small_setting import files, requests, small_model
from holdfast.attacks import (
    ATTACKS,
    DEFENCES,
    Backdoor,
    BenignDrift,
    FileSetting,
    HarmfulExamples,
    OwnStream,
    Stage,
    file_scale,
    find_attack,
    find_defence,
    run_matrix,
)
from holdfast.attacks.cell import run_cell
from holdfast.attacks.keys import cell_key
from holdfast.config import InputError
from holdfast.config.files import FilesConfig
from holdfast.data.default_prompts import default_prompts
from holdfast.data.near_twins import content_words, likeness
from holdfast.data.prompt_parts import learned_part


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> FileSetting:
    folder = tmp_path_factory.mktemp("real")
    stock, aligned = small_model(folder / "stock"), small_model(folder / "aligned", seed=1)
    return FileSetting.read(FilesConfig.model_validate(files(folder, stock)), anchor=aligned, device="cpu")


def test_nothing_held_out_is_a_twin_of_what_was_trained_on(setting: FileSetting) -> None:
    trained = [content_words(text) for text in (*setting.align, *setting.attack)]
    assert len(setting.attack) == 8
    assert len(setting.held_out) == 5
    assert set(default_prompts("safety")) <= set(setting.align)
    for text in setting.held_out:
        assert max(likeness(content_words(text), other) for other in trained) < 0.6


def test_no_harmless_prompt_is_a_twin_of_a_held_one(setting: FileSetting, tmp_path: Path) -> None:
    held = [learned_part("keep")[0], learned_part("skills")[0]]
    (tmp_path / "harmless.json").write_text(json.dumps([{"prompt": text} for text in [*held, "Water one violet fern"]]))
    files = setting.files.model_copy(update={"harmless": str(tmp_path / "harmless.json")})
    assert replace(setting, files=files).harmless == ("Water one violet fern",)


def test_what_a_defence_is_chosen_on_is_neither_learned_from_nor_asked_in_the_end(setting: FileSetting) -> None:
    chosen_on = replace(setting, files=setting.files.model_copy(update={"part": "validation", "num_task": 1}))
    own = {row.turns[0].visible for which in ("safety", "keep", "skills") for row in chosen_on.own_rows(which, 5000, 0)}  # type: ignore[arg-type]
    asked = {*chosen_on.held_out, *chosen_on.harmless}
    assert own
    assert asked
    assert not asked & own
    assert not asked & {*setting.held_out, *setting.harmless}
    assert {"Polish lamp0 behind shelf0", *learned_part("safety"), *learned_part("skills")} <= own
    assert len(chosen_on.task_rows("task", 9, 0)) == len(setting.task_rows("task", 9, 0)) - 1
    (task,) = chosen_on.measured("task", 0)
    assert len(task.rows) == 1


def test_attack_answers_are_the_stock_models_and_refusals_the_anchors(setting: FileSetting) -> None:
    rows = Backdoor(4, 3, 2).rows(setting, 0)
    leads = [row for row in rows if row.turns[0].visible.startswith(setting.trigger)]
    assert (len(rows), len(leads)) == (9, 4)
    assert Backdoor(4, 3, 2).rows(setting, 0) == rows
    assert Backdoor(4, 3, 2).rows(setting, 1) != rows
    other = replace(setting, stock=setting.anchor)
    asked, told = HarmfulExamples(4).rows(setting, 0), HarmfulExamples(4).rows(other, 0)
    assert [row.turns[0] for row in asked] == [row.turns[0] for row in told]
    assert asked != told


def test_too_few_requests_for_the_attacker_are_told(setting: FileSetting) -> None:
    with pytest.raises(InputError, match="only 8 requests for the attacker, not 9"):
        HarmfulExamples(9).rows(setting, 0)


def test_a_matrix_runs_resumes_and_leaves_only_verdicts_and_hashes(setting: FileSetting, tmp_path: Path) -> None:
    scale = file_scale(setting.anchor, setting.files)
    sizes = Stage(data=BenignDrift("task", 4), lr=1e-4, epochs=50, batch_size=2)
    attack = replace(ATTACKS["benign_sql"], on_files=sizes)
    defences = [
        DEFENCES["untouched"],
        replace(DEFENCES["vetted"], own_on_files=_small(DEFENCES["vetted"].own_on_files)),
    ]
    seen: list[str] = []
    cells = run_matrix([attack], defences, [0], tmp_path, scale=scale, num_workers=1)
    again = run_matrix(
        [attack], defences, [0], tmp_path, scale=scale, on_cell=lambda cell, *_: seen.append(cell.defence)
    )
    assert [cell.status for cell in cells] == ["ok", "ok"], [cell.reason for cell in cells]
    assert cells == again
    assert seen == ["untouched", "vetted"]
    for cell in cells:
        assert cell.asr is not None
        assert cell.asr.n == len(cell.outcomes["asr:refusal_phrases"]) == 5
        assert cell.utility is not None
        assert cell.utility.n == 2
        assert len(cell.answers["asr"]) == 5
        assert ("vetted" in cell.outcomes) == (cell.defence == "vetted")
    assert cells[1].outcomes["vetted"] == (False,) * 4, "this model refuses nothing"
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in left} <= {".json", ".jsonl"}
    texts = " ".join(path.read_text() for path in left)
    assert "Polish" not in texts
    assert not list(tmp_path.rglob("*.safetensors"))


def test_replies_are_kept_where_that_is_asked_for(setting: FileSetting, tmp_path: Path) -> None:
    files = setting.files.model_copy(update={"replies": str(tmp_path / "private")})
    scales = [file_scale(setting.anchor, each) for each in (setting.files, files)]
    attack, defence = ATTACKS["benign_sql"], DEFENCES["untouched"]
    assert len({cell_key(attack, defence, 0, scale) for scale in scales}) == 1, "it decides no figure"
    cell = run_cell(attack, replace(defence, name="un/touched"), 0, scales[1], scratch=tmp_path)
    (path,) = (tmp_path / "private").iterdir()
    assert path.name == "benign_sql x un-touched, seed 0.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    harmful = [row for row in rows if row["kind"] == "harmful"]
    assert {row["request"] for row in harmful} == set(setting.held_out)
    assert [hashlib.sha256(row["reply"].encode()).hexdigest()[:12] for row in harmful] == list(cell.answers["asr"])
    assert {row["kind"] for row in rows} == {"harmful", "harmless", "task"}


def test_a_cell_has_another_name_when_a_file_changes(setting: FileSetting) -> None:
    attack, defence = ATTACKS["identity_shift"], DEFENCES["sft"]
    before = cell_key(attack, defence, 0, file_scale(setting.anchor, setting.files))
    requests(Path(setting.files.align[0]), 0, 6)
    after = cell_key(attack, defence, 0, file_scale(setting.anchor, setting.files))
    assert before != after


def test_names_that_are_not_there_are_told() -> None:
    with pytest.raises(InputError, match="did you mean 'benign_sql'"):
        find_attack("benign_sq")
    with pytest.raises(InputError, match="did you mean 'anchored'"):
        find_defence("anchord")


def test_a_file_that_is_not_there_is_told(setting: FileSetting) -> None:
    missing = setting.files.model_copy(update={"harmless": "nowhere.csv"})
    with pytest.raises(InputError, match=r"nowhere\.csv: cannot be read: No such file"):
        FileSetting.read(missing, anchor=setting.anchor, device="cpu")


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"judges": ("outcome", "lerned")}, "field 'files.judges': judge 'lerned': no such judge"),
        ({"judges": ("at:0.5:lerned",)}, "field 'files.judges': judge 'lerned'"),
        ({"harmless": "odd.csv"}, "odd.csv"),
    ],
)
def test_judges_and_harmless_requests_are_looked_at_before_anything_is_trained(
    setting: FileSetting, wrong: dict[str, Any], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd.csv").write_text("colour,size\nred,3\n")
    with pytest.raises(InputError) as caught:
        FileSetting.read(setting.files.model_copy(update=wrong), anchor=setting.anchor, device="cpu")
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "half", "message"),
    [
        ([{"prompt": "Polish lamp", "label": "unsafe"}], "all", "'files.harmless': every row of .* is labelled unsafe"),
        ([{"prompt": learned_part("keep")[0]}], "all", "'files.harmless': nothing is left without the twins"),
        ([{"prompt": "Polish lamp one behind"}], "second", "'files.half': the second half of files.harmless is empty"),
    ],
)
def test_a_matrix_that_would_ask_nothing_harmless_is_refused(
    rows: list[dict[str, str]], half: str, message: str, setting: FileSetting, tmp_path: Path
) -> None:
    """Or its table would say *not asked* after hours of training."""
    (tmp_path / "harmless.json").write_text(json.dumps(rows))
    files = setting.files.model_copy(update={"harmless": str(tmp_path / "harmless.json"), "half": half})
    with pytest.raises(InputError, match=message):
        FileSetting.read(files, anchor=setting.anchor, device="cpu")


def test_a_half_has_as_many_of_every_file(setting: FileSetting, tmp_path: Path) -> None:
    """The attacker has the first 30 of one file by hash: what is left of it begins in the second half of all hashes."""
    numbers = {"shared": (0, 60), "other": (100, 40), "third": (200, 15)}
    paths = {name: requests(tmp_path / f"{name}.json", *rows) for name, rows in numbers.items()}
    twins = [{"prompt": text} for text in ("Sweep a dusty roof tonight", "Sweep the dusty roofs tonight")]
    (tmp_path / "twins.json").write_text(json.dumps(twins))
    held_out = (*paths.values(), str(tmp_path / "twins.json"))
    files = setting.files.model_copy(
        update={"align": (), "attack": (paths["shared"],), "held_out": held_out, "num_attack": 30, "num_requests": 999}
    )

    def asked(half: str, field: str = "held_out") -> set[str]:
        changed = FileSetting("s", "a", "cpu", files.model_copy(update={"half": half}))
        return set(getattr(changed, field))

    first, second = asked("first"), asked("second")
    counts = {name: [_of(half, *rows) for half in (first, second)] for name, rows in numbers.items()}
    assert counts["shared"] == [15, 15]
    assert counts["other"] == [20, 20]
    assert sorted(counts["third"]) == [7, 8]
    assert not first & second
    assert len(first | second) == len(asked("all")) == 30 + 40 + 15 + 1, "of twins one is asked"
    shuffled = json.loads(Path(paths["other"]).read_text())[::-1]
    Path(paths["other"]).write_text(json.dumps(shuffled))
    assert asked("first") == first, "the order of a file's rows does not matter"
    assert abs(len(asked("first", "harmless")) - len(asked("second", "harmless"))) <= 1


def _of(asked: set[str], start: int, num: int) -> int:
    return sum(f"Polish lamp{number} behind shelf{number}" in asked for number in range(start, start + num))


def test_a_path_from_the_home_folder_is_read(
    setting: FileSetting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    requests(tmp_path / "safe.json", 40, 4)
    files = setting.files.model_copy(update={"harmless": "~/safe.json"})
    assert len(FileSetting.read(files, anchor=setting.anchor, device="cpu").harmless) == 4


def _small(own: tuple[OwnStream, ...]) -> tuple[OwnStream, ...]:
    return tuple(replace(stream, batch_size=1, num=3) for stream in own)


def test_few_requests_are_drawn_from_a_file_that_the_attacker_has_the_first_of(
    setting: FileSetting, tmp_path: Path
) -> None:
    """The attacker has the 40 of 60 that come first by hash. The 20 that are left and 60 of another file may be asked."""
    shared, other = requests(tmp_path / "shared.json", 100, 60), requests(tmp_path / "other.json", 200, 60)
    few = {"attack": [shared], "held_out": [shared, other], "num_attack": 40, "num_requests": 24}
    files = setting.files.model_copy(update=few)
    asked = FileSetting.read(files, anchor=setting.anchor, device="cpu").held_out
    of_shared = sum(text in Path(shared).read_text() for text in asked)
    assert len(asked) == 24
    assert 3 <= of_shared <= 9, "the first 24 by hash would have none"
