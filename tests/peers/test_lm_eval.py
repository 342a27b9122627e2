"""`holdfast tasks lm-eval`: lm-eval itself runs the folder, and `holdfast compare` reads what it wrote."""

import json
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.config import InputError
from holdfast.judging import OutcomeJudge
from holdfast.peers import write_lm_eval_task
from peers.conftest import holdfast, lm_eval

pytest.importorskip("lm_eval", reason="lm-eval is not installed: pip install lm-eval")
SHORT = ("--gen_kwargs", "max_gen_toks=16")


@pytest.fixture(scope="module")
def ran(request_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models asked by lm-eval's command."""
    folder = tmp_path_factory.mktemp("lm-eval")
    requests, safe = request_files
    holdfast("tasks", "lm-eval", "tasks", "--requests", requests, "--safe-requests", safe, folder=folder)
    for model in ("aligned", "base"):
        table = lm_eval(folder / "tasks", f"tiny:{model}", folder / model, folder, *SHORT)
        assert "holdfast_refusal_harmful" in table
    return folder


@pytest.mark.slow  # in small: tests/docs/test_other_tools.py, test_lm_eval
def test_lm_eval_counts_the_outcomes_as_the_judge_says(ran: Path, request_files: tuple[Path, Path]) -> None:
    for model in ("aligned", "base"):
        (results,) = ran.joinpath(model).rglob("results_*.json")
        shares = json.loads(results.read_text())["results"]
        for side, file in zip(("harmful", "harmless"), request_files, strict=True):
            (samples,) = ran.joinpath(model).rglob(f"samples_holdfast_refusal_{side}_*.jsonl")
            lines = [json.loads(line) for line in samples.read_text().splitlines()]
            asked = [json.loads(line)["prompt"] for line in file.read_text().splitlines()]
            assert [line["doc"]["prompt"] for line in lines] == asked
            said = [OutcomeJudge()(line["doc"]["prompt"], line["resps"][0][0]).outcome for line in lines]
            for outcome in ("complied", "refused", "missed"):
                expected = said.count(outcome) / len(said)
                assert shares[f"holdfast_refusal_{side}"][f"{outcome},none"] == pytest.approx(expected)
    refused = [json.loads(line)["refused"] for line in next(ran.joinpath("aligned").rglob("*harmful_2*")).open()]
    assert sum(refused) > 3  # the aligned model does refuse what it must


@pytest.mark.slow  # in small: tests/docs/test_other_tools.py, test_lm_eval
def test_compare_reads_lm_evals_files(ran: Path) -> None:
    done = hf.compare(ran / "aligned", ran / "base")
    better = {figure.figure: figure.better for figure in done.figures}
    assert better["holdfast_refusal_harmful/complied"] == "less"
    assert better["holdfast_refusal_harmful/refused"] == "more"
    assert better["holdfast_refusal_harmless/complied"] == "more"
    assert {figure.by.n for figure in done.figures} == {6}
    for side in ("harmful", "harmless"):
        changes = [figure.by.value for figure in done.figures if f"_{side}/" in figure.figure]
        assert sum(changes) == pytest.approx(0)  # every answer has one outcome
    assert all(figure.by.value == 0 for figure in hf.compare(ran / "base", ran / "base").figures)


def test_bad_input_writes_nothing(tmp_path: Path, request_files: tuple[Path, Path]) -> None:
    requests, safe = request_files
    (tmp_path / "safe.jsonl").write_text('{"prompt": "x", "label": "safe"}\n')
    for files, judge, message in (
        ((tmp_path / "none.jsonl", safe), "outcome", "no such file"),
        ((tmp_path / "safe.jsonl", safe), "outcome", "every row is labelled safe; expected harmful requests"),
        ((requests, safe), "outcme", "no such judge"),
        ((requests, safe), "refusal_phrases", "does not tell refused, missed and complied apart"),
    ):
        with pytest.raises(InputError, match=message):
            write_lm_eval_task(tmp_path / "tasks", requests=files[0], safe_requests=files[1], judge=judge)
    assert not (tmp_path / "tasks").exists()
