"""Tokens and Try it on the embedded models: what is read, weighed, said, judged and kept."""

import json

import pytest

from waiting import PATIENCE, wait_for


@pytest.fixture
def panel(live, tmp_path):
    view = live(tmp_path)
    page = view.page

    def shown(name):
        page.locator(f"nav a[href='#{name}']").click()
        wait_for(lambda: page.locator("select.models option").count() > 3)
        return page

    shown.messages = view.messages
    return shown


def told(page):
    return page.locator("#tokens-status").inner_text()


def tokens(page):
    return page.locator("#token-rows .tok").all_text_contents()


def test_a_conversation_token_by_token(panel):
    page = panel("tokens")
    wait_for(lambda: told(page) == "13 tokens")
    assert [text.strip() for text in tokens(page)[-4:]] == ["sun", "river", "stone", "<|end|>"]
    assert "prompt9 tokens response4 tokens" in page.locator(".role-legend").inner_text().replace("\n", "")
    page.locator("#token-rows .tok").nth(9).hover()
    tip = page.locator("#tip").inner_text()
    assert "role response" in tip
    assert "sft: weight 1," in tip
    assert "csft: weight" in tip
    assert "KL to the anchor" in tip
    page.locator("#tokens-numbers summary").click()
    rows = page.locator("#tokens-numbers tbody tr")
    wait_for(lambda: rows.count() == 4)
    heads = page.locator("#tokens-numbers th[scope=col]").all_text_contents()
    last = dict(zip(heads, rows.nth(3).locator("th, td").all_text_contents(), strict=True))
    assert (last["role"], last["weight, sft"]) == ("response", "1")
    assert float(last["KL"]) > 0
    assert last["weight, distill"] == "–"  # it does not read log p


def test_an_edit_is_read_again(panel):
    page = panel("tokens")
    wait_for(lambda: told(page) == "13 tokens")
    page.get_by_label("Conversation").fill("user: copy : sun\nassistant: sun")
    wait_for(lambda: told(page) == "9 tokens")
    page.get_by_label("Conversation").fill('{"prompt": "copy : sun", "completion": "sun"}')
    wait_for(lambda: "9 tokens" in told(page))
    page.locator("#tokens-anchor").select_option("tiny:aligned")
    page.locator("#tokens-colour").select_option("kl")
    wait_for(
        lambda: "KL to the anchor 0 nats" in (page.locator("#token-rows .tok").last.get_attribute("data-tip") or "")
    )
    page.get_by_label("Conversation").fill("{")
    wait_for(lambda: "not JSON" in told(page))
    page.get_by_label("Conversation").fill('{"messages": 7}')
    wait_for(lambda: "messages" in told(page))
    assert page.locator("#tokens-status.wrong").count() == 1
    panel.messages.clear()  # the browser's own note of the two refusals


def test_two_models_side_by_side_and_rows_that_are_kept(panel):
    page = panel("try")
    page.get_by_label("Beside it").select_option("tiny:base")
    page.get_by_label("Milliseconds per change").fill("0")
    page.locator("#try-send").click()
    wait_for(lambda: page.locator(".reply .keep").count() == 2)
    assert page.locator(".said").first.inner_text().startswith("sun river stone")
    assert page.locator(".reply h3").all_text_contents() == ["tiny:aligned", "tiny:base"]
    page.locator(".keep").first.click()
    with page.expect_download(timeout=PATIENCE * 1000) as download:
        page.get_by_role("button", name="Download kept rows").click()
    (line,) = download.value.path().read_text().splitlines()
    asked, answered = json.loads(line)["messages"]
    assert asked == {"role": "user", "content": "copy : sun river stone"}
    assert answered["role"] == "assistant"
    assert answered["content"].startswith("sun river stone")
    page.get_by_role("button", name="Start again").click()
    assert page.locator(".exchange").count() == 0


def test_overseen_shows_every_candidate_and_why(panel):
    page = panel("try")
    page.locator("#try-mode span", has_text="overseen").click()
    page.get_by_label("Temperature").fill("1.5")
    page.get_by_label("Candidates").fill("3")
    page.get_by_label("Seed").fill("5")
    page.locator("#try-send").click()
    page.locator(".candidates").wait_for(timeout=PATIENCE * 1000)
    items = page.locator(".candidates > li")
    assert items.count() == 3
    assert all("reward" in text and "world:" in text for text in items.all_inner_texts())
    chosen = page.locator(".candidates .chosen")
    assert chosen.count() == 1
    assert "safe of 3" in page.locator(".reply").inner_text()
    page.get_by_label("Temperature").fill("0")  # then all candidates would be the same, which is said
    page.locator("#try-send").click()
    wait_for(lambda: "at temperature 0" in page.locator(".reply").last.inner_text())


def test_a_model_without_undo_says_so(panel):
    page = panel("try")
    page.locator("#try-mode span", has_text="with undo").click()
    page.get_by_label("Say").fill("<img src=x onerror=window.hacked=1> copy : sun")
    page.locator("#try-send").click()
    wait_for(
        lambda: (
            "undo" in page.locator(".reply .wrong").inner_text().lower()
            if page.locator(".reply .wrong").count()
            else False
        )
    )
    assert "<img src=x" in page.locator(".exchange > p").inner_text()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
