"""An audit's file: this version's, and those written before there was an Estimate."""

import json
from pathlib import Path

import pytest

from holdfast.config import InputError
from holdfast.data import read_audit, write_audit
from holdfast.records import Agreement, AuditResult, Bar, Change, Figure
from holdfast.stats import Estimate, Unknown, newcombe_paired, wilson

CHANGE = Change(newcombe_paired(3, 1, 40), "worse, within chance", 0.625, 3, 1)
RESULT = AuditResult(
    "m",
    None,
    ("a", "b"),
    figures=(
        Figure("complied", wilson(2, 40), "less", "answered", "a", 1, "0 1 0"),
        Figure("perplexity", Estimate(3.4, 3.2, 3.7, 40, "bootstrap"), "less", "of answers"),
    ),
    agreements=(
        Agreement.of("harmful", ("a", "b"), [True, False, True, None], [True, True, False, None]),
        Agreement.of("harmful", ("a", "b"), [True] * 4, [True] * 4),
    ),
    bars=(
        Bar("--max-complied", 0.1, "complied (a)", "value", 0.05, True),
        Bar("--before", 0.1, "complied (a)", "value", 0.05, True, CHANGE),
    ),
    outcomes={"harmful (a)": ("refused", "complied", None), "harmless (a)": ("missed",)},
    untouched="anchor",
)


def test_a_result_survives_its_file(tmp_path: Path) -> None:
    write_audit(tmp_path / "audit.json", RESULT)
    assert read_audit(tmp_path / "audit.json") == RESULT


def test_field_names_in_the_file_are_those_of_before(tmp_path: Path) -> None:
    kept = json.loads(json.dumps(RESULT.to_json()))
    figure = kept["figures"]["complied (a)"]
    assert {"name", "value", "low", "high", "trials", "better", "meaning", "judge", "unscored", "scores"} <= {*figure}
    assert (figure["value"], figure["trials"]) == (0.05, 40)
    first, second = kept["agreements"]
    assert {"suite", "judges", "agreed", "kappa", "low", "high", "trials"} <= {*first}
    assert (second["kappa"], second["low"], second["high"], second["agreed"]) == (None, None, None, 1.0)
    change = kept["bars"][1]["change"]
    assert {"by", "low", "high", "said", "p", "num_worse", "num_better"} <= {*change}
    assert change["by"] == pytest.approx(0.05)


def test_a_file_of_before_is_read(tmp_path: Path) -> None:
    """As it was written: no method, no hits."""
    numbers = {"value": 0.05, "low": 0.01, "high": 0.17, "trials": 40}
    words = {"name": "asr", "better": "less", "meaning": "", "judge": "a", "unscored": 0, "scores": "0 1"}
    change = {
        "by": 0.05,
        "low": -0.1,
        "high": 0.2,
        "said": "not worse",
        "p": None,
        "num_worse": None,
        "num_better": None,
    }
    bar = {"option": "--before", "bound": 0.1, "figure": "asr (a)", "compared": "value", "number": 0.05, "held": True}
    pair = {"suite": "asr", "judges": ["a", "b"], "agreed": 1.0, "kappa": None, "low": None, "high": None, "trials": 4}
    old = {
        "model": "m",
        "anchor": None,
        "judges": ["a"],
        "figures": {"asr (a)": {**words, **numbers}},
        "agreements": [pair, {**pair, "kappa": 0.5, "low": 0.1, "high": 0.9}],
        "bars": [{**bar, "change": change}],
        "passed": True,
    }
    (tmp_path / "audit.json").write_text(json.dumps(old))
    read = read_audit(tmp_path / "audit.json")
    assert read.figures == (Figure("unsafe", Estimate(0.05, 0.01, 0.17, 40), "less", "", "a", 0, "0 1"),)
    assert read.agreements[0].kappa == Unknown("undefined: both gave one verdict throughout", 4)
    assert read.agreements[1].kappa == Estimate(0.5, 0.1, 0.9, 4)
    assert read.bars[0].figure == "unsafe (a)"
    assert read.bars[0].change == Change(Estimate(0.05, -0.1, 0.2), "not worse")


@pytest.mark.parametrize(
    ("name", "judge", "now"),
    [
        ("asr", "world", "complied"),  # the oracle always told them apart
        ("asr", "outcome", "complied"),
        ("asr", "refusal_phrases", "not_refused"),
        ("asr", "learned", "not_refused"),
        ("asr", "llama_guard:m", "unsafe"),
        ("over_refusal", "refusal_phrases", "harmless_refused"),
        ("over_refusal: homonyms", "refusal_phrases", "harmless_refused: homonyms"),
        ("contrasts_answered", "refusal_phrases", "contrasts_not_refused"),
        ("gsm8k", "", "gsm8k"),
    ],
)
def test_old_names_are_read_as_what_they_counted(name: str, judge: str, now: str) -> None:
    old = {**Figure(name, wilson(2, 40), "less", "", judge).to_json()}
    assert Figure.from_json(old).name == now


def test_shares_by_group_are_in_the_file() -> None:
    """*complied*, *refused*, *missed* and *kept* of the first judge, each an estimate."""
    names = ("complied", "refused", "missed", "harmless_complied", "harmless_refused", "harmless_missed", "kept")
    figures = [Figure(name, wilson(place, 40), "less", "", "a") for place, name in enumerate(names)]
    other = Figure("not_refused", wilson(30, 40), "less", "", "refusal_phrases")
    kept = AuditResult("m", None, ("a", "refusal_phrases"), (*figures, other)).to_json()
    assert [kept["harmful"][word]["hits"] for word in ("complied", "refused", "missed")] == [0, 1, 2]
    assert [kept["harmless"][word]["hits"] for word in ("complied", "refused", "missed", "kept")] == [3, 4, 5, 6]
    assert kept["contrasts"] == {}
    two_way = AuditResult("m", None, ("refusal_phrases",), (other,)).to_json()
    assert list(two_way["harmful"]) == ["not_refused"]


def test_what_is_no_audit_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text('{"figures": {"asr": {"value": 1}}}')
    with pytest.raises(InputError, match=r"audit.json: expected the audit.json of a `holdfast audit`"):
        read_audit(tmp_path / "audit.json")
