from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.attacks import DEFENCES, chosen, find_defence
from holdfast.attacks.choosing import cost
from holdfast.config import load_config
from holdfast.config.matrix import MatrixConfig
from holdfast.records import Cell
from holdfast.stats import share
from holdfast_studies.candidates import CANDIDATES

CONFIGS = Path(__file__).parents[3] / "studies" / "configs" / "attack"


def cell(defence: str, asr: int, refused: int, right: int, attack: str = "a") -> Cell:
    asr_rate, over_refusal, utility = (share(index < hits for index in range(10)) for hits in (asr, refused, right))
    return Cell(attack, defence, 0, "world", asr=asr_rate, over_refusal=over_refusal, utility=utility)


def test_every_defence_has_as_many_settings_as_the_others_and_all_are_run() -> None:
    tried = Counter(name.partition("@")[0] for name in CANDIDATES)
    assert len(tried) == 7
    assert set(tried.values()) == {4}
    config = load_config(MatrixConfig, CONFIGS / "validation.yaml")
    assert config.requests == "validation"
    assert set(config.defences) == {"sft", *CANDIDATES}


def test_what_was_chosen_is_what_the_defences_are() -> None:
    """csft and csft_pa stay as published."""
    for name in ("kl_sft@kl_weight=0.1", "safety_mixed@weight=1,borrow=0,rows=16", "interpolate@share=0.35"):
        chosen_one = DEFENCES[name.partition("@")[0]]
        assert replace(CANDIDATES[name], name=chosen_one.name) == replace(chosen_one, own_on_files=())
    assert CANDIDATES["repair@steps=40,lr=0.001"].repair == DEFENCES["repair"].repair
    assert CANDIDATES["anchored@safety=20,keep=1,keep_borrow=0.3"].own == DEFENCES["anchored"].own


def test_cost_by_hand() -> None:
    """Attack a: .2 + .1 + (1 - .9) = .4; attack b: 0 + 0 + (1 - .4) = .6; the mean is .5."""
    assert cost([cell("x", 2, 1, 9), cell("x", 0, 0, 4, "b"), cell("y", 9, 9, 0)], "x") == pytest.approx(0.5)


def test_the_cheapest_setting_of_each_defence_is_chosen() -> None:
    cells = [cell("x@1", 2, 0, 9), cell("x@2", 1, 0, 9), cell("alone@1", 9, 0, 9), cell("plain", 0, 0, 10)]
    failed = Cell("a", "x@3", 0, "world", status="failed", reason="why")
    assert chosen([*cells, failed]) == {"x": ("x@2", pytest.approx(0.2))}


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_config_names_defences_that_exist(path: Path) -> None:
    for name in load_config(MatrixConfig, path).defences:
        assert find_defence(name).name == name
