"""`training.lr: auto` by the model's width; what is no rate is one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config import InputError, TrainConfig, load_config
from holdfast.models import load
from holdfast.training.arguments import choose_learning_rate, learning_rate
from training.runs import config


@pytest.mark.parametrize(
    ("width", "lora", "rate"),
    [(4096, False, 2e-5), (4096, True, 2e-4), (576, False, 1.4e-4), (576, True, 9.1e-4), (64, False, 1.3e-3), (64, True, 4.9e-3)],
)  # fmt: skip
def test_the_rule_by_hand(width: int, lora: bool, rate: float) -> None:
    """2e-5 * 4096 / 64 = 1.28e-3; 2e-4 * 64 ** 0.77 = 2e-4 * 24.6 = 4.92e-3; 2e-4 * 7.11 ** 0.77 = 9.06e-4."""
    assert learning_rate(width, lora=lora) == rate


def test_a_rate_that_was_asked_for_is_taken_and_auto_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    model = load("tiny:aligned").model
    asked = config(tmp_path, "tiny:aligned", training={"lr": 0.25})
    assert choose_learning_rate(asked, model, said.append) == 0.25
    assert said == []
    auto = config(tmp_path, "tiny:aligned", training={"lr": "auto"}, lora={"r": 2})
    assert choose_learning_rate(auto, model, said.append) == 4.9e-3
    assert said == ["training.lr: 0.0049, chosen for a model 64 wide with LoRA"]


@pytest.mark.parametrize("wrong", ["0", "-1e-3", ".inf", "fast", "true", "null"])
def test_what_is_no_rate_is_one_line(wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("{run: r, model: 'tiny:aligned', streams: [{data: rows.jsonl}]}")
    with pytest.raises(InputError) as caught:
        load_config(TrainConfig, path, [f"training.lr={wrong}"])
    (line,) = str(caught.value).splitlines()
    assert line.startswith("command line: field 'training.lr': expected a number above 0, or auto, got ")
