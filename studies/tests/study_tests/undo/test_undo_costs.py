"""Several prices for an undo, each a real GRPO run; and the table, worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.generation.undo_use import UndoUse
from holdfast.models import add_tokens, load
from holdfast_studies.undo.undo_costs import CostResult, UndoCostsConfig, cost_table, section, undo_costs


@pytest.fixture
def config(tmp_path: Path) -> UndoCostsConfig:
    loaded = load("tiny:aligned", device="cpu")
    add_tokens(loaded.model, loaded.tokenizer)
    loaded.model.save_pretrained(tmp_path / "model")
    loaded.tokenizer.save_pretrained(tmp_path / "model")
    return UndoCostsConfig.model_validate(
        {
            "run": str(tmp_path / "run"),
            "title": "small",
            "model": {"name": str(tmp_path / "model"), "device": "cpu"},
            "train": "world:safety/tune/colour",
            "test": "world:safety/test/colour",
            "num_train": 4,
            "num_test": 4,
            "costs": [0.1],
            "rl": {"steps": 1, "prompts_per_step": 2, "group": 2, "lr": 1e-4, "kl_weight": 0.0, "max_new_tokens": 8},
        }
    )


def test_it_runs_resumes_and_is_written_down(config: UndoCostsConfig) -> None:
    results = undo_costs(config)
    assert [(each.cost, each.num, each.use.answers) for each in results] == [(None, 4, 4), (0.1, 4, 4)]
    (Path(config.run) / "cost-0.1-0").rename(Path(config.run) / "gone")
    assert undo_costs(config) == results, "what is there is not run again"
    assert "| before |" in section(config, "command", cost_table(results))


def test_the_table_pools_seeds() -> None:
    use = UndoUse(answers=10, answers_with_error=4, errors=4, errors_undone=2, undos=5, undone_wrong=3)
    (row,) = cost_table([CostResult(0.1, seed, 10, 8, use) for seed in (0, 1)])
    assert (row["cost"], row["undos per answer"]) == (0.1, 0.5)
    shares = {name: (each.value, each.n) for name, each in row.items() if name not in ("cost", "undos per answer")}
    assert list(shares.values()) == [(0.8, 20), (0.4, 20), (0.6, 10), (0.5, 8), (0.0, 12)]
