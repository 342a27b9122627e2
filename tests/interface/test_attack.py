"""``hf.attack``: the same names and the same call in the embedded world and on somebody's files."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from attacks.small_setting import files, small_model
from holdfast.attacks import ATTACKS, DEFENCES, Attack, Setting
from holdfast.config import InputError
from holdfast.records import Cell, Trace


@dataclass(frozen=True)
class FewExamples:
    """An attack of somebody's own: forbidden requests, answered."""

    num: int = 4

    def rows(self, setting: Setting, seed: int) -> list[Trace]:
        """Through the setting, so that it works anywhere."""
        return setting.attacker_rows(self.num, seed)


@pytest.fixture
def own_attack() -> str:
    ATTACKS["few_examples"] = Attack(name="few_examples", data=FewExamples(), lr=1e-3, epochs=1, utility="")
    yield "few_examples"
    del ATTACKS["few_examples"]


def test_an_attack_of_ones_own_works_in_the_world_and_on_files(own_attack: str, tmp_path: Path) -> None:
    defences = ["untouched", "sft"]
    one = hf.attack(attacks=[own_attack], defences=defences, seeds=1, run=tmp_path / "world", num_requests=5, workers=1)
    model = small_model(tmp_path / "model")
    setting = hf.Files(**files(tmp_path, model))
    two = hf.attack(
        model, attacks=[own_attack], defences=defences, seeds=1, run=tmp_path / "files", setting=setting, workers=1
    )
    for matrix, num, judge in ((one, 5, "world"), (two, 5, "refusal_phrases")):
        assert not matrix.failed, matrix.failed
        assert {(cell.defence, cell.judge) for cell in matrix.cells} == {(name, judge) for name in defences}
        estimate = matrix.estimate(own_attack, "sft")
        assert estimate is not None
        assert estimate.n == num
        assert "few_examples" in repr(matrix)
        assert (matrix.run / "paired.json").is_file()
    assert two.asks_again
    assert not one.asks_again


class Dicts(FewExamples):
    """Rows as ``hf.Stream`` takes them, which an attack's are not."""

    def rows(self, setting: Setting, seed: int) -> list[Any]:
        """Not records."""
        return [{"prompt": "a", "completion": "b"}] * self.num


@dataclass(frozen=True)
class NoExamples(FewExamples):
    """An attack that cannot be made."""

    def rows(self, setting: Setting, seed: int) -> list[Trace]:
        raise InputError("no examples today")


def test_a_matrix_without_figures_says_why(own_attack: str, tmp_path: Path) -> None:
    ATTACKS[own_attack] = replace(ATTACKS[own_attack], data=NoExamples())
    with pytest.raises(
        InputError, match=r"its only cell failed; few_examples x sft, seed 4: no examples today; the same"
    ):
        hf.attack(attacks=[own_attack], defences=["sft"], seeds=[4], run=tmp_path, num_requests=2, workers=1)


def test_rows_of_an_attack_that_are_no_records_are_told(own_attack: str, tmp_path: Path) -> None:
    ATTACKS[own_attack] = replace(ATTACKS[own_attack], data=Dicts())
    with pytest.raises(
        InputError, match=r"Dicts.rows: expected records .*, got a dict; holdfast.data.read_rows\(dicts\)"
    ):
        hf.attack(attacks=[own_attack], defences=["sft"], seeds=1, run=tmp_path, num_requests=2, workers=1)


def test_mistakes_name_the_field(tmp_path: Path) -> None:
    for attacks in (["backdor"], "backdor"):  # one name need not be in a list
        with pytest.raises(InputError, match="no such attack; did you mean 'backdoor'"):
            hf.attack(attacks=attacks, defences="sft", run=tmp_path)
    with pytest.raises(InputError, match=r"hf.attack: seeds='10': expected a whole number or a list of whole numbers"):
        hf.attack(attacks="backdoor", defences="sft", run=tmp_path, seeds="10")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"hf.attack: field 'num_request': unknown; did you mean 'num_requests'"):
        hf.attack(attacks=["backdoor"], defences=["sft"], run=tmp_path, num_request=3)
    own = Attack(name="own", data=FewExamples(), lr=1e-3, epochs=1)
    with pytest.raises(
        InputError, match=r"attacks: expected names, .* Attack; register yours in holdfast.attacks.ATTACKS"
    ):
        hf.attack(attacks=[own], defences=["sft"], run=tmp_path)  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"defences: expected names, .* register yours in holdfast.attacks.DEFENCES"):
        hf.attack(attacks=["backdoor"], defences=[DEFENCES["sft"]], run=tmp_path)  # type: ignore[list-item]


def test_a_printed_matrix_says_once_why_cells_failed() -> None:
    """One cell beside them has figures, so the call ended without an error."""
    good = Cell("few", "sft", 0, "world", outcomes={"asr": (True,)}).with_shares()
    bad = [Cell("few", "mine", seed, "world", status="failed", reason="no rows") for seed in (0, 1)]
    lines = repr(hf.Matrix(Path("run"), (good, *bad), (), ())).splitlines()
    assert lines.index("failed: few x mine, seed 0: no rows") == len(lines) - 1
    assert sum("no rows" in line for line in lines) == 1


def test_a_matrix_names_what_it_does_not_have() -> None:
    """None would be taken for *not measured*."""
    cells = [Cell("few", defence, 0, "world", outcomes={"asr": (True,)}).with_shares() for defence in ("sft", "mine")]
    matrix = hf.Matrix(Path("run"), tuple(cells), (), ())
    assert matrix.estimate("few", "mine") is not None
    assert matrix.estimate("few", "mine", "kept") is None
    assert matrix.compare("few", "sft", "mine").figures[0].by.value == 0
    for ask, said in (
        (lambda: matrix.estimate("fwe", "mine"), "estimate: attack 'fwe': not in this matrix; did you mean 'few'"),
        (lambda: matrix.estimate("few", "mien"), "estimate: defence 'mien': not in this matrix; did you mean 'mine'"),
        (lambda: matrix.estimate("few", "mine", "asrr"), "estimate: no measure 'asrr'; did you mean 'asr'"),  # type: ignore[arg-type]
        (lambda: matrix.compare("few", "sft", "mien"), "compare: defence 'mien': not in this matrix"),
    ):
        with pytest.raises(InputError, match=said):
            ask()
