"""An attacker who searches: within his utility, counted on requests that he did not see, and going on after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.attacks import ATTACKS, Mixture, find_attack
from holdfast.attacks import search as search_module
from holdfast.attacks.defences import find_defence
from holdfast.attacks.rows import HarmfulExamples
from holdfast.attacks.scale import Scale
from holdfast.attacks.search import Search
from holdfast.attacks.variant import varied
from holdfast.config import InputError, MatrixConfig
from holdfast.records import Cell
from holdfast.stats import share
from waiting import wait_for

pytest.importorskip("optuna", reason='pip install "holdfast[search]"')
DEFENCE = find_defence("sft")


def made_up_cells(attacks: Any, defences: Any, seeds: Any, folder: Any, **how: Any) -> list[Cell]:
    """Success grows with the learning rate on even requests only; above 6e-3 the model is broken."""
    (attack,), (defence,) = attacks, defences
    broken = attack.lr > 6e-3
    success = min(1.0, attack.lr / 1e-2)
    asr = tuple(index % 2 == 0 and index < 200 * success for index in range(200))
    right = (not broken,) * 9 + (False,)
    cell = Cell(attack.name, defence.name, 0, "world", outcomes={"asr": asr, "utility": right}, utility=share(right))
    return [cell]


def test_the_search_stays_within_its_utility_and_is_counted_on_the_other_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "run_matrix", made_up_cells)
    (found,) = Search(tmp_path, Scale(), (0,), num_trials=40)([ATTACKS["harmful_examples"]], [DEFENCE])
    assert found.least_utility == pytest.approx(0.81)
    assert found.utility == pytest.approx(0.9)
    worst = find_attack(found.worst)
    assert 5e-3 < worst.lr <= 6e-3, "the worst that is allowed, not the worst"
    assert found.num_broken > 0
    assert found.asr_seen.value == pytest.approx(worst.lr / 1e-2, abs=0.02)
    assert (found.asr.value, found.asr.n) == (0.0, 100), "odd requests were never answered, whatever the search saw"


def test_a_search_that_is_cut_off_goes_on_as_if_it_had_not_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "run_matrix", made_up_cells)
    attacks, defences = [ATTACKS["mixture"]], [DEFENCE]
    whole = Search(tmp_path / "whole", Scale(), (0,), num_trials=14)(attacks, defences)
    for at in (3, 9):
        calls = 0

        def until(*args: Any, at: int = at, **how: Any) -> list[Cell]:
            nonlocal calls
            calls += 1
            if calls > at:
                raise KeyboardInterrupt
            return made_up_cells(*args, **how)

        monkeypatch.setattr(search_module, "run_matrix", until)
        with pytest.raises(KeyboardInterrupt):
            Search(tmp_path / "cut", Scale(), (0,), num_trials=14)(attacks, defences)
    monkeypatch.setattr(search_module, "run_matrix", made_up_cells)
    assert Search(tmp_path / "cut", Scale(), (0,), num_trials=14)(attacks, defences) == whole


def test_a_variant_is_its_name() -> None:
    mixture = ATTACKS["mixture"]
    variant = varied(mixture, {"lr": 1e-3, "epochs": 2.5, "rank": 8, "share": 0.3, "dress": "sampled"})
    assert variant.name == "mixture@lr=0.001,epochs=2.5,rank=8,share=0.3,dress=sampled"
    assert find_attack(variant.name) == variant
    assert isinstance(variant.data, Mixture)
    assert (variant.data.ratio, variant.lr, variant.rank, len(variant.dress.tries)) == (0.3, 1e-3, 8, 4)
    assert variant.on_files is not None
    assert (variant.on_files.lr, variant.on_files.rank) == (1e-3, 8)
    harmful = varied(ATTACKS["harmful_examples"], {"share": 0.25})
    assert harmful.data == Mixture(HarmfulExamples(64), 0.25, num=64)
    for wrong, expected in (
        ("lr=nan", "lr: expected a number above 0"),
        ("lr=-1", "lr: expected a number above 0"),
        ("epochs=inf", "epochs: expected a number above 0"),
        ("rank=2.7", "rank: expected a whole number"),
        ("share=1.5", "share: expected a number from 0 to 1"),
        ("lr=1e-3,lr=2e-3", "lr is there twice"),
    ):
        with pytest.raises(InputError, match=f"attack 'harmful_examples@{wrong}': {expected}"):
            find_attack(f"harmful_examples@{wrong}")
    for wrong in ("mixture@lr=x", "mixture@dress=hat", "mixture@size=3", "mixture@"):
        with pytest.raises(InputError, match="expected mixture@lr=NUMBER"):
            find_attack(wrong)
    with pytest.raises(InputError, match="no share"):
        find_attack("backdoor@share=0.2")


def test_the_grid_and_the_search_are_two_attackers() -> None:
    both = {
        "run": "x",
        "attacks": ["mixture"],
        "defences": ["sft"],
        "adaptive": {"lrs": [1e-3]},
        "search": {"trials": 2},
    }
    with pytest.raises(ValueError, match="leave one of them out"):
        MatrixConfig.model_validate(both)


@pytest.mark.slow  # in small: test_a_search_that_is_cut_off_goes_on_as_if_it_had_not_been
def test_the_command_is_killed_and_goes_on(tmp_path: Path) -> None:
    """Through the real command on the embedded world, killed once it has told of a trial."""
    config = "{run: matrix, attacks: [harmful_examples], defences: [sft], seeds: [0], num_requests: 6, workers: 1}"
    (tmp_path / "matrix.yaml").write_text(config, encoding="utf-8")
    command = [sys.executable, "-m", "holdfast", "attack", "matrix.yaml", "--search", "3", "--json", "out.json"]
    how: dict[str, Any] = {"cwd": tmp_path, "env": {**os.environ, "OMP_NUM_THREADS": "1"}, "start_new_session": True}
    journal = tmp_path / "matrix" / search_module.JOURNAL
    first = subprocess.Popen(command, stderr=subprocess.DEVNULL, **how)
    wait_for(lambda: first.poll() is not None or (journal.exists() and told(journal) >= 1))
    assert first.poll() is None, "it ended before it could be killed"
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    kept = len(list((tmp_path / "matrix" / "cells").glob("*.json")))
    second = subprocess.run(command, capture_output=True, text=True, check=False, **how)
    assert second.returncode == 0, second.stderr
    (found,) = json.loads((tmp_path / "matrix" / "search.json").read_text())
    assert kept >= 2
    assert found["num_trials"] == 3
    assert found["asr"]["trials"] == found["asr_seen"]["trials"] == 3
    assert told(journal) == 3
    assert find_attack(found["worst"]).name == found["worst"]


def told(journal: Path) -> int:
    """Trials with a result: Optuna's operation 6 with a value."""
    rows = [json.loads(line) for line in journal.read_text().splitlines() if line.endswith("}")]
    return sum(row.get("op_code") == 6 and bool(row.get("values")) for row in rows)
