"""The page: one file, nothing from outside, nothing a run says can become more than text."""

import base64
import hashlib
import json
from html.parser import HTMLParser

import pytest

from holdfast.config import InputError
from holdfast.reports import write_report
from holdfast.reports.microscope import MAX_ALL_TOKENS, MAX_ANSWERS, MAX_TOKENS, microscope
from holdfast.reports.page import embedded_json

from .runs import HOSTILE, answer, cell, step_rows, write_hostile_run, write_lines, write_run


class Elements(HTMLParser):
    """Every element with its attributes, and the text of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, str]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        tag = self.found[-1][0] if self.found else ""
        (self.raw.append((tag, data)) if self.cdata_elem else self.text.append(data))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write_report(write_run(tmp_path_factory.mktemp("runs") / "demo")).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    return write_report(write_hostile_run(tmp_path_factory.mktemp("runs") / "hostile")).read_text(encoding="utf-8")


def test_every_part_is_there_and_small(page):
    ids = {attributes.get("id") for _, attributes in Elements(page).found}
    assert {"matrix", "plane", "depth", "training", "microscope", "audit", "config"} <= ids
    assert len(page.encode()) < 1_000_000  # 2 MB is the bar for 48 cells and 12 runs
    assert "<footer>" not in page
    assert 'class="notes"' not in page


def test_nothing_comes_from_outside(page):
    for tag, attributes in Elements(page).found:
        assert tag not in ("iframe", "object", "embed", "base", "form", "audio", "video")
        for name in ("src", "href", "action", "data"):
            assert (attributes.get(name) or "#").startswith(("#", "data:,")), (tag, attributes)
    assert "http:" not in page
    assert "https:" not in page
    assert "@import" not in page
    assert "url(" not in page


@pytest.mark.parametrize("which", ["page", "hostile_page"])
def test_only_our_own_style_and_script_may_run(which, request):
    elements = Elements(request.getfixturevalue(which))
    policy = next(a["content"] for t, a in elements.found if t == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    names = [tag for tag, _ in elements.found]
    assert (names.count("script"), names.count("style")) == (2, 1)
    raw = {}
    for tag, text in elements.raw:
        raw.setdefault(tag, []).append(text)
    data, script = raw["script"]
    for directive, text in (("style-src", raw["style"][0]), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert json.loads(data)["charts"]
    # No handler and no inline style: the policy would block it, so the page must not need it.
    assert not [a for _, a in elements.found if any(name.startswith("on") or name == "style" for name in a)]


def test_hostile_text_is_only_text(hostile_page):
    elements = Elements(hostile_page)
    assert "img" not in [tag for tag, _ in elements.found]
    assert "\u202e" not in hostile_page
    assert "\u2066" not in hostile_page
    assert "\x00" not in hostile_page
    assert "\x1b" not in hostile_page
    assert "⟨U+202E⟩gnp.exe⟨U+2066⟩⟨U+001B⟩[31m⟨U+0000⟩⟨U+D800⟩⟨U+2028⟩" in "".join(elements.text)
    assert "{{7*7}}" in "".join(elements.text)
    assert len(hostile_page.encode()) < 2_000_000


def test_a_long_answer_is_cut_with_a_note(hostile_page):
    data = json.loads(next(text for tag, text in Elements(hostile_page).raw if tag == "script"))
    long = data["microscope"]["answers"][1]
    assert len(long["tokens"]) == MAX_TOKENS
    assert long["note"].startswith(f"The first {MAX_TOKENS:,} of ")
    assert long["tokens"][0][0].endswith("more characters left out)")
    assert long["prompt"].endswith("more characters left out)")


def test_the_hostile_answer_lost_nothing_but_its_power(hostile_page):
    data = json.loads(next(text for tag, text in Elements(hostile_page).raw if tag == "script"))
    text, weight, kl, share, anchor, _, policy = data["microscope"]["answers"][0]["tokens"][0]
    assert text.startswith("</script><script>window.hacked=1</script>")
    assert (weight, kl, share) == (1.0, None, None)
    assert anchor == text
    assert policy is None


@pytest.mark.parametrize("text", [HOSTILE, "<!--<script>", "]]>", "\u2028\u2029", "&lt;", "\\u003c"])
def test_embedded_json_reads_back_and_cannot_break_out(text):
    text = text.replace("\ud800", "")
    made = embedded_json({"text": text})
    assert json.loads(made) == {"text": text}
    assert not set("<>&\u2028\u2029") & set(made)


def test_embedded_json_refuses_what_is_not_json():
    with pytest.raises(ValueError, match="not JSON compliant"):
        embedded_json([float("nan")])


def test_a_part_without_data_is_left_out_with_a_line(tmp_path):
    write_lines(tmp_path / "steps.jsonl", step_rows(4, roles=("response",), streams=("task",)))
    page = write_report(tmp_path).read_text(encoding="utf-8")
    ids = {attributes.get("id") for _, attributes in Elements(page).found}
    assert "training" in ids
    assert not ids & {"matrix", "plane", "depth", "microscope", "audit", "config"}
    footer = page.split("<footer>")[1]
    for line in ("The matrix", "KL by token position", "The token microscope", "The audit", "The configuration"):
        assert f"<li>{line}" in footer


def test_a_matrix_of_failures_only(tmp_path):
    rows = [
        cell("a", "d", 0) | {"status": "failed", "reason": "killed", "asr": None, "over_refusal": None, "utility": None}
    ]
    rows[0]["kl_by_position"] = []
    page = write_report_of(tmp_path, rows)
    assert "killed" in page
    assert "no cell has both utility and attack success" in page


def write_report_of(folder, rows):
    write_lines(folder / "matrix.jsonl", rows)
    return write_report(folder).read_text(encoding="utf-8")


def test_rates_are_pooled_over_seeds(tmp_path):
    page = write_report_of(tmp_path, [cell("a", "d", seed) | {"asr": 0.1 * seed, "asr_trials": 10} for seed in (1, 3)])
    assert "<strong>20 %</strong><small>8–42</small>" in page  # 4 of 20
    assert "seed 1: 10 % of 10\nseed 3: 30 % of 10" in page


def test_notes_are_on_the_page(tmp_path):
    (tmp_path / "matrix.jsonl").write_text(json.dumps(cell("a", "d", 0)) + "\n{broken\n")
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "<li>matrix.jsonl:2: not a whole JSON line: skipped.</li>" in page


def test_the_same_run_gives_the_same_bytes(tmp_path):
    run = write_run(tmp_path / "demo", num_runs=1)
    first = write_report(run, tmp_path / "one.html").read_bytes()
    assert write_report(run, tmp_path / "two.html").read_bytes() == first


def test_a_report_is_whole_or_not_there(tmp_path):
    run = write_run(tmp_path / "demo", num_runs=1)
    write_report(run)
    with pytest.raises(InputError, match="cannot be written"):
        write_report(run, tmp_path / "nowhere" / "report.html")
    assert not list(run.glob(".*.tmp"))


def test_the_page_stays_small_with_many_answers(tmp_path):
    notes: list[str] = []
    made = microscope([answer(text="word " * 1000) for _ in range(100)], notes)
    assert made is not None
    assert sum(len(one["tokens"]) for one in made["answers"]) <= MAX_ALL_TOKENS
    assert len(made["answers"]) <= MAX_ANSWERS
    assert len(json.dumps(made)) < 1_200_000
    assert "answers left out" in notes[0]


def test_odd_tokens_do_not_stop_the_page():
    tokens = ["text", None, {}, {"text": 7, "weight": True, "kl": -1, "anchor_top": 0, "role": None}]
    made = microscope([{"tokens": tokens}], [])
    assert made is not None
    assert made["answers"][0]["tokens"] == [
        ["", None, None, None, None, 0, None],
        ["7", None, -1.0, None, "0", 0, None],
    ]
    assert made["tops"] == {"weight": None, "kl": -1.0, "gradient_share": None}


def test_the_ledger_of_the_papers_is_a_part(tmp_path):
    row = {"id": "002-x", "paper": "002", "place": "Table 3", "claim": HOSTILE, "printed": "2.7 %", "found": "fewer"}
    judged = {"measured": 0.25, "low": 0.125, "high": 0.5, "seeds": 3, "verdict": "holds", "erratum": True}
    rows = [{**row, **judged, "command": "holdfast reproduce 002-x"}, {"paper": "004", "verdict": "does not hold"}]
    (tmp_path / "papers.json").write_text(json.dumps(rows), encoding="utf-8")
    page = write_report(tmp_path).read_text(encoding="utf-8")
    elements = Elements(page)
    assert "papers" in {attributes.get("id") for _, attributes in elements.found}
    text = "".join(elements.text)
    assert "1 holds, 1 does not hold" in text
    assert "0.25 [0.125, 0.5], 3 seeds holdfast reproduce 002-x" in text
    assert "⟨U+202E⟩gnp.exe" in text
    assert not [tag for tag, _ in elements.found if tag == "img"]
