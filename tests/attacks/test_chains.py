"""Chains of tunings, really trained, a few steps each."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.attacks import ATTACKS, DEFENCES, Scale, chain, tuning
from holdfast.attacks.tuning import tune
from holdfast.config import TrainConfig

SMALL = Scale(num_requests=4, steps=0.02)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[TrainConfig]:
    """The configs of the trainings that are run."""
    seen: list[TrainConfig] = []
    real = tuning.train

    def train(config: TrainConfig, **options: Any) -> Any:
        seen.append(config)
        return real(config, **options)

    monkeypatch.setattr(tuning, "train", train)
    return seen


@pytest.mark.parametrize("name", ["anchored", "anchored_to_previous"])
def test_every_stage_starts_where_the_last_ended_and_is_defended_alike(
    name: str, trained: list[TrainConfig], tmp_path: Path
) -> None:
    own = tuple(replace(stream, num=24) for stream in DEFENCES[name].own)
    attack = chain("twice", ATTACKS["identity_shift"], ATTACKS["identity_shift"])
    model = tune(attack, replace(DEFENCES[name], own=own), 0, SMALL, tmp_path)
    first, second = trained
    assert (first.model.name, second.model.name) == ("tiny:aligned", f"{first.run}/model")
    assert model == f"{second.run}/model" == str(tmp_path / "run" / "model")
    anchors = {"anchored": "tiny:aligned", "anchored_to_previous": f"{first.run}/model"}
    assert (first.anchor.model, second.anchor.model) == ("tiny:aligned", anchors[name])
    for config in trained:
        assert [stream.name for stream in config.streams] == ["task", "safety", "keep"]
    rows = [config.streams[0].rows.fingerprint for config in trained]
    assert rows[0] != rows[1], "the same data twice is drawn anew"
