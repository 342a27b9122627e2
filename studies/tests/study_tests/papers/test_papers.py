"""Studies: figures kept and reused, verdicts that follow the figures, a ledger with a row for every claim."""

import json
import re
import shutil
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from docs.pages import ROOT
from holdfast.cli import app
from holdfast.config import InputError
from holdfast_studies.papers import robustness_002
from holdfast_studies.papers.divergence_000 import READINGS
from holdfast_studies.papers.figure_files import Kept, kept_figures, make_figures
from holdfast_studies.papers.fingerprint import fingerprint, inputs
from holdfast_studies.papers.ledger import write_ledger
from holdfast_studies.papers.registry import find_study, studies
from holdfast_studies.papers.running import rows_of, run_studies, stored
from holdfast_studies.papers.study import Figures, Machine, OnProgress, Study

STUDY = robustness_002.STUDY


def kept(figures: Figures, study: Study = STUDY) -> Kept:
    made = {"date": "2026-01-01", "version": "0", "seconds": 1.0}
    return Kept(study=study.id, scale="cpu", source=fingerprint(study), figures=figures, **made)


def verdicts(figures: Figures, study: Study = STUDY) -> dict[str, str]:
    return {row.id: row.verdict for row in rows_of(study, kept(figures, study))}


@pytest.fixture(scope="module")
def figures() -> Figures:
    return robustness_002.run("cpu", lambda share: None)


def test_the_robustness_bound_is_judged_by_the_figures(figures: Figures) -> None:
    assert verdicts(figures) == {
        "002-theorem-4-2": "does not hold",
        "002-theorem-4-2-growth": "holds",
        "002-uniqueness": "does not hold",
    }
    kinder = deepcopy(figures)
    kinder["quadratic"] = kinder["softmax"] = [(0.9, 0.5)]
    kinder["flat_line"]["distance_of_two_minimisers"] = 0.0
    assert set(verdicts(kinder).values()) == {"holds"}


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


def test_figures_are_kept_with_when_and_how(tmp_path: Path) -> None:
    def run(scale: Machine, on_progress: OnProgress) -> Figures:
        return {"pair": (1, 2)}

    study = replace(STUDY, id="try", run=run)
    assert kept_figures(study, "cpu", tmp_path) is None
    made = make_figures(study, "cpu", tmp_path, lambda share: None)
    assert made == kept_figures(study, "cpu", tmp_path)
    assert made.figures == {"pair": [1, 2]}
    file = tmp_path / "try.cpu.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "source": "other"}))
    assert kept_figures(study, "cpu", tmp_path) is None, "figures of another set-up do not count"
    file.write_text("{")
    with pytest.raises(InputError, match="not the figures of a study"):
        kept_figures(study, "cpu", tmp_path)


def arms(folder: Path, log_p: float) -> None:
    """Two seeds of either objective, as `holdfast diagnose safety-gap` leaves them."""
    folder.mkdir(parents=True, exist_ok=True)
    for objective in ("sft", "masked_sft"):
        for seed in (0, 1):
            ends = dict.fromkeys(READINGS, 0.5)
            curve = {"0": ends, "9": {**ends, "log_p_error": log_p if objective == "sft" else -9.0}}
            row = {"arm": {"objective": objective, "context": "soft"}, "curve": curve}
            (folder / f"{objective}-{seed}.json").write_text(json.dumps(row))


def test_figures_of_finished_runs_are_made_again_when_those_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_RUNS", str(tmp_path / "runs"))
    study, folder = find_study("000-theorem-c-smollm2"), tmp_path / "kept"

    def here(studies: list[Study], scale: Machine, *_: object) -> dict[str, str]:
        """In this process: others take seconds to begin."""
        for each in studies:
            make_figures(each, scale, folder, lambda share: None)
        return {}

    monkeypatch.setattr("holdfast_studies.papers.running._run", here)

    def gap() -> float:
        measured = rows_of(study, run_studies([study], "h200", folder).kept[study.id])[0].measured
        assert measured is not None
        return measured.value

    arms(tmp_path / "runs" / "undo-smollm2-sql" / "arms", -5.0)
    assert gap() == 4.0
    made = (folder / f"{study.id}.h200.json").stat().st_mtime_ns
    assert gap() == 4.0
    assert (folder / f"{study.id}.h200.json").stat().st_mtime_ns == made, "nothing has changed"
    arms(tmp_path / "runs" / "undo-smollm2-sql" / "arms", -3.0)
    assert rows_of(study, stored([study], folder)[study.id])[0].found.count("+4.00"), (
        "what is stored is what is asked for"
    )
    assert gap() == 6.0
    shutil.rmtree(tmp_path / "runs")
    assert gap() == 6.0, "nobody can tell"
    kept = json.loads((folder / f"{study.id}.h200.json").read_text())
    del kept["inputs"]  # as older versions wrote them
    (folder / f"{study.id}.h200.json").write_text(json.dumps(kept))
    arms(tmp_path / "runs" / "undo-smollm2-sql" / "arms", -2.0)
    assert gap() == 6.0


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("000-theorem-c-smollm2", "runs/undo-smollm2-gsm8k/arms/sft-0.json"),
        ("001-claims", "runs/oversight/refusal.samples.jsonl"),
        ("002-tables-qwen", "docs/results/qwen/stage1/cells/sft.json"),
        ("002-tables-smollm2", "runs/smollm2/tables/cells/backdoor.json"),
    ],
)
def test_the_studies_that_read_finished_runs_say_so(
    name: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_RUNS", raising=False)
    monkeypatch.delenv("HOLDFAST_OVERSIGHT", raising=False)
    study = find_study(name)
    assert inputs(study, "h200") is None, "not in the repository either"
    shutil.copytree(ROOT / "studies" / "configs" / "smollm2", tmp_path / "studies" / "configs" / "smollm2")
    Path(file).parent.mkdir(parents=True)
    seen = {inputs(study, "h200")}
    for text in ("one", "another"):
        Path(file).write_text(text)
        seen.add(inputs(study, "h200"))
    assert len(seen) == 3


SOURCE = '''
SIZE = 3
OTHER = 5

def run(scale, on_progress):
    """Words."""
    return helper(SIZE)

def helper(x):
    return {"x": x}

def judge(figures):
    return OTHER

STUDY = [x for x in (1, 2)]
'''


def test_the_fingerprint_sees_what_run_reaches_and_nothing_else(tmp_path: Path) -> None:
    def of(source: str) -> str:
        file = tmp_path / "study.py"
        file.write_text(source)
        space: dict[str, object] = {}
        exec(compile(source, str(file), "exec"), space)
        return fingerprint(replace(STUDY, run=space["run"]))  # type: ignore[arg-type]

    same = of(SOURCE)
    assert same == of(SOURCE.replace("Words", "Other words").replace("OTHER = 5", "OTHER = 6"))
    assert same == of(SOURCE.replace("(1, 2)", "(1, 3)")), "the x of STUDY is another one than helper's"
    assert same == of(SOURCE.replace("helper(SIZE)", "helper(SIZE)\n"))
    assert same != of(SOURCE.replace("SIZE = 3", "SIZE = 4"))
    assert same != of(SOURCE.replace('{"x": x}', '{"x": x + 1}'))


def test_claims_have_ids_of_their_own_and_an_unknown_study_is_refused() -> None:
    ids = [claim.id for study in studies().values() for claim in study.claims]
    assert len(ids) == len(set(ids))
    assert find_study("002-uniqueness") is STUDY, "a claim's id finds its study"
    assert {study.paper for study in studies().values()} >= {"001", "002", "004"}
    assert all(name.startswith(f"{study.paper}-") for study in studies().values() for name in [study.id])
    with pytest.raises(InputError, match="did you mean '002-theorem-4-2'"):
        find_study("002-theorem-42")


def test_the_ledger_has_a_row_for_every_claim(tmp_path: Path, figures: Figures) -> None:
    page = tmp_path / "papers.md"
    gpu = replace(STUDY, id="002-large", seconds={"h200": 5.0})
    write_ledger(page, [STUDY, gpu], {STUDY.id: kept(figures)})
    text = page.read_text()
    for row in rows_of(STUDY, kept(figures)):
        assert text.count(f"| {row.id} | {row.claim} |") == 2
        assert f"**{row.verdict}**" in text
    assert "6 claims; 4 rows are errata." in text
    assert "| mathematics (theorems, identities, worked examples) | 6 | 1 | 0 | 2 | 3 |" in text
    assert "| experiments | 0 | 0 | 0 | 0 | 0 |" in text
    assert "| softmax problems | 6 | 1 | 0 | 2 | 3 |" in text
    assert "| after | 6 | 1 | 0 | 2 | 3 |" in text
    assert "needed: `holdfast reproduce 002-large --scale h200`" in text
    assert "| `002-large` | " in text


def test_studies_run_in_processes_are_kept_and_not_run_again(tmp_path: Path) -> None:
    quick = [find_study("002-tables-statistics"), find_study("004-appendix-c")]
    chosen = [*quick, find_study("002-llama-2"), replace(STUDY, seconds={"h200": 9.0})]
    heard: list[tuple[float, float]] = []
    ran = run_studies(chosen, "cpu", tmp_path, on_shares=lambda *each: heard.append(each[:2]))
    assert set(ran.kept) == {study.id for study in quick}, "what needs a GPU, or cannot be run, is left alone"
    assert not ran.failed
    assert heard[-1][0] == heard[-1][1], "all the work is done at the end"
    times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert run_studies(chosen, "cpu", tmp_path).kept == ran.kept == stored(chosen, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == times
    with pytest.raises(InputError, match="no figures, or figures of an older set-up, for 002-theorem-4-2; run"):
        stored([STUDY], tmp_path)


def test_the_command_lists_runs_judges_and_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def holdfast(*words: str) -> Result:
        return CliRunner().invoke(app, ["reproduce", *words])

    assert "002-theorem-4-2" in holdfast().stdout
    done = holdfast("002-tables-statistics", "--json", "-", "--write", "page.md")
    assert json.loads(done.stdout)[0]["verdict"] == "does not hold"
    again = holdfast("002-table-3-gains", "--stored", "runs/papers", "--json", "-", "--write", "again.md")
    assert again.stdout == done.stdout
    assert Path("again.md").read_text() == Path("page.md").read_text()
    assert json.loads(Path("runs/papers/papers.json").read_text()) == json.loads(done.stdout)
    refused = holdfast("all", "--scale", "laptop").exception
    assert str(refused) == "--scale: expected one of cpu, h200, not 'laptop'"
    for words, said in (
        (["--json", "found.json"], "expected the id of a study, or all"),
        (["all", "--stored", "runs/papers", "--fresh"], "leave one of them out"),
    ):
        assert said in str(holdfast(*words).exception)


def test_one_study_is_the_only_one_imported_and_starts_no_process(tmp_path: Path) -> None:
    """In a fresh process, as `holdfast reproduce` runs it."""
    code = """
import json, multiprocessing.process as process, sys
def refuse(self):
    raise AssertionError("a process was started")
process.BaseProcess.start = refuse
sys.argv = ["holdfast", "reproduce", "004-appendix-c", "--json", "found.json"]
from holdfast.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
print(json.dumps(sorted(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    imported = set(json.loads(done.stdout.splitlines()[-1]))
    numbered = {name for name in imported if re.fullmatch(r".*_\d{3}", name)}
    assert numbered == {find_study("004-appendix-c").run.__module__}
    assert not {"torch", "transformers"} & imported, "it is arithmetic"
    assert len(json.loads((tmp_path / "found.json").read_text())) == len(find_study("004-appendix-c").claims)
    assert (tmp_path / "runs/papers/004-appendix-c.cpu.json").exists()


def test_a_study_that_fails_by_itself_says_why(tmp_path: Path) -> None:
    def fails(scale: str, on_progress: object) -> dict[str, object]:
        raise RuntimeError("no such figure")

    ran = run_studies([replace(STUDY, run=fails, seconds={"cpu": 1.0})], "cpu", tmp_path)
    assert "RuntimeError: no such figure" in ran.failed[STUDY.id]
    assert not list(tmp_path.iterdir())


def test_an_interrupt_ends_the_workers_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    def interrupted(done: float, total: float, busy: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_studies(
            [find_study("002-preexperiments"), find_study("002-theorem-4-1")], "cpu", tmp_path, on_shares=interrupted
        )
    assert not active_children()
    assert not list(tmp_path.iterdir()), "it does not wait for minutes of work"


def test_a_larger_scale_is_run_although_a_smaller_one_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = replace(find_study("002-tables-statistics"), seconds={"cpu": 1.0, "h200": 1.0})
    asked: list[list[str]] = []
    monkeypatch.setattr(
        "holdfast_studies.papers.running._run", lambda studies, *_: asked.append([study.id for study in studies]) or {}
    )
    make_figures(both, "cpu", tmp_path, lambda share: None)
    run_studies([both], "cpu", tmp_path)
    run_studies([both], "h200", tmp_path)
    make_figures(both, "h200", tmp_path, lambda share: None)
    assert run_studies([both], "cpu", tmp_path).kept[both.id].scale == "h200", "the larger scale counts"
    run_studies([both], "h200", tmp_path, fresh=True)
    assert asked == [[], [both.id], [], [both.id]]
