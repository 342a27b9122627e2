"""Nothing invisible, nothing that reorders, nothing endless; and ordinary text untouched."""

import pytest

from holdfast.reports.text import named, shown, visible


@pytest.mark.parametrize("text", ["plain", "zwei Öl\n\tund 日本語", "שלום עולם", "مرحبا", "👩‍🔬", "a<b>&'\"", ""])
def test_ordinary_text_stays(text):
    assert visible(text) == text


@pytest.mark.parametrize(
    "code", [0x00, 0x07, 0x0D, 0x1B, 0x7F, 0x85, 0x200B, 0x200F, 0x2028, 0x202E, 0x2066, 0xFEFF, 0xD800, 0xE0041]
)
def test_hidden_characters_are_written_out(code):
    assert visible(f"a{chr(code)}b") == f"a⟨U+{code:04X}⟩b"


def test_every_bidi_control_is_written_out():
    """By Unicode's own list of classes, not by ours."""
    import sys
    import unicodedata

    classes = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    controls = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.bidirectional(chr(code)) in classes]
    assert len(controls) == 9
    assert not any(control in visible(control) for control in controls)


def test_long_text_is_cut_with_a_count():
    assert shown("x" * 1_000_000, 10) == "x" * 10 + "… (999,990 more characters left out)"
    assert shown("x" * 10, 10) == "x" * 10


def test_what_is_shown_can_be_written():
    shown("\ud83d lone \udfff").encode()


def test_long_names_stay_two():
    one, other = named("x" * 500 + "1"), named("x" * 500 + "2")
    assert one != other
    assert len(one) == 60
    assert named("short\u202e") == "short⟨U+202E⟩"
