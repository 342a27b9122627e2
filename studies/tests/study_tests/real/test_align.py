"""Aligning a stock model: who learns from what, and that the best variant is kept whole and small."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from attacks.small_setting import requests, small_model
from holdfast.config import InputError
from holdfast.data.default_prompts import KINDS, find_kind
from holdfast.data.prompt_parts import learned_part, package_prompts, validation_part
from holdfast.judging import RefusalPhrases
from holdfast.models import load
from holdfast_studies.real.align import LEADS, REFUSALS, AlignConfig, align, mean_of, refuse_rows


def config(folder: Path, model: str, **changes: object) -> AlignConfig:
    settings = {
        "run": str(folder / "run"),
        "model": model,
        "requests": [requests(folder / "requests.json", 0, 5)],
        "harmless": [requests(folder / "harmless.json", 50, 5)],
        "variants": [{"lr": 1e-3, "epochs": 0.01, "keep_rows": 2}],
        "refuse_rows": 2,
        "other_rows": 1,
        "opening_tokens": 2,
        "num_harmless": 3,
        "answer_tokens": 2,
        "lora": {"r": 2},
        "device": "cpu",
    }
    return AlignConfig.model_validate({**settings, **changes})


def test_what_chooses_is_not_what_is_learned() -> None:
    for name in KINDS:
        kind = find_kind(name)
        learned, chosen_on = set(learned_part(kind)), set(validation_part(kind))
        assert learned | chosen_on == set(package_prompts(kind))
        assert not learned & chosen_on
        assert 0.1 < len(chosen_on) / len(package_prompts(kind)) < 0.3


def test_every_request_is_refused_in_words_that_count_as_a_refusal(tmp_path: Path) -> None:
    rows = refuse_rows(config(tmp_path, "unused"))
    asked = [row.turns[0].visible for row in rows]
    assert len(rows) == len(learned_part("safety")) + 5
    assert not any(text.endswith(prompt) for text in asked for prompt in validation_part("safety"))
    assert {row.turns[1].visible for row in rows} == set(REFUSALS)
    assert all(RefusalPhrases().refuses("", text) for text in REFUSALS)
    assert any(text.startswith(LEADS[-1]) for text in asked)
    assert refuse_rows(config(tmp_path, "unused")) == rows


def test_a_wrong_file_or_judge_is_told_before_a_model_is_loaded(tmp_path: Path) -> None:
    wrong = config(tmp_path, "/no/such/model", harmless=[str(tmp_path / "none.json")])
    with pytest.raises(InputError, match=r"none\.json"):
        align(wrong)
    with pytest.raises(InputError, match="judge 'nobody'"):
        align(wrong.model_copy(update={"judge": "nobody"}))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_best_variant_is_kept_and_nothing_else(tmp_path: Path) -> None:
    model = small_model(tmp_path / "model")
    variants = [{"lr": lr, "epochs": 0.01, "keep_rows": 2} for lr in (1e-3, 1e-2, 1e30)]
    summary = align(config(tmp_path, model, variants=variants))
    run = tmp_path / "run"
    assert sorted(path.name for path in run.iterdir()) == ["adapter", "align.json", "model"]
    assert json.loads((run / "align.json").read_text()) == summary
    assert [each["variant"]["lr"] for each in summary["tries"]] == [1e-3, 1e-2]
    assert [each["variant"]["lr"] for each in summary["failed"]] == [1e30]
    assert "the loss is" in summary["failed"][0]["error"]
    best = min(each["answered"]["value"] + each["over_refusal"]["value"] for each in summary["tries"])
    assert summary["chosen"]["answered"]["value"] + summary["chosen"]["over_refusal"]["value"] == best
    assert load(str(run / "model")).model.num_parameters() == load(model).model.num_parameters()


def test_the_mean_of_whole_models_is_one_more_try(tmp_path: Path) -> None:
    """Every second word ends their answers: random weights do not, and writing 48 tokens to each prompt is most of the test."""
    model = small_model(tmp_path / "model")
    tries = []
    for number, scale in enumerate((1.0, 4.0)):
        loaded = load(model)
        for parameter in loaded.model.parameters():
            parameter.data.mul_(scale)
        own: Any = loaded.model.generation_config
        own.eos_token_id = list(range(0, loaded.model.config.vocab_size, 2))
        folder = tmp_path / f"try-{number}" / "model"
        loaded.model.save_pretrained(folder)
        loaded.tokenizer.save_pretrained(folder)
        tries.append({"run": str(folder.parent)})
    found = mean_of(tries, tmp_path / "mean", config(tmp_path, model))
    assert found["variant"] == {"mean_of": 2}
    assert found["answered"]["trials"] == len(validation_part("safety"))
    first, mean = load(model).model, load(str(tmp_path / "mean" / "model")).model
    for before, after in zip(first.parameters(), mean.parameters(), strict=True):
        torch.testing.assert_close(after, 2.5 * before)
