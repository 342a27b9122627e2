"""A run of the real trainer on hostile rows, opened in the browser: what it wrote is shown, and does nothing."""

import json

import pytest

from conftest import save_small_model
from holdfast.reports import write_report
from reports.runs import HOSTILE
from tokens.styles import fresh
from training.runs import config, run


@pytest.fixture(scope="module")
def hostile_run(tmp_path_factory):
    """Byte-level tokens, so that every character of the answer reaches the page; a megabyte of answer among them."""
    folder = tmp_path_factory.mktemp("hostile_run")
    tokenizer = fresh("llama3", undo=False)
    model = save_small_model(folder / "model", vocab_size=len(tokenizer), bos_token_id=None, eos_token_id=None)
    tokenizer.save_pretrained(model)
    text = HOSTILE.replace("\ud800", "")
    rows = [
        {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]}
        for answer in (text, "x " * 500_000)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    stream = {"data": str(folder / "rows.jsonl"), "objective": "csft", "name": text[:40]}
    short = {"batch_size": 2, "micro_batch": 1, "max_steps": 2, "max_length": 512}
    run(config(folder / "run", model, streams=[stream], training=short))
    return write_report(folder / "run")


def test_a_real_run_of_hostile_rows(open_page, hostile_run):
    view = open_page(hostile_run)
    page = view.page
    assert page.evaluate("window.hacked") is None
    assert view.requests == [hostile_run.as_uri()]
    assert page.locator("img").count() == 0
    shown = "".join(page.locator(".tokens").first.locator(".tok").all_text_contents())
    assert shown.startswith("</script><script>window.hacked=1</script><img src=x")
    assert "⟨U+202E⟩" in shown
    long = page.locator(".answer").nth(1)
    assert long.locator(".tok").count() == 96
    assert long.locator(".caption").inner_text().startswith("The first 96 of ")
    first = page.locator(".tokens .tok").first
    first.hover()
    told = page.locator("#tip").inner_text()
    assert "the anchor prefers" in told
    assert "weight" in told
    assert "gradient share" in told
    assert page.locator("#depth svg").count() == 1
    assert page.locator("#training svg").count() >= 1
