from pathlib import Path

import torch

from conftest import save_small_model
from holdfast.models import interpolated, load


def test_interpolation_mixes_every_weight(tmp_path: Path) -> None:
    anchor = save_small_model(tmp_path / "anchor")
    tuned = load(str(anchor), device="cpu")
    with torch.no_grad():
        for parameter in tuned.model.parameters():
            parameter += 1.0
    tuned.model.save_pretrained(tmp_path / "tuned")
    tuned.tokenizer.save_pretrained(tmp_path / "tuned")
    mixed = load(str(interpolated(tmp_path / "tuned", anchor, 0.75, tmp_path / "mixed")), device="cpu")
    before = dict(load(str(anchor), device="cpu").model.named_parameters())
    for name, parameter in mixed.model.named_parameters():
        torch.testing.assert_close(parameter, before[name] + 0.25)
