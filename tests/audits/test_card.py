"""The model card: hubs read it back as it was meant, it renders as tables, and no name on it is markup."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt

import holdfast as hf
from holdfast.config import InputError
from holdfast.data.model_card import Audited, Training, card_text
from holdfast.records import AuditResult, Bar, Figure
from holdfast.stats import wilson

ROWS = [{"prompt": f"count : {colour}", "completion": "it is 1 ."} for colour in ("red", "blue", "green", "grey")]
DATA = [{"stream": "task", "objective": "csft", "source": "hf:owner/rows:train", "rows": 3, "fingerprint": "a" * 64}]


def figure(name: str, hits: int, judge: str = "outcome") -> Figure:
    return Figure(
        name, wilson(hits, 10), "less", f"requests {name}", judge=judge, source="requests.jsonl: 10 of 12 rows"
    )


def audit_of(*hits: int) -> AuditResult:
    """Three outcomes of ten requests."""
    names = ("refused", "missed", "complied")
    return AuditResult(
        model="somewhere/model",
        anchor=None,
        judges=("outcome",),
        figures=tuple(map(figure, names, hits)),
        bars=(Bar("--max-asr", 0.5, "complied (outcome)", "value", hits[2] / 10, hits[2] <= 5),),
        sources=("requests.jsonl: 10 of 12 rows",),
        fingerprints=("f" * 64,),
    )


def training(**changed: object) -> Training:
    parts = {
        "run": "runs/mine",
        "model": "owner/base",
        "config": "run: x\n",
        "data": DATA,
        "last": {"step": 3, "nll": 0.5},
    }
    return Training(**{**parts, **changed})  # type: ignore[arg-type]


def cells(text: str) -> list[list[str]]:
    """Every row of every table of the rendered page."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    rows: list[list[str]] = []
    for at, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        if token.type == "inline" and tokens[at - 1].type in ("td_open", "th_open"):
            rows[-1].append("".join(child.content for child in token.children or ()))
    return rows


def test_outcomes_round_trip_through_the_hub_library() -> None:
    audited = Audited(audit_of(7, 2, 1), audit_of(9, 1, 0), {})
    card = ModelCard(card_text(training(), audited))
    data = card.data
    assert (data.base_model, data.datasets, data.library_name) == ("owner/base", ["owner/rows"], "transformers")
    assert data.tags == ["holdfast", "csft"]
    assert data.metrics == ["refused", "missed", "complied"]
    assert [(r.metric_type, r.metric_value) for r in data.eval_results] == [
        ("refused", 0.7),
        ("missed", 0.2),
        ("complied", 0.1),
    ]
    complied = data.eval_results[2]
    low_high = wilson(1, 10)
    assert complied.metric_args["low"] == low_high.low
    assert complied.metric_args["high"] == low_high.high
    assert (complied.metric_args["n"], complied.metric_args["judge"]) == (10, "outcome")
    assert complied.metric_args["before"]["value"] == 0.0
    assert (complied.dataset_type, complied.dataset_revision) == ("requests.jsonl", "f" * 64)
    assert complied.task_type == "text-generation"
    assert ModelCard(str(card)).data.to_dict() == data.to_dict()


def test_the_page_renders_as_tables() -> None:
    rows = cells(ModelCard(card_text(training(), Audited(audit_of(7, 2, 1)))).text)
    assert ["task", "csft", "hf:owner/rows:train", "3", "a" * 16] in rows
    assert ["complied: requests complied", "outcome", "10", f"{wilson(1, 10):.3g}"] in rows
    assert ["requests.jsonl: 10 of 12 rows", "f" * 16] in rows
    assert {len(row) for row in rows} == {5, 4, 2}


def test_names_are_not_markup() -> None:
    wild = "a|b\n\n# c <script>x</script> [l](http://h) `d` --- *e*"
    entry = {**DATA[0], "stream": wild, "source": wild}
    result = audit_of(7, 2, 1)
    wild_figure = replace(result.figures[0], meaning=wild, judge=wild, source=wild)
    bars = tuple(replace(bar, figure=wild_figure.key) for bar in result.bars)
    audited = Audited(replace(result, figures=(wild_figure,), bars=bars))
    text = card_text(training(data=[entry], run=f"runs/{wild.replace('/', '')}"), audited)
    card = ModelCard(text)
    html = MarkdownIt("commonmark").enable("table").render(card.text)
    assert "<script>" not in html
    assert "<a " not in html
    assert html.count("<h1>") == 1
    assert any(row[0] == " ".join(wild.split()) and len(row) == 5 for row in cells(card.text))
    assert card.data.eval_results[0].dataset_name == wild


def test_a_local_model_is_no_hub_id(tmp_path: Path) -> None:
    for name in ("tiny:aligned", str(tmp_path)):
        assert "base_model" not in ModelCard(card_text(training(model=name))).data.to_dict()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows in memory, as from a notebook."""
    folder = tmp_path_factory.mktemp("cards") / "mine"
    hf.train(
        "tiny:aligned",
        [hf.Stream(ROWS, "sft")],
        run=str(folder),
        max_steps=1,
        batch_size=4,
        say=[].append,
        progress=False,
    )
    return folder


def test_a_run_gets_the_figures_of_its_audits(run: Path, tmp_path: Path) -> None:
    asked = {"world": True, "suite": "safety", "limit": 3, "say": [].append}
    before = hf.audit("tiny:aligned", out=tmp_path / "before", **asked)
    after = hf.audit(str(run / "model"), like=before, out=run, say=[].append)
    path = hf.card(run, before=tmp_path / "before")
    assert path == run / "model" / "README.md"
    card = ModelCard.load(path)
    results = {result.metric_type: result for result in card.data.eval_results}
    assert results.keys() == {figure.name for figure in after.figures.values()}
    changes = after.against(before)
    assert {"complied", "refused", "missed"} <= {figure.name.rpartition("_")[2] for figure in after.figures.values()}
    for figure in after.figures.values():
        assert results[figure.name].metric_value == figure.value
        if figure.name == "kept":  # compared with the audit before, which has none itself
            assert "worse_by" not in results[figure.name].metric_args
        else:
            assert results[figure.name].metric_args["worse_by"]["value"] == changes[figure.key].by.value
        assert results[figure.name].dataset_name in after.result.sources
    assert f"| nll | {yaml.safe_load((run / 'steps.jsonl').read_text().splitlines()[-1])['nll']:.6g} |" in card.text
    again = hf.train(
        "tiny:aligned", [hf.Stream(ROWS, "sft")], run=str(run), max_steps=1, batch_size=4, say=(told := []).append
    )
    assert told == [f"trained already: {again.model}"], "a new card does not make the run unfinished"


def test_what_does_not_belong_on_the_card_is_refused(run: Path, tmp_path: Path) -> None:
    asked = {"world": True, "suite": "safety", "limit": 2, "say": [].append}
    (tmp_path / "other").mkdir()
    mine = hf.audit("tiny:aligned", **asked)
    card = (run / "model" / "README.md").read_text()
    other = replace(mine, result=replace(mine.result, model=str(tmp_path / "other")))
    with pytest.raises(InputError, match="its figures do not belong on this card"):
        hf.card(run, after=other)
    with pytest.raises(InputError, match="did not ask the same rows"):
        hf.card(run, after=mine, before=hf.audit("tiny:aligned", **{**asked, "limit": 3}))
    with pytest.raises(InputError, match="has no trained model"):
        hf.card(tmp_path)
    assert (run / "model" / "README.md").read_text() == card


def test_a_run_of_rl_has_a_card_too(tmp_path: Path) -> None:
    """It has no streams: the card tells its prompts, and of the last step what RL logs. A null is left out."""
    run = tmp_path / "rl"
    (run / "model").mkdir(parents=True)
    (run / "config.yaml").write_text("run: rl\nmodel: {name: tiny:aligned}\nrl: {lr: 1e-6}\ndata: questions.jsonl\n")
    (run / "data.json").write_text(f'[{{"prompts": 12, "fingerprint": "{"b" * 64}", "undo": null}}]\n')
    (run / "steps.jsonl").write_text('{"step": 6, "reward": 0.875, "kl": null, "p_s": 1.0}\n')
    text = hf.card(run).read_text(encoding="utf-8")
    assert ["prompts", "grpo", "questions.jsonl", "12", "b" * 16] in cells(text)
    assert cells(text)[3:5] == [["step", "6"], ["reward", "0.875"]]
    assert "NLL" not in text
    assert ModelCard(text).data.tags == ["holdfast", "grpo"]


@pytest.mark.parametrize("content", [b"\xff\xfe", b'{"stream": "task"}', b"[1]", b"["])
@pytest.mark.parametrize("name", ["data.json", "steps.jsonl"])
def test_damaged_files_of_a_run_are_one_line(tmp_path: Path, name: str, content: bytes) -> None:
    run = tmp_path / "run"
    (run / "model").mkdir(parents=True)
    (run / "config.yaml").write_text("model: {name: tiny:aligned}\n")
    (run / "data.json").write_text("[]")
    (run / "steps.jsonl").write_text("")
    (run / name).write_bytes(content if name == "data.json" else content.replace(b"{", b"[{").replace(b"}", b"}]"))
    with pytest.raises(InputError, match=f"{name}: damaged"):
        hf.card(run)
