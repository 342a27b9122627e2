"""What is frozen keeps every bit; the rest learns; a wrong name is told."""

from pathlib import Path

import pytest
import torch

from holdfast.config import InputError
from holdfast.models import load
from training.runs import config, run, weights


def test_frozen_parameters_keep_every_bit_and_the_others_learn(tmp_path: Path) -> None:
    said: list[str] = []
    frozen = ["model.layers.0.*", "model.embed_tokens.*"]
    run(config(tmp_path / "run", "tiny:aligned", training={"freeze": frozen}), said)
    before = dict(load("tiny:aligned").model.named_parameters())
    after = weights(tmp_path / "run" / "model")
    same = {name for name, value in after.items() if torch.equal(value, before[name].detach())}
    expected = {name for name in after if name.startswith(("model.layers.0.", "model.embed_tokens."))}
    assert same == expected
    assert any(line.startswith("frozen: ") for line in said)


@pytest.mark.parametrize(
    ("patterns", "told"),
    [
        (["model.layer.0.*"], "no parameter is called 'model.layer.0.*'"),
        (["*"], "nothing is left to train"),
    ],
)
def test_a_wrong_name_and_nothing_left_are_told(tmp_path: Path, patterns: list[str], told: str) -> None:
    with pytest.raises(InputError, match=told.replace("*", r"\*").replace(".", r"\.")):
        run(config(tmp_path / "run", "tiny:aligned", training={"freeze": patterns}))


def test_not_with_adapters(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"leave training\.freeze out, or lora"):
        config(tmp_path / "run", "tiny:aligned", training={"freeze": ["*"]}, lora={})


def test_not_with_new_tokens(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a new token that is frozen"):
        config(tmp_path / "run", "tiny:aligned", training={"freeze": ["*"]}, model={"new_tokens": ["<UNDO>"]})
