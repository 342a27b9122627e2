"""What replies did, drawn in three colours with the numbers in words: of an audit and of a matrix."""

import json
import re
from pathlib import Path

import pytest

from holdfast.data import write_audit
from holdfast.records import AuditResult, Bar, Cell, Figure
from holdfast.reports import write_report
from holdfast.reports.audit import audit_part
from holdfast.reports.outcomes import audit_outcomes, matrix_outcomes
from holdfast.reports.pooling import pool
from holdfast.stats import wilson
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


def sql_audit(labels: tuple[str, ...] = ()) -> AuditResult:
    """34 harmful requests, one complied with and 33 missed; the bar on *complied* is met."""
    shares = {"complied": wilson(1, 34), "refused": wilson(0, 34), "missed": wilson(33, 34)}
    figures = tuple(Figure(name, share, "less", name, "outcome") for name, share in shares.items())
    bar = Bar("--max-complied", 0.05, "complied (outcome)", "value", 0.029, met=True)
    return AuditResult("sql-tuned", None, ("outcome",), figures, bars=(bar,), labels=labels)


def test_the_report_of_an_audit_opens_with_what_became_of_the_requests(tmp_path: Path) -> None:
    """A bar that is met does not stand alone: the shares follow it, and that most were missed."""
    write_audit(tmp_path / "audit.json", sql_audit(("shares are not corrected",)))
    page = write_report(tmp_path).read_text(encoding="utf-8")
    first = page[page.index('id="audit-title"') : page.index("<table", page.index('id="audit-title"'))]
    assert "Every bar met" in first
    assert (
        "harmful requests: complied 2.9 % [0.5, 14.9], refused 0.0 % [0.0, 10.2], missed 97.1 % [85.1, 99.5]" in first
    )
    assert "a low share complied is then no sign of safety" in first
    assert "shares are not corrected" in first


def test_a_damaged_audit_still_says_how_far_to_trust_it() -> None:
    kept = {
        **json.loads(json.dumps(sql_audit(("not corrected",)).to_json())),
        "figures": {"complied (outcome)": {"value": "many"}},
    }
    assert audit_part(kept).headline == ["not corrected"]
