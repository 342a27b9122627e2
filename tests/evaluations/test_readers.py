"""What is read from audits and from lm-eval's files. tests/peers reads what the real programs have written."""

import json
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.audits import Audit
from holdfast.config import InputError
from holdfast.evaluations import read_evaluation
from holdfast.records import AuditResult, Figure
from holdfast.stats import Estimate


def sample(doc_id: int, **scores: Any) -> dict[str, Any]:
    named = {"doc_id": doc_id, "doc": {}, "filter": "none", "doc_hash": f"hash {doc_id}"}
    return {**named, "metrics": list(scores), **scores}


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_lm_eval_directions_filters_and_metrics_that_are_no_number(tmp_path: Path) -> None:
    lines = [sample(0, acc=1.0, wer=0.2, f1=[1, 0]), sample(1, acc=0.0, wer=0.4, f1=[0, 0])]
    strict = [{**line, "filter": "strict-match"} for line in lines]
    write(tmp_path / "model" / "samples_gsm8k_cot_2026-11-16T11-20-00.123456.jsonl", lines + strict)
    results = {"higher_is_better": {"gsm8k_cot": {"acc": True, "wer": False}}}
    (tmp_path / "model" / "results_2026-11-16T11-20-00.123456.json").write_text(json.dumps(results))
    read = read_evaluation(tmp_path)
    assert {
        name: (scores.better, [item.score for item in scores.items.values()]) for name, scores in read.figures.items()
    } == {
        "gsm8k_cot/acc": ("more", [1.0, 0.0]),
        "gsm8k_cot/wer": ("less", [0.2, 0.4]),
        "gsm8k_cot/acc,strict-match": ("more", [1.0, 0.0]),
        "gsm8k_cot/wer,strict-match": ("less", [0.2, 0.4]),
    }
    assert read.notes[0] == "gsm8k_cot/f1: not one number per item"


def test_lm_eval_runs_of_one_task_are_repeats_and_models_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path / "one" / "samples_t_2026-11-16T11-20-00.1.jsonl", [sample(0, acc=1.0)])
    write(tmp_path / "one" / "samples_t_2026-11-16T11-30-00.1.jsonl", [sample(0, acc=0.0)])
    assert read_evaluation(tmp_path).figures["t/acc"].items["0"] == (0.5, 2, "hash 0")
    write(tmp_path / "two" / "samples_t_2026-11-16T11-20-00.1.jsonl", [sample(0, acc=1.0)])
    with pytest.raises(InputError, match=r"samples of several models \(one, two\)"):
        read_evaluation(tmp_path)


def test_the_same_number_of_another_question_is_no_match(tmp_path: Path) -> None:
    first = write(tmp_path / "a" / "samples_t.jsonl", [sample(0, acc=1.0), sample(1, acc=1.0)])
    changed = [sample(0, acc=1.0), {**sample(1, acc=1.0), "doc_hash": "other"}]
    second = write(tmp_path / "b" / "samples_t.jsonl", changed)
    with pytest.raises(InputError, match=r"1 item \(1\) with the same id but another question"):
        hf.compare(first, second)
    assert hf.compare(first, second, common=True).figures[0].by.n == 1


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "samples_t.jsonl", [sample(0, acc=1.0), {"doc_id": "x"}])
    with pytest.raises(InputError, match=r"samples_t.jsonl:2.*doc_id"):
        read_evaluation(file)
    with pytest.raises(InputError, match="nothing here is an evaluation"):
        read_evaluation(Path(__file__).parent)


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("audits")
    for name, model in (("before", "tiny:aligned"), ("after", "tiny:base")):
        hf.audit(model, limit=12, max_new_tokens=12, out=folder / name, say=lambda _: None)
    return folder / "before", folder / "after"


def test_audits_are_compared_as_against_does(audits: tuple[Path, Path]) -> None:
    before, after = (read_evaluation(folder) for folder in audits)
    done = hf.compare(*audits)
    by_name = {figure.figure: figure for figure in done.figures}
    assert {"complied (world)", "harmless_refused (world)", "skill", "recipe"} <= by_name.keys()
    assert by_name["complied (world)"].better == "less"
    kept = {name: json.loads((folder / "audit.json").read_text()) for name, folder in zip("ab", audits, strict=True)}
    for name, figure in by_name.items():
        assert figure.second == pytest.approx(kept["b"]["figures"][name]["value"], abs=1e-6)
        change = abs(kept["b"]["figures"][name]["value"] - kept["a"]["figures"][name]["value"])
        assert abs(figure.by.value) == pytest.approx(change, abs=1e-6)
    assert all(len(item) == 16 for item in before.figures["complied (world)"].items)
    assert before.figures.keys() == after.figures.keys()


def test_a_finished_run_stands_for_its_audit(audits: tuple[Path, Path], tmp_path: Path) -> None:
    before, after = (hf.TrainResult(folder / "model", num_steps=1, interrupted=False) for folder in audits)
    assert hf.compare(before, after) == hf.compare(*audits)
    (tmp_path / "config.yaml").write_text("run: mine\n")
    with pytest.raises(InputError, match=r"this run has no audit yet; write one with hf.audit\(model, out=run\)"):
        hf.compare(before, tmp_path)


def test_an_audit_without_its_answers_is_paired_by_row(audits: tuple[Path, Path], tmp_path: Path) -> None:
    for folder in audits:
        (tmp_path / folder.name).mkdir()
        (tmp_path / folder.name / "audit.json").write_bytes((folder / "audit.json").read_bytes())
    whole, bare = hf.compare(*audits), hf.compare(tmp_path / "before", tmp_path / "after")
    assert [(figure.by, figure.p) for figure in whole.figures] == [(figure.by, figure.p) for figure in bare.figures]


def test_audits_of_other_requests_do_not_match(audits: tuple[Path, Path], tmp_path: Path) -> None:
    hf.audit("tiny:aligned", limit=5, max_new_tokens=12, out=tmp_path / "other", say=lambda _: None)
    with pytest.raises(InputError, match="only in"):
        hf.compare(audits[0], tmp_path / "other")


def test_summaries_are_paired_by_request_whatever_else_was_asked() -> None:
    """Their figures are called summary_..., their suite summaries."""
    summary = Figure("summary_rouge1", Estimate(0.5, 0, 1, 2), "more", "", scores="0.2 0.8")
    lines = [{"suite": "summaries", "request_sha256": name} for name in ("first", "second")]
    alone = Audit(AuditResult("m", None, (), (summary,), fingerprints=("one",)), tuple(lines))
    beside = Audit(AuditResult("m", None, (), (summary,), fingerprints=("one", "other")), tuple(lines))
    assert list(read_evaluation(alone).figures["summary_rouge1"].items) == ["first", "second"]
    assert hf.compare(alone, beside).passed
