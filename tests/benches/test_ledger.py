"""The gate of the benchmarks, and the arithmetic of the table of larger runs, by hand."""

from pathlib import Path

import pytest
from benchmarks import ledger, page, scaling


def row(name: str, measured: float) -> dict[str, object]:
    return {"ratio": name, "measured": measured, "goal": 1.0}


def test_a_ratio_more_than_a_tenth_worse_fails() -> None:
    before = {"ratios": [row("one", 1.0), row("two", 0.5)]}
    ledger.finish([row("one", 1.09), row("two", 0.1), row("new", 9.0)], before)
    with pytest.raises(SystemExit, match=r"one: 1\.110, was 1\.000"):
        ledger.finish([row("one", 1.11), row("two", 0.1)], before)


def test_a_ratio_above_its_gate_fails_even_where_it_was_committed() -> None:
    gated = {**row("one", 1.1), "gate": True}
    ledger.finish([row("one", 1.1)], {"ratios": [row("one", 1.1)]})
    with pytest.raises(SystemExit, match="above the goal:\none"):
        ledger.finish([gated], {"ratios": [gated]})
    ledger.finish([{**gated, "measured": 1.0}], None)


def test_a_model_is_named_without_the_folders_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "small.gguf"
    file.touch()
    assert ledger.model_name(str(file)) == "small"
    assert ledger.model_name(str(tmp_path)) == tmp_path.name
    assert ledger.model_name("tiny:aligned") == "tiny:aligned"
    for model, word in ((file, "FILE"), (tmp_path, "FOLDER")):
        monkeypatch.setattr("sys.argv", ["benchmarks/audit.py", str(model), "--json", "here.json"])
        assert ledger.provenance(str(model))["command"] == f"python -m benchmarks.audit {word}"


def test_results_are_read_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "RESULTS", tmp_path)
    everything = {"date": "2026-01-01", "ratios": [row("one", 1.0)], "heads": []}
    ledger.write(tmp_path / "cpu.json", everything)
    assert ledger.committed("cpu") == everything
    assert ledger.committed("missing") is None


def test_the_page_is_what_the_committed_results_make() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.text()


def test_larger_runs_by_hand() -> None:
    """A model of 8e9 parameters in 32 layers of width 4096, vocabulary 100,000, 8,192 tokens, 100 TFLOP/s.

    Full: 18 * 8 = 144 GB of state do not fit a GPU of 120; on two they are 72. Gathered 4 * 8 / 32 = 1 GB; activations
    98 * 4096 * 8192 bytes = 3.29 GB; a step 10 * 8e9 * 8192 / 1e14 = 6.55 s. LoRA: 2.16 * 8 = 17.28 GB on one.
    """
    model = scaling.Model("8B", 8e9, 32, 4096, 100_000)
    full, lora = scaling.need(model, 1e14, lora=False), scaling.need(model, 1e14, lora=True)
    assert (full.num_gpus, full.state, full.gathered) == (2, 72e9, 1e9)
    assert full.activations == 98 * 4096 * 8192
    assert full.seconds == pytest.approx(6.5536)
    assert (lora.num_gpus, lora.state, lora.gathered) == (1, pytest.approx(17.28e9), 0)
    assert scaling.cache_bytes(model, 1e6) == (8e6, 8e6 + 8192e6 + 2 * 100_000 * 4096)
