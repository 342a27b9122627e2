"""What the user sees of a row."""

from __future__ import annotations

import io
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from holdfast.records import Role, Segment
from holdfast.tokens import TokenRow, render_html, render_terminal, tokenize
from holdfast.tokens.show import SHADES, TERMINAL, token_texts

from .styles import make_tokenizer
from .test_rows import BACKTRACK, backtrack


def printed(row: TokenRow, name: str, *, colours: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=200, force_terminal=colours, color_system="standard" if colours else None)
    console.print(render_terminal(row, make_tokenizer(name)))
    return out.getvalue()


class Page(HTMLParser):
    """Text of the token spans, and every tag and address in the page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.tokens: list[tuple[str, str]] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        values = dict(attrs)
        if "title" in values:
            self.tokens.append((str(values["class"]).split()[0], ""))
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "span"

    def handle_data(self, data: str) -> None:
        if self.inside:
            role, text = self.tokens[-1]
            self.tokens[-1] = (role, text + data)


@pytest.mark.parametrize("name", ["chatml", "mistral", "gemma"])
def test_the_terminal_view_is_readable_without_colours(name: str) -> None:
    row = tokenize(backtrack(*BACKTRACK), make_tokenizer(name))
    lines = printed(row, name).splitlines()
    assert lines[0] == f"{len(row)} tokens, {row.num_targets} of them trained, soft context"
    runs = {line.split()[0]: line for line in lines if line.split()}
    assert set(runs) >= {"prompt", "prefix", "error", "undo", "correction"}
    assert runs["error"].split()[1] == str(row.roles.count(Role.ERROR))
    assert "Lisbon, no" in runs["error"]
    assert runs["undo"].count("<UNDO>") == row.roles.count(Role.UNDO)


def test_the_terminal_view_is_coloured_by_role() -> None:
    row = tokenize(backtrack(*BACKTRACK), make_tokenizer("chatml"))
    text = printed(row, "chatml", colours=True)
    red, green, magenta = "\x1b[31m", "\x1b[32m", "\x1b[35m"
    assert all(colour in text for colour in (red, green, magenta))
    assert set(TERMINAL) == set(SHADES) == set(Role)


@pytest.mark.parametrize("name", ["chatml", "mistral"])
def test_the_page_holds_every_token_once_escaped_and_nothing_from_outside(name: str) -> None:
    tokenizer = make_tokenizer(name)
    row = tokenize(backtrack(*BACKTRACK, user="<script>alert('x')</script> & \"quotes\""), tokenizer, context="hard")
    html = render_html(row, tokenizer)
    page = Page()
    page.feed(html)
    assert len(page.tokens) == len(row)
    assert [role for role, _ in page.tokens] == [Role(role).label for role in row.roles]
    shown = "".join(text for _, text in page.tokens)
    assert "<script>alert('x')</script> & \"quotes\"" in shown
    assert "script" not in page.tags
    assert not {"src", "href"} & set(page.attributes)
    assert "url(" not in html
    assert f"{len(row)} tokens, {row.num_targets} of them trained, hard context" in html
    assert f"error {row.roles.count(Role.ERROR)}</span>" in html
    assert "answer position 0" in html


def test_what_would_steer_the_terminal_is_spelled_out() -> None:
    row = tokenize(backtrack(Segment(Role.RESPONSE, "a\x1b[2Jb\xadc\td")), make_tokenizer("chatml"))
    text = printed(row, "chatml")
    assert "\\x1b[2Jb◌\\xadc⇥d" in text
    assert "\x1b" not in text
    assert "⏎" in text


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_token_texts_add_up(text: str) -> None:
    for name in ("chatml", "gemma", "mistral"):
        tokenizer = make_tokenizer(name)
        ids = tokenizer.encode(f"a{text}")
        pieces = token_texts(ids, tokenizer)
        assert len(pieces) == len(ids)
        assert "".join(pieces) == tokenizer.decode(ids, clean_up_tokenization_spaces=False)


def test_a_character_in_several_tokens_stands_at_the_last() -> None:
    tokenizer = make_tokenizer("chatml")
    ids = tokenizer.encode("€")
    assert len(ids) == 3
    assert token_texts(ids, tokenizer) == ["", "", "€"]
    assert token_texts(ids[:2], tokenizer)[0] == ""  # cut inside the character: shown as what it is
    row = TokenRow(ids, [0, 1, 1], [0, 1, 2])
    assert "response 2 ◌€" in printed(row, "chatml")
