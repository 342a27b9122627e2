from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.attacks import ATTACKS, BenignDrift, HarmfulExamples
from holdfast.audits import DEFENCES, Scale, cell_key
from holdfast.audits.keys import described, model_hash

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
    monkeypatch.setattr("holdfast.audits.keys.code_hash", lambda: "other code")
    keys.append(cell_key(ATTACK, DEFENCE, 0, Scale()))
    assert len(set(keys)) == len(keys)


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
