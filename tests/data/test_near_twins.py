"""Twins are found whatever their small words and endings; strangers are not."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.data.near_twins import content_words, likeness, twin_groups, without_twins

WORDS = st.lists(st.sampled_from("apple bread candle door engine field garden house".split()), min_size=1).map(" ".join)


def test_small_words_case_and_endings_do_not_matter() -> None:
    a, b = "How do I kill a Python process?", "Tell me how to kill Python processes"
    assert content_words(a) == content_words(b) == {"kill", "python", "process"}
    assert without_twins([b], [a], text=str) == []


def test_likeness_is_common_words_over_all() -> None:
    """2 of the 4 words {bake, cake, bread, rye} are common."""
    assert likeness(content_words("bake rye bread"), content_words("bake bread cake")) == 0.5


def test_a_request_of_small_words_only_still_has_words() -> None:
    assert without_twins(["How do I do it?"], ["What is this?"], text=str) == ["How do I do it?"]


@given(st.lists(WORDS), st.lists(WORDS))
def test_what_is_kept_has_no_twin_anywhere(rows: list[str], against: list[str]) -> None:
    kept = without_twins(rows, against, text=str)
    for number, row in enumerate(kept):
        others = [*against, *kept[:number]]
        assert all(likeness(content_words(row), content_words(other)) < 0.6 for other in others)
    assert all(row in rows for row in kept)


@given(st.lists(WORDS))
def test_twins_are_never_in_two_groups(texts: list[str]) -> None:
    groups = twin_groups(texts)
    for i, a in enumerate(texts):
        for j, b in enumerate(texts):
            if likeness(content_words(a), content_words(b)) >= 0.6:
                assert groups[i] == groups[j]
