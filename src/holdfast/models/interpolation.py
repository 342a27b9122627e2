"""Weights mixed back towards the anchor."""

from __future__ import annotations

from pathlib import Path

import torch

from holdfast.models.load import load


@torch.no_grad()
def interpolated(tuned: str | Path, anchor: str | Path, share: float, out: Path) -> Path:
    """Write (1 - share) tuned + share anchor, both of one shape, as a model folder."""
    assert 0 <= share <= 1
    mixed, other = load(str(tuned), dtype="float32", device="cpu"), load(str(anchor), dtype="float32", device="cpu")
    theirs = dict(other.model.named_parameters())
    for name, parameter in mixed.model.named_parameters():
        parameter.lerp_(theirs[name], share)
    mixed.model.save_pretrained(out)
    mixed.tokenizer.save_pretrained(out)
    return out
