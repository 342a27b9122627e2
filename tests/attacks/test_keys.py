import importlib
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import objectives
from holdfast.attacks import ATTACKS, DEFENCES, Attack, BenignDrift, Defence, HarmfulExamples, Scale, cell_key
from holdfast.attacks.keys import described, model_hash
from holdfast.audits.reached import PACKAGE, data_of, reached
from holdfast.config import InputError
from holdfast.judging import JUDGES

ATTACK, DEFENCE = ATTACKS["mixture"], DEFENCES["anchored"]


def test_the_key_changes_with_everything_that_decides_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [
        cell_key(ATTACK, DEFENCE, 0, Scale()),
        cell_key(ATTACK, DEFENCE, 1, Scale()),
        cell_key(replace(ATTACK, lr=1e-5), DEFENCE, 0, Scale()),
        cell_key(replace(ATTACK, data=replace(ATTACK.data, of=HarmfulExamples(3))), DEFENCE, 0, Scale()),  # type: ignore[type-var]
        cell_key(ATTACK, replace(DEFENCE, own=DEFENCE.own[:1]), 0, Scale()),
        cell_key(ATTACK, replace(DEFENCE, options={"k": 1}), 0, Scale()),
        cell_key(ATTACK, DEFENCE, 0, Scale(num_requests=7)),
        cell_key(ATTACK, DEFENCE, 0, Scale(model="tiny:base")),
    ]
    monkeypatch.setattr("holdfast.attacks.keys.reached_hash", lambda *_: "other code")
    keys.append(cell_key(ATTACK, DEFENCE, 0, Scale()))
    assert len(set(keys)) == len(keys)


def test_a_key_covers_the_code_that_a_cell_reaches_and_no_other() -> None:
    """What is served, shown or drawn has no part in a cell; what trains, asks and judges has, and so have a judge's weights."""
    files = {path.relative_to(PACKAGE).as_posix() for path in reached("holdfast.attacks.cell")}
    assert {
        "attacks/tuning.py",
        "attacks/asking.py",
        "training/vetting.py",
        "judging/outcome.py",
        "worlds/oracle.py",
    } <= files
    assert {"objectives/csft.py", "generation/sample.py", "records/matrix.py", "judging/learned_judge.py"} <= files
    folders = {name.split("/")[0] for name in files}
    assert folders.isdisjoint({"serve", "reports", "cli", "view", "oversight", "diagnostics", "recipes"})
    assert not {"attacks/results_page.py", "attacks/matrix_table.py", "attacks/worst.py", "attacks/paired.py"} & files
    weights = {path.relative_to(PACKAGE).as_posix() for path in data_of(reached("holdfast.attacks.cell"))}
    assert "judging/outcomes/weights.json" in weights


def test_the_key_is_the_same_twice() -> None:
    assert cell_key(ATTACK, DEFENCE, 0, Scale()) == cell_key(replace(ATTACK), replace(DEFENCE), 0, Scale())


def test_configs_with_the_same_fields_but_of_other_types_differ() -> None:
    assert described(HarmfulExamples(5)) != described(replace(BenignDrift(), num=5))
    assert described(HarmfulExamples(5)) == {"type": "HarmfulExamples", "num": 5}


def test_a_model_is_known_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    before = model_hash(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    assert model_hash(str(tmp_path)) != before
    assert model_hash("some/hub-id") == "some/hub-id"


OWN = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Few:
    num: int = 8

def loss(stats):
    return -stats.logp
"""


def _pairs(attack: Attack, defence: Defence) -> list[tuple[Attack, Defence]]:
    return [(ATTACK, DEFENCE), (attack, DEFENCE), (ATTACK, defence)]


def test_a_file_of_the_users_own_decides_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "own_attack.py"
    path.write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("own_attack")
    attack, defence = replace(ATTACK, data=own.Few()), replace(DEFENCE, objective="own")
    plain, with_data, unknown = (cell_key(*pair, 0, Scale()) for pair in _pairs(attack, defence))
    monkeypatch.setitem(objectives.REGISTRY, "own", objectives.Objective("own", own.loss, reads=("logp",)))
    with_objective = cell_key(ATTACK, defence, 0, Scale())
    path.write_text(OWN + "# changed", encoding="utf-8")
    after = [cell_key(*pair, 0, Scale()) for pair in _pairs(attack, defence)]
    assert after[0] == plain, "a cell without a part of one's own is kept"
    assert after[1] != with_data
    assert len({unknown, with_objective, after[2]}) == 3


@pytest.mark.parametrize("defence", [replace(DEFENCE, vet="at:0.9:own"), replace(DEFENCE, leave_out="own")])
def test_a_judge_of_the_users_own_decides_the_cells_that_ask_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defence: Defence
) -> None:
    (tmp_path / "own_judge.py").write_text("def judge():\n    pass\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    before = [cell_key(ATTACK, one, 0, Scale()) for one in (DEFENCE, defence)]
    monkeypatch.setitem(JUDGES, "own", importlib.import_module("own_judge").judge)
    after = [cell_key(ATTACK, one, 0, Scale()) for one in (DEFENCE, defence)]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False]


def test_an_attack_that_no_key_can_name_is_told() -> None:
    with pytest.raises(InputError, match="'object' in an attack or a defence: expected a frozen dataclass"):
        cell_key(replace(ATTACK, data=object()), DEFENCE, 0, Scale())  # type: ignore[arg-type]
