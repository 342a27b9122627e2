import json

import pytest
import torch
from safetensors.torch import load_file

from holdfast.models import TINY
from holdfast.models.embedded import FOLDER
from holdfast.stats import Estimate
from holdfast_studies.builders.build_tiny import FIGURES_FILE, build, measure_stored, weights_hash
from holdfast_studies.builders.measure_tiny import shortcomings


def test_a_short_build_is_bitwise_repeatable_and_leaves_torch_as_it_was(tmp_path):
    torch.manual_seed(5)
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), torch.random.get_rng_state()
    losses = {"a": [], "b": []}
    for run, seen in losses.items():
        build(tmp_path / run, share=0.004, on_step=lambda name, loss, seen=seen: seen.append((name, loss)))
    assert losses["a"] == losses["b"]
    assert {name for name, _ in losses["a"]} == set(TINY)
    for name in TINY:
        assert weights_hash(tmp_path / "a" / name) == weights_hash(tmp_path / "b" / name)
    assert weights_hash(tmp_path / "a" / "base") != weights_hash(tmp_path / "a" / "aligned")
    after = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), torch.random.get_rng_state()
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])


@pytest.mark.slow
def test_the_shipped_models_are_what_the_command_makes(tmp_path):
    """Bit for bit on a machine like the one they were made on; elsewhere (other CPU, other torch) by their figures."""
    build(tmp_path)
    stored = json.loads((FOLDER / FIGURES_FILE).read_text("utf-8"))
    if all(weights_hash(tmp_path / name) == stored["sha256"][name] for name in TINY):
        return
    figures = measure_stored(tmp_path)
    assert shortcomings(figures["base"], figures["aligned"]) == []
    for name in TINY:
        assert (
            load_file(tmp_path / name / "model.safetensors").keys()
            == load_file(FOLDER / name / "model.safetensors").keys()
        )
        for key, rate in figures[name].items():
            shipped = Estimate.from_json(stored["figures"][name][key], n="num")
            assert abs(rate.value - shipped.value) < 0.05, f"{name}: {key}: {rate} here, {shipped} shipped"
