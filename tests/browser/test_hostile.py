"""A run whose every text attacks the page, and a page that somebody tampered with."""

import pytest


def test_hostile_text_is_shown_and_does_nothing(open_page, hostile):
    view = open_page(hostile)
    page = view.page
    assert page.evaluate("window.hacked") is None
    assert view.requests == [hostile.as_uri()]
    assert page.locator("img").count() == 0
    first = page.locator(".tokens .tok").first
    assert first.inner_text().startswith("</script><script>window.hacked=1</script><img")
    first.hover()
    assert "window.hacked" in page.locator("#tip").inner_text()
    assert page.locator("#tip script").count() == 0
    assert "⟨U+202E⟩gnp.exe" in page.locator(".prompt").first.inner_text()
    assert page.evaluate("window.hacked") is None


def test_hostile_text_stays_in_its_place(open_page, hostile):
    """Nothing reaches outside the page, however long or strange it is."""
    page = open_page(hostile, width=1000).page
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 1000


def test_a_long_answer_is_cut_with_a_visible_note(open_page, hostile):
    page = open_page(hostile).page
    long = page.locator(".answer").nth(1)
    assert long.locator(".tok").count() == 1500
    assert "left out" in long.locator(".caption").inner_text()
    assert "more characters left out" in long.locator(".tok").first.inner_text()


@pytest.mark.parametrize(
    "injected",
    [
        "<script>window.hacked = 1</script>",
        "<img src='data:,' onerror='window.hacked = 1'>",
        "<svg onload='window.hacked = 1'></svg>",
        "<style>body { outline: 7px solid red }</style><script>window.hacked = 1</script>",
        "<script src='data:text/javascript,window.hacked = 1'></script>",
        "<img src='http://127.0.0.1:9/pixel.png'>",
        "<iframe srcdoc='<script>parent.hacked = 1</script>'></iframe>",
    ],
)
def test_the_policy_blocks_what_is_injected(open_page, demo, tmp_path, injected):
    tampered = tmp_path / "tampered.html"
    tampered.write_text(demo.read_text(encoding="utf-8").replace("</main>", injected + "</main>"), encoding="utf-8")
    view = open_page(tampered)
    assert view.page.evaluate("window.hacked") is None
    assert view.page.evaluate("getComputedStyle(document.body).outlineWidth") != "7px"
    assert any("Content Security Policy" in message for message in view.messages), view.messages
    assert view.page.locator(".tokens .tok").first.is_visible()  # and the page itself still works
    view.messages.clear()


def test_markup_cannot_be_set_from_text(open_page, demo):
    """Trusted types: even our own script could not turn text into markup by mistake."""
    view = open_page(demo)
    assert (
        view.page.evaluate("try { document.body.innerHTML = '<b>x</b>'; 'set' } catch (error) { error.name }")
        == "TypeError"
    )
    view.messages.clear()
