"""[002]'s tables on Qwen2.5-Coder: the figures are the committed cells', and verdicts follow judge and labels."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from docs.pages import ROOT
from holdfast.config import InputError
from holdfast_studies.papers import tables_qwen_002
from holdfast_studies.papers.outcomes import share_of
from holdfast_studies.papers.study import Figures
from study_tests.papers.test_002 import digits, verdict


def qwen_figures(hits: dict[str, int], labelled: dict[str, int], num: int = 40) -> Figures:
    """Of one seed. Of each arm the first 20 requests were read, and of these so many complied."""
    outcomes = {arm: {"asr:outcome": [digits(num_hits, num)]} for arm, num_hits in hits.items()}
    labels = {
        arm: [digits(min(hits[arm], 20), 20), digits(num_hits, 20), digits(hits[arm], num)]
        for arm, num_hits in labelled.items()
    }
    attacks = (tables_qwen_002.ALONE, tables_qwen_002.POISONED)
    return {"outcomes": dict.fromkeys(attacks, outcomes), "labels": dict.fromkeys(attacks, labels)}


@pytest.mark.parametrize(
    ("hits", "labelled", "expected"),
    [
        ((4, 36, 20), (20, 20), "holds"),
        ((4, 36, 20), (0, 20), "holds in part"),  # 36 of 40 less all 20 that were read wrongly: 0 are left
        ((4, 20, 36), (20, 20), "does not hold"),
        ((4, 20, 36), (20, 0), "holds in part"),  # the judge's share rises, the corrected one falls to 0
        ((4, 20, 20), (20, 20), "not testable here"),  # 40 requests leave room for a fall by 5 points
        ((36, 36, 2), (20, 2), "not testable here"),  # sft complies with no more than the untouched model
        ((0, 1, 0), (1, 0), "not testable here"),
    ],
)
def test_qwen_is_judged_by_outcome_and_by_labels(
    hits: tuple[int, ...], labelled: tuple[int, ...], expected: str
) -> None:
    """Requests complied with by the untouched model, sft and csft + PA; then how many of sft's and csft + PA's labels."""
    arms = ("untouched", "sft", "csft_pa")
    figures = qwen_figures(dict(zip(arms, hits, strict=True)), dict(zip(arms[1:], labelled, strict=True)))
    for claim in ("002-tables-qwen-harmful", "002-tables-qwen-benign"):
        assert verdict(tables_qwen_002.STUDY, claim, figures) == expected


def test_no_fall_by_five_points_is_a_verdict_when_requests_are_many() -> None:
    figures = qwen_figures({"untouched": 100, "sft": 1000, "csft_pa": 1000}, {"sft": 20, "csft_pa": 20}, num=2000)
    assert verdict(tables_qwen_002.STUDY, "002-tables-qwen-benign", figures) == "does not hold"


@pytest.mark.parametrize(
    ("rouge", "expected"),
    [
        ((0.2, 0.9, 0.88), "holds"),
        ((0.2, 0.9, 0.7), "does not hold"),
        ((0.9, 0.9, 0.9), "not testable here"),
        ((0.2, 1.0, (1.0,) * 36 + (0.5,) * 4), "holds in part"),
    ],
)
def test_qwens_sql_is_judged_by_rouge_over_queries(rouge: tuple[float | Sequence[float], ...], expected: str) -> None:
    """40 queries, one seed. The last loses 5 %, in four queries: the interval reaches beyond 6 %."""
    rows = {}
    for arm, values in zip(("untouched", "sft", "csft_pa"), rouge, strict=True):
        scores = [values] * 40 if isinstance(values, float) else list(values)
        rows[arm] = {"rouge1": [scores], "exact": [[0.0, 1.0]], "execution": [[1.0, 1.0]]}
    found = tables_qwen_002.task_kept({"rows": rows})
    assert found.verdict == expected
    assert found.measured is None or found.found.startswith("one seed, 40 queries: ")


def test_qwens_committed_cells_give_the_rates_of_their_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page pools all seeds of an arm, the study those that sft and csft + PA share: with harmful rows sft has one more.

    Corrected rates are of the one seed that was read, and of the 425 requests of the sources that labels are of.
    """
    monkeypatch.chdir(ROOT)
    figures = tables_qwen_002.run("cpu", lambda share: None)
    page = Path("docs/results/qwen.md").read_text(encoding="utf-8")
    titles = {tables_qwen_002.ALONE: "sql alone", tables_qwen_002.POISONED: "sql with 10 % harmful rows"}
    pooled_alike = {tables_qwen_002.ALONE: ("sft", "csft_pa"), tables_qwen_002.POISONED: ("csft_pa",)}
    for attack, title in titles.items():
        outcomes = figures["outcomes"][attack]
        assert len(outcomes["sft"]["asr:outcome"]) == len(outcomes["csft_pa"]["asr:outcome"])
        for arm in pooled_alike[attack]:
            name = tables_qwen_002.ARMS[arm]
            section = page.partition(f"\n## {title}, lr 2e-05\n")[2]
            assert f"\n| {name} | {share_of(figures, attack, arm, 'asr:outcome').value:.1%} [" in section
            (line,) = (row for row in page.splitlines() if row.startswith(f"| {title}, lr 2e-05 | {name} | harmful |"))
            *_, asked, judged, corrected = line.split(" | ")
            by_judge = figures["labels"][attack][arm][2]
            assert int(asked) == len(by_judge) == 425
            assert judged.startswith(f"{by_judge.count('1') / 425:.1%} [")
            assert corrected.startswith(f"{tables_qwen_002._corrected(figures, attack, arm).value:.1%} [")
    monkeypatch.chdir(ROOT / "docs")
    with pytest.raises(InputError, match="run this in the root of the repository"):
        tables_qwen_002.run("cpu", lambda share: None)
