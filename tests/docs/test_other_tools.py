"""docs/with-other-tools.md: every command of the sections on compare, lm-eval and inspect, with the real programs, in small."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from docs.pages import DOCS, fenced, section
from docs.walking import Shown, assert_said, shown
from peers.conftest import PEERS, holdfast, run, write_requests

PAGE = (DOCS / "with-other-tools.md").read_text(encoding="utf-8")
COMPARE, LM_EVAL, INSPECT = (
    section(PAGE, title) for title in ("Compare two evaluations", "A refusal task for lm-eval", "Inspect")
)
SMALL = {
    "audit": ["--limit", "6", "--max-new-tokens", "16"],
    "train": ["training.max_steps=3", "--quiet"],
    "lm_eval": ["--device", "cpu", "--gen_kwargs", "max_gen_toks=12", "--batch_size", "8"],
    "eval": ["-M", "device=cpu"],
}
WORSE = "compare runs/before runs/sft"


def run_shown(command: Shown, folder: Path, *, python: Path = Path(sys.executable), small: bool = True) -> str:
    words = command.words
    verb = words[1] if words[0] == "holdfast" or words[0] == "inspect" else words[0]
    words += SMALL.get(verb, []) if small else []
    if words[0] == "holdfast":
        expected = int(not small and command.command.endswith(WORSE))
        return holdfast(*words[1:], folder=folder, python=python, expected=expected)
    if words[0] == "lm_eval":
        return run(sys.executable, "-m", "lm_eval", *words[1:], folder=folder)
    return run(PEERS.with_name("inspect"), *words[1:], folder=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the reader is: requests of his own, and the first three commands of the page done."""
    folder = tmp_path_factory.mktemp("reader")
    write_requests(folder)
    for command in shown(COMPARE)[:3]:
        run_shown(command, folder)
    return folder


def test_the_page_has_these_commands() -> None:
    said = [[" ".join(command.words[:2]) for command in shown(part)] for part in (COMPARE, LM_EVAL, INSPECT)]
    audits = ["holdfast audit", "holdfast train", "holdfast audit"]
    assert said[0] == [*audits, "holdfast compare", "holdfast compare"]
    assert said[1] == ["holdfast tasks", "lm_eval --model"]
    assert said[2] == ["pip install", "holdfast tasks", "inspect view", "inspect eval", "inspect score"]


def test_compare_in_small(folder: Path) -> None:
    """Six requests show nothing beyond chance; the page's own figures: test_the_figures_of_the_page."""
    table, margin = shown(COMPARE)[3:]
    assert "not worse" in run_shown(table, folder) or "worse beyond chance" in run_shown(table, folder)
    assert "not shown: may be worse by 0.03" in holdfast(*margin.words[1:], folder=folder, expected=1)


def test_a_share_that_has_changed_is_noticed() -> None:
    assert_said(["complied  0.000  0.895"], "complied 0.000 0.890 +0.890")
    with pytest.raises(AssertionError):
        assert_said(["complied  0.000  0.480"], "complied 0.000 0.895 +0.895")


@pytest.mark.slow
def test_the_figures_of_the_page(tmp_path: Path) -> None:
    for command in shown(COMPARE):
        assert_said(command.output, run_shown(command, tmp_path, small=False))


def test_the_python_of_compare() -> None:
    (code,) = fenced(COMPARE, "python")
    names: dict[str, object] = {}
    exec(code, names)
    assert names["done"].passed  # type: ignore[attr-defined]


@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="lm-eval is not installed: pip install lm-eval")
@pytest.mark.slow  # in small: tests/peers/test_lm_eval.py
def test_lm_eval(folder: Path) -> None:
    write, ask = shown(LM_EVAL)
    run_shown(write, folder)
    said = run_shown(ask, folder)
    for line in ask.output:
        assert line.split("|")[1].strip() in said
    (results,) = (folder / "lm-eval").rglob("results_*.json")
    assert json.loads(results.read_text())["n-samples"]["holdfast_refusal_harmful"]["effective"] == 6


@pytest.mark.skipif(not PEERS.with_name("inspect").exists(), reason="inspect is not installed: make peers")
@pytest.mark.slow  # in small: tests/peers/test_inspect.py
def test_inspect(folder: Path) -> None:
    """All but `pip install` and `inspect view`, which tests/browser/test_inspect_view.py opens."""
    _, write, _, ask, score = shown(INSPECT)
    assert_said(write.output, run_shown(write, folder, python=PEERS))
    (folder / "mine.py").write_text(fenced(INSPECT, "python")[0], encoding="utf-8")
    assert "accuracy" in run_shown(ask, folder)
    (log,) = (folder / "evals").glob("*.eval")
    run_shown(Shown(score.command.replace("LOG", log.stem)), folder)
    scored = json.loads(run(PEERS.with_name("inspect"), "log", "dump", folder / "scored.eval", folder=folder))
    assert {"complied", "refused", "missed"} <= {each["name"] for each in scored["results"]["scores"]}
