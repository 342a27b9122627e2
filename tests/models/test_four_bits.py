"""Weights rounded to 16 levels in groups: numbers worked by hand, and what is left alone."""

from pathlib import Path

import pytest
import torch

from attacks.small_setting import small_model
from holdfast.models import load, round_linear_layers, rounded_to_4_bits


def test_levels_go_from_the_least_to_the_greatest_weight_of_a_group() -> None:
    """Group 1: 0 to 15, levels 1 apart: 7.4 -> 7, 7.6 -> 8. Group 2: -3 to 0, levels 0.2 apart: -1.27 -> -1.2 (level 9)."""
    weight = torch.tensor([[0.0, 7.4, 7.6, 15.0, -3.0, -1.27, 0.0, -1.35]])
    expected = torch.tensor([[0.0, 7.0, 8.0, 15.0, -3.0, -1.2, 0.0, -1.4]])
    torch.testing.assert_close(rounded_to_4_bits(weight, group=4), expected)


def test_every_group_has_at_most_16_values_and_none_is_further_off_than_half_a_step() -> None:
    weight = torch.randn(5, 150, generator=torch.Generator().manual_seed(0))
    rounded = rounded_to_4_bits(weight, group=64)
    for row in range(5):
        for before, after in zip(weight[row].split(64), rounded[row].split(64), strict=True):
            assert len(after.unique()) <= 16
            step = (before.max() - before.min()) / 15
            assert (before - after).abs().max() <= step / 2 + 1e-6
    torch.testing.assert_close(rounded_to_4_bits(rounded, group=64), rounded, msg="twice is as once")


def test_a_group_of_one_value_and_the_precision_stay() -> None:
    weight = torch.full((2, 8), 0.3, dtype=torch.bfloat16)
    assert torch.equal(rounded_to_4_bits(weight, group=8), weight)
    assert rounded_to_4_bits(weight).dtype == torch.bfloat16


@pytest.mark.parametrize("group", [8, 64])
def test_linear_layers_are_rounded_in_place_and_the_rest_is_left(tmp_path: Path, group: int) -> None:
    model = load(small_model(tmp_path), device="cpu").model
    before = {name: weights.clone() for name, weights in model.named_parameters()}
    assert round_linear_layers(model, group) == 2 * 7
    for name, weights in model.named_parameters():
        is_layer = "proj" in name
        assert torch.equal(weights, before[name]) != is_layer, name
        if is_layer:
            torch.testing.assert_close(weights, rounded_to_4_bits(before[name], group))
