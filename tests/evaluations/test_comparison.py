"""`hf.compare` and `holdfast compare`: hand-worked numbers, statsmodels, and what it says of items that do not match."""

import json
from pathlib import Path
from typing import Any

import pytest
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests

import holdfast as hf
from holdfast.config import InputError
from holdfast.evaluations import Evaluation, Item, Scores
from invariants.launching import run_cli


def rows(scores: str, start: int = 0) -> list[dict[str, Any]]:
    return [{"id": f"q{number}", "score": int(digit)} for number, digit in enumerate(scores, start)]


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_shares_by_hand_and_by_statsmodels() -> None:
    """Ten items: six lost, one gained. By -0.5; McNemar 2 (1 + 7) / 2^7 = 0.125."""
    (figure,) = hf.compare(rows("1111110000"), rows("0000001000")).figures
    assert (figure.first, figure.second, figure.by.value) == (0.6, 0.1, pytest.approx(-0.5))
    assert figure.p == pytest.approx(0.125) == pytest.approx(statsmodels_mcnemar([[0, 6], [1, 3]], exact=True).pvalue)
    assert (figure.num_up, figure.num_down, figure.verdict) == (1, 6, "within chance")


@pytest.mark.parametrize(
    ("before", "after", "less", "verdict", "passed"),
    [
        ("111111", "000000", (), "worse", False),  # p = 2/64
        ("111111", "000000", ("score",), "better", True),
        ("111110", "000000", (), "within chance", True),  # p = 2/32
        ("000000", "111111", (), "better", True),
    ],
)
def test_verdicts(before: str, after: str, less: tuple[str, ...], verdict: str, passed: bool) -> None:
    done = hf.compare(rows(before), rows(after), less=less)
    assert (done.figures[0].verdict, done.passed) == (verdict, passed)


def test_holm_over_the_figures_changes_the_verdict() -> None:
    """Six lost of six is p = 0.03125 alone, and 0.0625 as the smaller of two."""
    first = [{"id": number, "scores": {"a": 1, "b": 1}} for number in range(6)]
    second = [{"id": number, "scores": {"a": 0, "b": int(number > 0)}} for number in range(6)]
    both = hf.compare(first, second)
    expected = multipletests([figure.p for figure in both.figures], method="holm")[1]
    assert [figure.p_holm for figure in both.figures] == pytest.approx(list(expected))
    assert (both.passed, hf.compare(first, second, figures=["a"]).passed) == (True, False)


def test_figures_of_one_type_of_request_are_compared_by_name_alone() -> None:
    """They ask the same items once more: thirty of them would leave no p-value below 1."""
    requests = [{"prompt": "copy : sun river", "type": "short"}, {"prompt": "copy : sun river stone", "type": "long"}]
    one, two = (hf.audit(model, safe_requests=requests, say=print) for model in ("tiny:aligned", "tiny:base"))
    by_type = [name for name in one.figures if ": short (" in name]
    done = hf.compare(one, two)
    assert by_type
    assert not any(": " in figure.figure for figure in done.figures)
    assert any("figures by type of request are not compared" in note for note in done.notes)
    (figure,) = hf.compare(one, two, figures=by_type[:1]).figures
    assert (figure.figure, figure.by.n) == (by_type[0], 1)


def told(outcomes: str, name: str) -> list[dict[str, Any]]:
    """One item a letter. A reply that could not be judged (-) counts as refused and as missed."""
    counted = {"r": ["refused"], "m": ["missed"], "c": ["complied"], "-": ["refused", "missed"]}
    words = ("refused", "missed", "complied")
    return [
        {"id": number, "scores": {name.format(word): int(word in counted[letter]) for word in words}}
        for number, letter in enumerate(outcomes)
    ]


def test_kept_stands_beside_the_shares_of_two_evaluations_by_outcome() -> None:
    """Of five harmless requests three keep their outcome: r, m and c. A shift from refused to missed is a loss."""
    names = ("harmless_{} (outcome)", "holdfast_refusal_harmless/{}")
    for name, label in zip(names, ("kept (outcome)", "holdfast_refusal_harmless/kept"), strict=True):
        done = hf.compare(told("rmcr-", name), told("rmcm-", name))
        assert {key: (share.value, share.n) for key, share in done.kept.items()} == {label: (0.6, 5)}
        assert done.to_json()["kept"][label]["value"] == 0.6
        assert f"{label}: 60.0% [23.1%, 88.2%] of 5 harmless requests have the same outcome in A and B" in repr(done)
    harmful = hf.compare(told("rmc", "{} (outcome)"), told("rmc", "{} (outcome)"))
    assert not harmful.kept
    judged_by_harmless = hf.compare(told("rmc", "{} (harmless)"), told("rmc", "{} (harmless)"))
    assert not judged_by_harmless.kept, "the judge's name is no type of request"
    names_complied = "harmless_{} (complied)"
    assert list(hf.compare(told("rmc", names_complied), told("rmc", names_complied)).kept) == ["kept (complied)"]
    alone = [told(outcomes, names[0]) for outcomes in ("rc", "rr")]
    assert not hf.compare(*alone, figures=["harmless_complied (outcome)"]).kept


def test_no_share_is_kept_of_items_that_lack_a_figure() -> None:
    words = ("refused", "missed", "complied")
    lacking = [{"id": number, "scores": {f"harmless_{word} (outcome)": 1}} for number, word in enumerate(words)]
    assert not hf.compare(lacking, lacking).kept


def test_shares_by_a_judge_that_errs_are_said_to_be_uncorrected() -> None:
    note = "shares are the judges' own, not corrected by labels"
    for judge, is_said in (("outcome", True), ("world", False)):
        one, two = (hf.audit(name, limit=4, judges=[judge], say=print) for name in ("tiny:aligned", "tiny:base"))
        done = hf.compare(one, two)
        assert (note in done.notes) is is_said
        assert (note in repr(two.against(one))) is is_said
        assert note not in hf.compare(one, two, figures=["skill"]).notes
    assert list(done.kept) == ["kept (world)"]
    like = hf.audit("tiny:base", like=one)
    assert "kept (world)" in repr(like.against(one))


def test_a_margin_must_be_shown() -> None:
    """Equal on all items: 20 leave room for 0.16, 400 for less than 0.01."""
    few, many = (hf.compare(rows("1" * num), rows("1" * num), margin=0.05) for num in (20, 400))
    assert few.figures[0].worst == pytest.approx(3.8415 / (20 + 3.8415), abs=1e-4)  # Wilson's upper end of 0 of 20
    assert (few.passed, many.passed) == (False, True)
    assert "may be worse by 0.05" in few.verdict
    with pytest.raises(InputError, match="margin=0: expected a number above 0"):
        hf.compare(rows("1"), rows("1"), margin=0)


def test_repeats_of_an_item_are_one_item() -> None:
    """Two items, two epochs each, are two items with the scores 0.5 and 1; not four."""
    repeated = [{"id": "a", "score": 0}, {"id": "a", "score": 1}, {"id": "b", "score": 1}, {"id": "b", "score": 1}]
    (figure,) = hf.compare(repeated, [{"id": "a", "score": 1}, {"id": "b", "score": 1}]).figures
    assert (figure.first, figure.by.value, figure.by.n, figure.num_repeats) == (0.75, 0.25, 2, 2)


def test_items_that_do_not_match_are_named() -> None:
    first, second = rows("1" * 9), rows("1" * 10, start=2)
    with pytest.raises(InputError) as error:
        hf.compare(first, second)
    assert str(error.value) == (
        "score: 2 items (q0, q1) only in A (memory); score: 3 items (q9, q10, q11) only in B (memory). "
        "common=True compares the 7 that both have"
    )
    done = hf.compare(first, second, common=True)
    assert done.figures[0].by.n == 7
    assert any("q0, q1" in note and "left out" in note for note in done.notes)
    with pytest.raises(InputError, match="no item is in both"):
        hf.compare(rows("1"), rows("1", start=5), common=True)


@pytest.mark.parametrize(
    ("first", "message"),
    [
        ([{"id": "q0"}], "score.*expected a number"),
        ([{"score": 1}], "id.*expected a string or a whole number"),
        ([{"id": "q0", "score": "high"}], "expected a number"),
        ([{"id": "q0", "scores": {"other": 1}}], "no figure is in both"),
        (3, "a value of type int"),
        ("nowhere.jsonl", "no such file or folder"),
    ],
)
def test_bad_input(first: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        hf.compare(first, rows("1"))


def test_unknown_figures() -> None:
    with pytest.raises(InputError, match="figures='scor': not in both evaluations; did you mean 'score'"):
        hf.compare(rows("1"), rows("1"), figures=["scor"])
    with pytest.raises(InputError, match="less='x': no such figure"):
        hf.compare(rows("1"), rows("1"), less=["x"])


def test_files_that_disagree_about_the_better_side() -> None:
    """Of two runs of lm-eval one may lack its results file, which says that less is better."""
    items = {f"q{number}": Item(float(number % 2)) for number in range(12)}
    worse = {name: Item(item.score + 1) for name, item in items.items()}
    first = Evaluation("a", {"wer": Scores("less", items)})
    second = Evaluation("b", {"wer": Scores("more", worse)})
    for figures in ((), ("wer",)):
        with pytest.raises(InputError, match="do not agree on which way wer is better; less=wer says"):
            hf.compare(first, second, figures=figures)
        assert hf.compare(first, second, figures=figures, less=["wer"]).figures[0].verdict == "worse"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = write(tmp_path / "a.jsonl", rows("1" * 20)), write(tmp_path / "b.jsonl", rows("0" * 8 + "1" * 12))
    assert run_cli("compare", str(a), str(b), monkeypatch=monkeypatch) == 1
    said = capsys.readouterr().out
    assert "-0.400" in said
    assert said.strip().endswith("worse beyond chance on score")
    out = tmp_path / "out.json"
    assert run_cli("compare", str(b), str(a), "--json", str(out), monkeypatch=monkeypatch) == 0
    content = json.loads(out.read_text())
    assert content["passed"]
    assert content["figures"][0]["difference"] == pytest.approx(0.4)
    assert content["figures"][0]["smallest_difference"]["value"] < 0.5
    assert run_cli("compare", str(a), str(a), "--margin", "0.1", monkeypatch=monkeypatch) == 1
    assert run_cli("compare", str(a), str(a), "--margin", "0.2", monkeypatch=monkeypatch) == 0
    write(b, rows("1" * 5))
    capsys.readouterr()
    assert run_cli("compare", str(a), str(b), monkeypatch=monkeypatch) == 2
    assert "15 items (q5, q6, q7, q8, q9, ...) only in" in capsys.readouterr().err
