"""The arithmetic of the benchmark of defended runs and of the tables of growth, by hand."""

from typing import Any

import pytest
from benchmarks import audit, cost_page, defended_cpu, growth, grpo, page
from benchmarks.defended_gpu import RECIPE, ratios
from benchmarks.defended_steps import floor


def step(way: str, ms: float, operations: float, peak: float = 10.0) -> dict[str, Any]:
    products = {"operations": operations}
    return {"rows": RECIPE.name, "way": way, "ms": ms, "optimizer ms": 10.0, "peak GB": peak, "products": products}


NOTHING: dict[str, Any] = {"steps": [], "memory": [], "answers": [], "grpo": [], "failed": [], "products": {}}


def test_the_floor_charges_the_optimizer_once() -> None:
    """100 ms of passes for 100 operations: 150 operations take 150, and the optimizer its 10."""
    assert floor(step("defended", 200, 150), step("sft", 110, 100)) == pytest.approx(160)


def test_ratios_of_what_was_measured_and_no_others() -> None:
    assert ratios(NOTHING) == []
    found = {**NOTHING, "steps": [step("sft", 110, 100), step("defended", 200, 150, peak=12.0)]}
    measured = {row["ratio"]: row["measured"] for row in ratios(found)}
    assert measured == {
        "1.5B full: a step, defended / our plain sft": 1.818,
        "1.5B full: a step, defended / its floor": 1.25,
        "1.5B full: peak, defended / our plain sft": 1.2,
    }


def test_an_audit_and_its_row_of_the_first_table() -> None:
    """66 s against 60 s are 1.1; judges that take 3 s of 50 s take 6 %."""
    measured = {"model": "small", "audit s": 66.0, "transformers s": 60.0, "answers s": 50.0, "judges s": 3.0}
    rows = audit.ratios(measured)
    assert [row["measured"] for row in rows] == [1.1, 0.06]
    text = cost_page.answers({"audit": {"ratios": rows, "audits": [measured]}}, page._table)
    assert "(small) | 1.10 times transformers' own generation; judges 6.0% of it | `benchmarks.audit` |" in text


def test_a_defended_step_on_a_cpu_and_its_row_of_the_first_table() -> None:
    """4 s against 10 s are 0.4, 2 against 8 are 0.25, and 4 s against the 2 s of plain sft are 2."""
    seconds = {
        ("sft", "bfloat16"): 2.0,
        ("sft", "float32"): 8.0,
        ("defended", "bfloat16"): 4.0,
        ("defended", "float32"): 10.0,
    }
    steps = [
        {"model": "small", "way": way, "dtype": dtype, "CPU seconds of a step": value}
        for (way, dtype), value in seconds.items()
    ]
    rows = defended_cpu.ratios(steps)
    assert [row["measured"] for row in rows] == [0.4, 0.25, 2.0]
    text = cost_page.answers({"defended_cpu": {"ratios": rows, "steps": steps}}, page._table)
    assert "(small) | 0.40 times a step in float32; 2.00 times plain sft | `benchmarks.defended_cpu` |" in text


def test_a_grpo_step_and_its_row_of_the_first_table() -> None:
    """30 tokens a second against 24 take 0.8 of the time; 510 MB are 1.02 of 500."""
    steps = [{"model": "small", "tokens per CPU second": rate} for rate in (30.0, 24.0)]
    rows = grpo.ratios(steps, {"MB after 50 steps": 500.0, "MB after 200 steps": 510.0})
    assert [row["measured"] for row in rows] == [0.8, 1.02]
    text = cost_page.answers({"grpo": {"ratios": rows, "steps": steps}}, page._table)
    assert "(small) | 0.80 times the time of TRL's GRPOTrainer; memory of `tiny:aligned` after 200 steps: 1.02" in text


def test_exponents() -> None:
    assert growth.exponent([1, 10, 100], [2.0, 20.0, 200.0]) == 1.0
    assert growth.exponent([1, 10, 100], [0.3, 0.3, 0.3]) == 0.0
    assert growth.exponent([2, 4, 8], [4.0, 16.0, 64.0]) == 2.0
    assert growth.exponent([1, 10], [0.0, 5.0]) is None


def test_the_first_table_leaves_out_what_is_not_measured() -> None:
    assert "on a GPU: a defended step, LoRA of 8B" in cost_page.answers({}, page._table)
    found = {
        **NOTHING,
        "ratios": [{"ratio": "1.5B LoRA: a step, defended / our plain sft", "measured": 1.4, "goal": None}],
    }
    text = cost_page.answers({"defended_gpu": found}, page._table)
    assert "| a step of the recipe `defended` against plain sft | LoRA 1.40 times |" in text
    assert "Doubt" not in text
    assert "\n\nDoubt: measured cold." in cost_page.answers(
        {"defended_gpu": {**found, "doubt": "measured cold"}}, page._table
    )
    assert "on a GPU: a defended step, LoRA of 8B" in text  # of the steps themselves there are none
