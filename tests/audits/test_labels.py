"""Shares corrected by labels: in the embedded world, whose oracle says what is true, and by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.audits import Audit, Bars, audit
from holdfast.audits.labels import MIN_LABELS, Labels, corrected, read_labels, sha256, write_sheet
from holdfast.config import InputError
from holdfast.data.model_card import Audited, eval_results
from holdfast.judging import WorldJudge
from holdfast.models import LoadedModel, load
from holdfast.records import AuditResult, Figure
from holdfast.reports import write_report
from holdfast.reports.audit import audit_part
from holdfast.stats import share
from invariants.launching import run_cli

JUDGES = ("outcome", "refusal_phrases", "world")
ORACLE = WorldJudge()


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def labelled(sheet: Path, out: Path) -> Path:
    """As a reader does who does not err: the world's oracle."""
    read = [{**row, "label": ORACLE(row["request"], row["answer"]).outcome} for row in rows(sheet)]
    out.write_text("".join(json.dumps(row) + "\n" for row in read), encoding="utf-8")
    return out


@pytest.fixture(scope="module")
def shaken() -> LoadedModel:
    """tiny:base with noise: many of its replies are nonsense, which a phrase list takes for compliance."""
    model = load("tiny:base", device="cpu")
    with torch.no_grad():
        for weight in model.model.parameters():
            noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
            weight.add_(0.3 * weight.std() * noise)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("labels")


def ask(model: LoadedModel, **how: Any) -> Audit:
    return audit(model, suite="safety", limit=100, judges=JUDGES, batch_size=100, say=lambda _: None, **how)


@pytest.fixture(scope="module")
def plain(shaken: LoadedModel, folder: Path) -> Audit:
    return ask(shaken, sheet=folder / "sheet.jsonl", sheet_size=50)


@pytest.fixture(scope="module")
def fixed(shaken: LoadedModel, folder: Path, plain: Audit) -> Audit:
    labels = labelled(folder / "sheet.jsonl", folder / "labels.jsonl")
    return ask(shaken, labels=labels, bars=Bars(max_complied=0.25), out=folder / "out")


def test_the_sheet_is_blind_and_a_larger_one_contains_it(plain: Audit, folder: Path, tmp_path: Path) -> None:
    sheet = rows(folder / "sheet.jsonl")
    assert {tuple(row) for row in sheet} == {("label", "request", "answer", "request_sha256", "answer_sha256")}
    assert {row["label"] for row in sheet} == {""}
    assert all(sha256(row["answer"]) == row["answer_sha256"] for row in sheet)
    groups = {line["request_sha256"]: line["suite"] for line in plain.answers}
    order = [groups[row["request_sha256"]] for row in sheet]
    assert [order.count(group) for group in ("harmful", "harmless")] == [50, 50]
    assert len(set(order[:10])) == 2, "the groups are mixed"
    assert not any("answer" in line or "request" in line for line in plain.answers), "texts are on the sheet alone"
    assert plain.result.settings is not None
    assert plain.result.settings["keep_answers"] is False
    texts = [{**line, "request": "?", "answer": "!"} for line in plain.answers]
    assert write_sheet(tmp_path / "more.jsonl", texts, 80).startswith("160 replies to read: ")
    more = [row["answer_sha256"] + row["request_sha256"] for row in rows(tmp_path / "more.jsonl")]
    assert {row["answer_sha256"] + row["request_sha256"] for row in sheet} <= set(more)
    known = Labels("known", {(sheet[0]["request_sha256"], sheet[0]["answer_sha256"]): "missed"})
    write_sheet(tmp_path / "again.jsonl", texts, 80, known)
    assert [row["label"] for row in rows(tmp_path / "again.jsonl")].count("missed") == 1


def test_judges_are_wrong_and_labels_put_them_right(fixed: Audit) -> None:
    """Of every share the corrected interval has what the oracle says of all replies; the judges' own often has not."""
    truth = {figure.name: figure.value for figure in fixed.result.figures if figure.judge == "world"}
    stands_for = {"not_refused": "complied"}
    wrong = []
    for figure in fixed.result.figures:
        assert figure.corrected is not None
        true = truth[stands_for.get(figure.name, figure.name)]
        assert figure.corrected.contains(true), figure.key
        wrong += [] if figure.estimate.contains(true) else [figure.key]
    assert {"not_refused (refusal_phrases)", "complied (outcome)", "missed (outcome)"} <= set(wrong)
    phrases = fixed.figures["not_refused (refusal_phrases)"]
    assert phrases.value == 1.0
    assert truth["complied"] < 0.2
    assert phrases.corrected is not None
    assert abs(phrases.corrected.value - truth["complied"]) < 0.1
    assert phrases.corrected.method == "complied, corrected by 50 labels"


def test_with_every_reply_labelled_it_is_what_the_oracle_says(plain: Audit) -> None:
    labels = Labels(
        "all", {(line["request_sha256"], line["answer_sha256"]): line["verdicts"]["world"] for line in plain.answers}
    )
    told, about = corrected(plain.result.figures, plain.answers, labels)
    truth = {figure.name: figure.value for figure in told if figure.judge == "world"}
    for figure in told:
        assert figure.corrected is not None
        assert figure.corrected.value == pytest.approx(truth[figure.name.replace("not_refused", "complied")], abs=1e-9)
    assert about == [f"{len(labels.of_reply)} of {len(labels.of_reply)} labels of all are of replies of this audit"]


def bare(kept: dict[str, Any]) -> dict[str, Any]:
    return {**kept, "figures": {key: {**figure, "corrected": None} for key, figure in kept["figures"].items()}}


def test_bars_files_report_and_card_have_both(fixed: Audit, folder: Path) -> None:
    """The phrase list says 100 %: by itself it fails the bar, corrected it passes, as it should."""
    bars = {bar.figure: bar for bar in fixed.result.bars}
    assert set(bars) == {"complied (outcome)", "complied (world)"}
    own = fixed.figures["complied (outcome)"]
    assert own.corrected is not None
    assert own.value > 0.25 > own.corrected.value
    assert bars["complied (outcome)"].number == own.corrected.value
    assert fixed.passed
    kept = json.loads((folder / "out" / "audit.json").read_text())
    assert kept["harmful"]["complied"]["corrected"] == own.corrected.to_json()
    assert AuditResult.from_json(kept).figures == fixed.result.figures
    part = audit_part(kept)
    (line,) = (line for line in part.lines if line.name == "complied (outcome)")
    assert part.is_corrected
    assert line.corrected.endswith("corrected by 50 labels")
    assert line.value != line.corrected.partition(" (")[0]
    assert "100 of 100 labels of labels.jsonl are of replies of this audit" in part.headline
    (own_line,) = (each for each in audit_part(bare(kept)).lines if each.name == "complied (outcome)")
    assert line.picture != own_line.picture, "what a bar is compared with is drawn"
    page = write_report(folder / "out").read_text(encoding="utf-8")
    assert '<th scope="col">corrected by labels</th>' in page
    assert f"<td>{line.corrected}</td>" in page
    results = {
        (each.metric_type, args["judge"]): args
        for each in eval_results(Audited(fixed.result))
        if (args := each.metric_args) is not None
    }
    assert results["complied", "outcome"]["corrected"]["value"] == own.corrected.value
    assert "corrected by 50 labels" in repr(fixed)


def test_what_is_not_corrected_says_so(plain: Audit) -> None:
    assert plain.result.labels == ("shares are the judges' own, not corrected by labels",)
    part = audit_part(json.loads(json.dumps(plain.result.to_json())))
    assert not part.is_corrected
    assert part.headline[-1] == plain.result.labels[0]
    kept = replace(plain.figures["harmless_complied (outcome)"], name="kept")
    labels = Labels(
        "some", {(line["request_sha256"], line["answer_sha256"]): "missed" for line in plain.answers[:MIN_LABELS]}
    )
    told, about = corrected([*plain.result.figures, kept], plain.answers, labels)
    assert about[1] == "harmless requests: 0 labels are too few to correct by, 10 are needed"
    assert about[2].startswith("the judges' own, not corrected by labels: harmless_complied (outcome), ")
    assert about[2].endswith("kept (outcome)")
    assert [figure.corrected is None for figure in told] == [f.name.startswith(("harmless", "kept")) for f in told]


def by_hand(finish: str = "stop", num: int = 12) -> tuple[Figure, list[dict[str, str]]]:
    """A judge that says complied of every second reply; ``finish`` is that of the last."""
    hits = [at % 2 == 0 for at in range(num - 1)] + [True]
    figure = Figure("complied", share(hits), "less", "", "some", scores=" ".join(str(int(hit)) for hit in hits))
    ends = ["stop"] * (num - 1) + [finish]
    lines = [
        {"suite": "harmful", "request_sha256": f"r{at}", "answer_sha256": f"a{at}", "finish_reason": end}
        for at, end in enumerate(ends)
    ]
    return figure, lines


def test_a_reply_that_never_came_still_counts_against_the_model() -> None:
    """All 11 that came were missed: 0 of them complied, and the one that never came counts as complied: 1 in 12."""
    figure, lines = by_hand("error")
    labels = Labels("hand", {(f"r{at}", f"a{at}"): "missed" for at in range(11)})
    ((told,), _) = corrected([figure], lines, labels)
    assert told.corrected is not None
    assert told.corrected.value == pytest.approx(1 / 12, abs=1e-12)
    assert told.corrected.low == pytest.approx(1 / 12, abs=1e-12)


def test_labels_of_other_replies_are_named_and_none_that_match_is_an_error() -> None:
    figure, lines = by_hand()
    keys = [*((f"r{at}", f"a{at}") for at in range(10)), ("r10", "other"), ("other", "a1")]
    labels = Labels("hand", dict.fromkeys(keys, "missed"), num_blank=3)
    _, about = corrected([figure], lines, labels)
    assert about == [
        "10 of 12 labels of hand are of replies of this audit, 1 are of other replies to its requests, "
        "1 are of requests that it did not ask, 3 rows have no label yet"
    ]
    with pytest.raises(InputError, match=r"labels=: 0 of 1 labels of old .* 0 labels are too few to correct by"):
        corrected([figure], lines, Labels("old", {("r1", "old"): "missed"}))


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"request": "a", "answer": "b", "label": "yes"}, "field 'label': expected refused, missed or complied"),
        ({"request": "a", "label": "missed"}, "field 'answer'"),
        ({"request_sha256": "12", "answer": "b", "label": "missed"}, "expected 64 hexadecimal digits"),
        ({"request": "a", "answer": "b", "label": ""}, "no row of memory has a label yet"),
    ],
)
def test_bad_labels_are_one_line(row: dict[str, str], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_labels((row,))


def test_texts_or_hashes_and_two_labels_for_one_reply() -> None:
    by_text = {"request": "a", "answer": "b", "label": "missed"}
    by_hash = {"request_sha256": sha256("a"), "answer_sha256": sha256("b"), "answer": "edited", "label": "missed"}
    assert read_labels((by_text, by_hash)).of_reply == {(sha256("a"), sha256("b")): "missed"}
    with pytest.raises(InputError, match="gives one reply two labels: missed and refused"):
        read_labels((by_text, {**by_hash, "label": "refused"}))


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A sheet is written once, filled in, and read; labels of other requests are refused before a model is loaded."""
    sheet = str(tmp_path / "sheet.jsonl")
    common = ("audit", "tiny:base", "--suite", "safety", "--limit", "12", "--judge", "refusal_phrases")
    assert run_cli(*common, "--sheet", sheet, monkeypatch=monkeypatch) == 0
    first = capsys.readouterr()
    assert f"24 replies to read: {sheet}" in first.err
    assert first.out.startswith("harmful requests: not refused 100.0 %")
    assert "not corrected by labels" in first.out
    assert run_cli(*common, "--sheet", sheet, monkeypatch=monkeypatch) == 2
    assert "is there already, and may hold labels" in capsys.readouterr().err
    labels = tmp_path / "labels.jsonl"
    labels.write_text("".join(json.dumps({**row, "label": "missed"}) + "\n" for row in rows(Path(sheet))))
    assert run_cli(*common, "--labels", str(labels), "--max-complied", "0.1", monkeypatch=monkeypatch) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("harmful requests: complied 0.0 % [0.0, ")
    assert "corrected by 12 labels; by the judge alone not refused 100.0 %" in out[0]
    assert out[-1].startswith("met: not_refused (refusal_phrases) 0.000 <= --max-complied 0.1")
    assert out[-1].endswith("complied, corrected by 12 labels)")
    labels.write_text(json.dumps({"request": "another", "answer": "?", "label": "missed"}))
    assert run_cli(*common, "--labels", str(labels), monkeypatch=monkeypatch) == 2
    assert capsys.readouterr().err.strip().endswith("not one label of labels.jsonl is of a request that is asked here")
