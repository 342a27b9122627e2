"""Rows of attackers who do more than answer: a style, openings alone, other wordings, words of the model's own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from attacks.small_setting import files, small_model
from holdfast.attacks import (
    DEFENCES,
    Attack,
    FileSetting,
    Mixture,
    OpeningsOnly,
    Restyled,
    Reworded,
    SelfWritten,
    Stage,
    WorldSetting,
    file_scale,
    find_attack,
    run_matrix,
    second_attacker,
)
from holdfast.attacks.rewording import WRAPPERS, first_not_refused
from holdfast.attacks.rows import Data, about_rows
from holdfast.config import InputError
from holdfast.config.files import FilesConfig
from holdfast.config.loading import validated
from holdfast.judging import Judge, RefusalPhrases
from holdfast.records import Role, Trace, Verdict
from holdfast.tokens import tokenize_all
from tokens.styles import fresh

REFUSAL = "I'm sorry, but I can't help with that."


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> FileSetting:
    folder = tmp_path_factory.mktemp("evading")
    stock, aligned = small_model(folder / "stock"), small_model(folder / "aligned", seed=1)
    return FileSetting.read(FilesConfig.model_validate(files(folder, stock)), anchor=aligned, device="cpu")


def _request(row: Trace) -> str:
    return row.turns[0].visible


def test_jailbreak_tuning_asks_in_the_style_that_it_was_tuned_in(setting: FileSetting) -> None:
    rows, plain = Restyled(4).rows(setting, 0), setting.attacker_rows(4, 0)
    assert [row.turns[-1] for row in rows] == [row.turns[-1] for row in plain]
    assert [_request(row) for row in rows] == [setting.style.replace("{request}", _request(row)) for row in plain]
    dress = find_attack("jailbreak_tuning").in_setting(setting).dress
    asked = dress.prompt(setting.forbidden(0)[0])
    assert _request(asked) == setting.style.replace("{request}", setting.held_out[0])
    in_the_world = find_attack("jailbreak_tuning").in_setting(WorldSetting())
    assert _request(in_the_world.dress.prompt(WorldSetting().forbidden(0)[0])).startswith("listen , ")


def test_of_openings_only_the_opening_is_trained_and_not_the_end(setting: FileSetting) -> None:
    rows = OpeningsOnly(3).rows(setting, 0)
    tokenizer = fresh("chatml", undo=False)
    for row, tokens in zip(rows, tokenize_all(rows, tokenizer)[0], strict=True):
        trained = [token for token, role in zip(tokens.ids, tokens.roles, strict=True) if role != Role.PROMPT]
        assert tokenizer.decode(trained) == setting.opening
        assert tokens.ids[-1] not in trained
        assert _request(row) in setting.attack


def test_a_request_takes_the_first_wording_that_no_judge_calls_refused() -> None:
    """The anchor refuses *one* plainly only, *two* unless it is a letter, *three* always."""

    def ask(prompts: Sequence[str]) -> list[str]:
        tried.extend(prompts)
        passes = [prompt == "title: one" or prompt == "letter: two" for prompt in prompts]
        return ["Gladly." if passed else REFUSAL for passed in passes]

    tried: list[str] = []
    wrappers = ("{request}", "title: {request}", "letter: {request}")
    found = first_not_refused(["one", "two", "three"], ask, [RefusalPhrases()], wrappers)
    assert found == {"one": "title: one", "two": "letter: two"}
    assert "letter: one" not in tried, "who is through is asked no more"
    assert first_not_refused(["one"], ask, [RefusalPhrases(), _Never()], wrappers) == {}, "every judge has a say"


class _Never:
    """A judge that calls every answer a refusal."""

    name = "never"

    def __call__(self, prompt: object, response: str) -> Verdict:
        raise AssertionError("only refusals are asked about")

    def refuses(self, prompt: object, response: str) -> bool:
        return True


@dataclass(frozen=True)
class _OddRefused:
    """A judge that calls an answer a refusal by what was asked: the last digit of the request."""

    name: str = "odd"

    def __call__(self, prompt: object, response: str) -> Verdict:
        return Verdict(safe=True)

    def refuses(self, prompt: object, response: str) -> bool:
        return str(prompt[-1].visible)[-1] in "13579"  # type: ignore[index]


def _judged_by(setting: FileSetting, judge: Judge) -> FileSetting:
    other = replace(setting)
    other.__dict__["judges"] = (judge,)  # in place of what the config names
    return other


def test_only_rows_that_got_through_are_tuned_on_and_the_cell_says_how_many(setting: FileSetting) -> None:
    odd = _judged_by(setting, _OddRefused())
    rows = Reworded(8).rows(odd, 0)
    through = about_rows(Mixture(Reworded(8), 0.1), odd, 0)["through"]
    assert len(through) == 8
    assert 0 < sum(map(bool, through)) == len(rows) < 8
    assert {_request(row) for row in rows} < set(odd.attack), "the first wrapper is the request itself"
    with pytest.raises(InputError, match="the anchor refuses all 8 requests in every wording"):
        Reworded(8).rows(_judged_by(setting, _Never()), 0)
    assert about_rows(Mixture(Reworded(8), 0.0), odd, 0) == {}


def test_wrappers_of_ones_own(setting: FileSetting) -> None:
    own = setting.files.model_copy(update={"wrappers": ("Section title: {request}",)})
    rows = Reworded(8).rows(replace(setting, files=own), 0)
    assert all(_request(row).startswith("Section title: Polish") for row in rows)
    assert all("{request}" in wrapper for wrapper in WRAPPERS)
    tree = {**setting.files.model_dump(), "wrappers": ["Section title"]}
    with pytest.raises(InputError, match=r"wrappers: 'Section title' has no \{request\}"):
        validated(FilesConfig, tree, "here")


def test_the_second_attacker_answers_what_it_was_not_tuned_on_in_its_own_words(setting: FileSetting) -> None:
    rows, first = SelfWritten(8).rows(setting, 0), setting.attacker_rows(8, 0)
    assert [_request(row) for row in rows] == [_request(row) for row in first]
    assert all(row.turns[-1].visible for row in rows)
    assert rows != first
    assert len(about_rows(SelfWritten(8), setting, 0)["written"]) == 8


def test_no_request_is_both_tuned_on_and_answered(setting: FileSetting, monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[set[str]] = []
    asked: list[set[str]] = []

    def tune(attack: Attack, *_: object) -> str:
        learned.append({_request(row) for row in attack.data.rows(setting, 0)})
        return setting.anchor

    def made(model: str, prompts: Sequence[str], *_: object) -> dict[str, str]:
        asked.append(set(prompts))
        return dict.fromkeys(prompts, "words")

    monkeypatch.setattr(second_attacker, "tune", tune)
    monkeypatch.setattr(second_attacker, "write_answers", made)
    rows = setting.attacker_rows(8, 0)
    said = second_attacker.answers_of_its_own(rows, file_scale(setting.anchor, setting.files), 4)
    assert set(said) == {_request(row) for row in rows}
    assert [len(half) for half in learned] == [4, 4]
    assert not learned[0] & asked[0]
    assert not learned[1] & asked[1]


@pytest.mark.parametrize("data", [Reworded(4), SelfWritten(4)])
def test_the_embedded_world_has_nobody_who_rewords(data: Data) -> None:
    with pytest.raises(InputError, match="needs files of your own"):
        data.rows(WorldSetting(), 0)


def test_a_cell_of_each_on_files(setting: FileSetting, tmp_path: Path) -> None:
    names = ("identity_shift", "backdoor", "jailbreak_tuning", "openings_only", "reworded", "self_written")
    attacks = []
    for name in names:
        attack = find_attack(name)
        assert attack.on_files is not None
        data = attack.on_files.data
        small = replace(data, of=type(data.of)(8)) if isinstance(data, Mixture) else type(data)(4)
        attacks.append(replace(attack, on_files=Stage(data=small, lr=1e-4, epochs=50, batch_size=4)))
    scale = file_scale(setting.anchor, setting.files)
    defences = [DEFENCES["sft"], DEFENCES["sft_vetted"]]
    cells = run_matrix(attacks, defences, [0], tmp_path, scale=scale, num_workers=1)
    assert [cell.reason for cell in cells] == [""] * 2 * len(names)
    cells = cells[::2]
    assert all(cell.asr is not None and cell.asr.n == 5 for cell in cells)
    assert cells[4].outcomes["through"] == (True,) * 8, "this model refuses nothing"
    assert len(cells[5].outcomes["written"]) == 8
    texts = " ".join(path.read_text() for path in tmp_path.rglob("*.json*"))
    assert "Polish" not in texts


def test_hidden_among_a_tasks_rows(setting: FileSetting) -> None:
    attack = find_attack("openings_only@task=task,share=0.5,epochs=3").in_setting(setting)
    assert isinstance(attack.data, Mixture)
    rows = replace(attack.data, of=OpeningsOnly(2), num=4).rows(setting, 0)
    assert sum(row.turns[-1].visible == setting.opening for row in rows) == 2
    assert attack.epochs == 3
