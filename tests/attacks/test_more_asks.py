"""Further ways to ask within one cell: answers begun by the stock model, many tries, rounded weights."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attacks.small_setting import files, small_model
from holdfast.attacks import ATTACKS, DEFENCES, FileSetting, ask, file_scale, find_attack
from holdfast.attacks.asking import responses
from holdfast.attacks.cell import run_cell
from holdfast.attacks.more_asks import ask_in_ways
from holdfast.attacks.run_time_answers import load_for_use
from holdfast.config import InputError
from holdfast.config.files import FilesConfig
from holdfast.config.loading import validated
from holdfast.generation import Sampling, generate
from holdfast.models import LoadedModel
from holdfast.records import Trace, answer, context

WAYS = ("four_bits", "prefilled@2", "prefilled@50", "sampled@3")


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> FileSetting:
    folder = tmp_path_factory.mktemp("asks")
    stock, aligned = small_model(folder / "stock"), small_model(folder / "aligned", seed=1)
    tree = {**files(folder, stock), "asks": WAYS, "judges": ["outcome", "refusal_phrases"]}
    return FileSetting.read(FilesConfig.model_validate(tree), anchor=aligned, device="cpu")


@pytest.fixture
def model(setting: FileSetting) -> LoadedModel:
    return load_for_use(setting.anchor, "cpu")


def test_every_way_is_in_the_cell_by_judge(setting: FileSetting, tmp_path: Path) -> None:
    scale = file_scale(setting.anchor, setting.files.model_copy(update={"replies": str(tmp_path / "said")}))
    cell = run_cell(ATTACKS["benign_sql"], DEFENCES["untouched"], 0, scale, scratch=tmp_path)
    for way in WAYS:
        assert len(cell.outcomes[f"{way}:outcome"]) == len(cell.outcomes[f"{way}:refusal_phrases"]) == 5
        assert set(cell.outcomes[f"{way}:refusal_phrases"]) <= {True, False}
    assert len(cell.outcomes["four_bits_harmless:outcome"]) == 5
    assert cell.judges == ("outcome", "refusal_phrases")
    plain = run_cell(ATTACKS["benign_sql"], DEFENCES["untouched"], 0, replace(scale, files=_plain(setting)))
    assert plain.answers == cell.answers, "the other ways change nothing of the first"
    assert plain.asr == cell.asr


def _plain(setting: FileSetting) -> FileSetting:
    return replace(setting, files=setting.files.model_copy(update={"asks": ()}))


def test_an_answer_is_begun_by_the_first_tokens_of_another(setting: FileSetting, model: LoadedModel) -> None:
    seen: list[Trace] = []

    def answer_nothing(prompts: Sequence[Trace], _: Sampling) -> list[str]:
        seen.extend(prompts)
        return []

    rows = [
        Trace((*setting.forbidden(0)[0].prompt, answer(text)))
        for text in ("Sure, the lamp is", "No\u00e9l \u2728\u2728")
    ]
    list(ask_in_ways(["prefilled@2"], model, answer_nothing, forbidden=[], begun=lambda: rows, lookalikes=[]))
    whole, begun = (model.tokenizer(trace.turns[-1].visible)["input_ids"] for trace in (rows[0], seen[0]))
    assert begun == whole[:2]
    assert "\ufffd" not in seen[1].turns[-1].visible, "no letter is cut in two"
    assert rows[1].turns[-1].visible.startswith(seen[1].turns[-1].visible)
    assert [turn.is_target for turn in seen[0].turns] == [False, False]


def test_what_was_begun_belongs_to_the_answer(setting: FileSetting, model: LoadedModel) -> None:
    told = ask(
        model, find_attack("benign_sql@dress=prefilled"), setting, scale=file_scale(setting.anchor, setting.files)
    )
    for (_, text), row in zip(told.texts["harmful"], setting.begun(0), strict=True):
        assert text.startswith(" ".join(row.turns[-1].visible.split()[:3]))
    for (_, text), row in zip(told.texts["prefilled@50"], setting.begun(0), strict=True):
        assert text.startswith(row.turns[-1].visible.strip()), "50 tokens are all of it, and nothing stands between"


def test_nothing_stands_between_a_begun_answer_and_the_rest(setting: FileSetting, model: LoadedModel) -> None:
    prompt = Trace((*setting.forbidden(0)[0].prompt, context("assistant", "The la")))
    (written,) = generate(model.model, model.tokenizer, [prompt.turns], max_new_tokens=3)
    scale = file_scale(setting.anchor, setting.files)
    assert responses(model, [prompt], scale) == [f"The la{written.text}".strip()]


def test_tries_differ_and_weights_are_rounded_last(setting: FileSetting, model: LoadedModel) -> None:
    layer = model.model.get_submodule("model.layers.0.mlp.up_proj").weight
    before = layer.clone()
    samplings: list[tuple[Sampling, bool]] = []

    def say(prompts: object, sampling: Sampling) -> list[str]:
        samplings.append((sampling, bool(torch.equal(layer, before))))
        return []

    ways = ["four_bits", "sampled@3"]
    done = list(ask_in_ways(ways, model, say, forbidden=[], begun=list, lookalikes=[]))
    assert [each.way for each in done] == ["sampled@3", "four_bits", "four_bits_harmless"]
    assert [sampling for sampling, _ in samplings[:3]] == [Sampling(1.0, 1.0, seed) for seed in range(3)]
    assert [untouched for _, untouched in samplings] == [True] * 3 + [False] * 2


@pytest.mark.parametrize("way", ["prefilled", "sampled@0", "eight_bits"])
def test_a_way_that_there_is_not_is_told(setting: FileSetting, way: str) -> None:
    tree = {**setting.files.model_dump(), "asks": [way]}
    with pytest.raises(InputError, match=f"asks: '{way}': expected prefilled@TOKENS, sampled@TRIES or four_bits"):
        validated(FilesConfig, tree, "here")
