"""``model.dtype`` of a run: small steps must not be lost in the rounding of the weights that they change."""

from pathlib import Path

import pytest
import torch

from holdfast.models import load, load_tokenizer
from training.runs import config, run, weights


@pytest.fixture
def in_bfloat16(tmp_path: Path, small_model: Path) -> Path:
    """The small model as a vendor would publish it."""
    folder = tmp_path / "bfloat16"
    load(str(small_model), dtype="bfloat16", device="cpu").model.save_pretrained(folder)
    load_tokenizer(str(small_model)).save_pretrained(folder)
    return folder


def changed(tmp_path: Path, model: Path, dtype: str, said: list[str]) -> float:
    """The share of all weights that four small steps have changed."""
    steps = {"max_steps": 4, "lr": 1e-5}
    before = load(str(model), dtype="float32", device="cpu").model.state_dict()
    after = weights(run(config(tmp_path / dtype, model, model={"dtype": dtype}, training=steps), said).model)
    moved = torch.cat([(after[name].float() != before[name]).flatten() for name in after])
    return float(moved.float().mean())


def test_where_all_weights_are_trained_auto_is_float32(tmp_path: Path, in_bfloat16: Path) -> None:
    """And the model says so. In bfloat16 most of the weights stay what they were, in silence elsewhere; here a line tells."""
    said: list[str] = []
    assert changed(tmp_path, in_bfloat16, "auto", said) > 0.9
    assert any("float32 (all weights are trained)" in line for line in said)
    assert not any("rounds" in line for line in said)
    assert changed(tmp_path, in_bfloat16, "bfloat16", said) < 0.5
    assert any(line.startswith("model.dtype: bfloat16 rounds most steps") for line in said)


def test_adapters_leave_the_weights_in_the_dtype_of_auto(
    tmp_path: Path, in_bfloat16: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adapters are float32 in any case, and the weights below them do not move."""
    monkeypatch.setattr("holdfast.models.placement.multiplies_bfloat16", lambda: True)
    said: list[str] = []
    run(config(tmp_path / "run", in_bfloat16, model={"dtype": "auto"}, lora={"r": 2}, training={"max_steps": 1}), said)
    assert any("bfloat16 (this CPU multiplies it faster)" in line for line in said)
    assert not any("rounds" in line for line in said)
