"""What replies did, drawn in three colours with the numbers in words: of an audit and of a matrix."""

import json
import re
from pathlib import Path

import pytest

from holdfast.records import Cell
from holdfast.reports import write_report
from holdfast.reports.outcomes import audit_outcomes, matrix_outcomes
from holdfast.reports.pooling import pool
from reports.runs import rate, write_lines

TOLD = ["refused"] * 5 + ["missed"] * 12 + ["complied"] * 2 + [None]


def test_shares_are_of_all_replies_and_the_bar_has_their_widths() -> None:
    (line,) = audit_outcomes({"harmful (outcome)": TOLD})
    assert (line.name, line.shares, line.num) == ("harmful (outcome)", ("25 %", "60 %", "10 %", "5 %"), 20)
    widths = dict(re.findall(r'class="bar of-(\w+)"[^>]*width="([\d.]+)"', line.picture))
    assert {word: float(width) for word, width in widths.items()} == {"refused": 60, "missed": 144, "complied": 24}


@pytest.mark.parametrize(
    "kept", [None, [], {"a": []}, {"a": [True, False]}, {"a": "refused"}, {"a": [None]}, {"a": [{}]}]
)
def test_what_is_no_list_of_outcomes_is_not_drawn(kept: object) -> None:
    """Older files keep hits and misses, or nothing."""
    assert audit_outcomes(kept) == []


def cell(seed: int, outcomes: dict[str, tuple[object, ...]]) -> Cell:
    return Cell("none", "sft", seed, "outcome", asr=rate(0.1), outcomes=outcomes)  # type: ignore[arg-type]


def test_seeds_are_added_up() -> None:
    told = [("refused", "missed"), ("complied", "missed")]
    cells = [cell(seed, {"harmful:outcome": replies, "utility": (True,)}) for seed, replies in enumerate(told)]
    (line,) = matrix_outcomes(pool(cells))
    assert (line.name, line.shares, line.num) == (
        "sft under none: harmful (outcome)",
        ("25 %", "50 %", "25 %", "0 %"),
        4,
    )
    assert matrix_outcomes(pool([cell(0, {"asr": (True, False)})])) == []


def test_both_are_on_the_page(tmp_path: Path) -> None:
    audit = {"model": "tuned", "figures": {}, "outcomes": {"harmful (outcome)": TOLD}}
    (tmp_path / "audit.json").write_text(json.dumps(audit), encoding="utf-8")
    write_lines(tmp_path / "matrix.jsonl", [cell(0, {"harmful": ("missed", "missed", None)}).row()])
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert page.count("What the replies did") == 2
    assert page.count('class="bar of-missed"') == 2
    for word in ("refused", "missed", "complied", "not judged", "60 %", "67 %"):
        assert f">{word}</" in page
