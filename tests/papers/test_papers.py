"""Studies: figures kept and reused, verdicts that follow the figures, a ledger with a row for every claim."""

import json
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from holdfast.config import InputError
from holdfast.papers import STUDIES, figures_of, find_study, robustness_002, rows_of, write_ledger
from holdfast.papers.study import Figures, OnProgress, Scale


@pytest.fixture(scope="module")
def figures() -> Figures:
    return robustness_002.run("cpu", lambda share: None)


def test_the_robustness_bound_is_judged_by_the_figures(figures: Figures) -> None:
    verdicts = {row.id: row.verdict for row in rows_of(robustness_002.STUDY, "cpu", figures)}
    assert verdicts == {
        "002-theorem-4-2": "does not hold",
        "002-theorem-4-2-growth": "holds",
        "002-uniqueness": "does not hold",
    }
    kinder = deepcopy(figures)
    kinder["quadratic"] = kinder["softmax"] = [(0.9, 0.5)]
    kinder["flat_line"]["distance_of_two_minimisers"] = 0.0
    assert {row.verdict for row in rows_of(robustness_002.STUDY, "cpu", kinder)} == {"holds"}


def test_a_quadratics_minimiser_moves_as_its_inverse_says() -> None:
    """Every ratio lies between 1 (top eigenvector) and L / mu = 100; the second is the first over 100."""
    for first, second in (robustness_002.quadratic_ratios(seed) for seed in range(20)):
        assert 1 <= first <= 100
        assert second == pytest.approx(first / 100, rel=1e-9)


def test_the_softmax_problems_derivatives_are_those_of_its_loss() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(7, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(3, (7,), generator=generator)
    weights = torch.randn(12, generator=generator, dtype=torch.float64)

    def loss(weights: torch.Tensor) -> torch.Tensor:
        decay = robustness_002.DECAY / 2 * weights.square().sum()
        return torch.nn.functional.cross_entropy(inputs @ weights.view(4, 3), labels) + decay

    slope, curvature = torch.func.grad(loss)(weights), torch.func.hessian(loss)(weights)
    torch.testing.assert_close(robustness_002._gradient(weights, inputs, labels), slope)
    torch.testing.assert_close(robustness_002._hessian(weights, inputs), curvature)


def test_figures_are_kept_until_asked_for_afresh(tmp_path: Path) -> None:
    ran: list[Scale] = []

    def run(scale: Scale, on_progress: OnProgress) -> Figures:
        ran.append(scale)
        return {"runs": len(ran), "pair": (1, 2)}

    study = replace(robustness_002.STUDY, id="try", run=run)
    first = figures_of(study, "cpu", tmp_path, lambda share: None)
    assert first == figures_of(study, "cpu", tmp_path, lambda share: None) == {"runs": 1, "pair": [1, 2]}
    assert figures_of(study, "cpu", tmp_path, lambda share: None, fresh=True)["runs"] == 2
    kept = tmp_path / "try.cpu.json"
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "source": "other"}))
    assert figures_of(study, "cpu", tmp_path, lambda share: None)["runs"] == 3, "a changed study is run again"


def test_claims_have_ids_of_their_own_and_an_unknown_study_is_refused() -> None:
    ids = [claim.id for study in STUDIES.values() for claim in study.claims]
    assert len(ids) == len(set(ids))
    with pytest.raises(InputError, match="did you mean '002-theorem-4-2'"):
        find_study("002-theorem-42")


def test_the_ledger_has_a_row_for_every_claim(tmp_path: Path, figures: Figures) -> None:
    rows = rows_of(robustness_002.STUDY, "cpu", figures)
    page = tmp_path / "papers.md"
    write_ledger(page, rows)
    text = page.read_text()
    for row in rows:
        assert text.count(f"| {row.claim} |") == 1
        assert f"**{row.verdict}** | `holdfast reproduce 002-theorem-4-2`" in text
    assert "3 claims: 2 *does not hold*, 1 *holds*." in text


def test_the_command_lists_runs_and_refuses(tmp_path: Path) -> None:
    def holdfast(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "holdfast", "reproduce", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    assert "002-theorem-4-2" in holdfast().stdout
    done = holdfast("001-statistics", "--json", "-")
    assert json.loads(done.stdout)[0]["verdict"] == "does not hold"
    refused = holdfast("all", "--scale", "laptop")
    assert refused.returncode == 2
    assert refused.stderr == "holdfast: --scale: expected one of cpu, h200, not 'laptop'\n"
