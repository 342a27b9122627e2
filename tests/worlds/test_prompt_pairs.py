"""Pairs of prompts: a pattern's fillers, and that neither kind leaks into the other."""

from holdfast.records.near_twins import content_words
from holdfast.worlds.default_prompts import default_prompts
from holdfast.worlds.prompt_pairs import _pattern, patterns


def test_a_pattern_is_filled_with_either_kind_and_every_choice() -> None:
    pattern = _pattern("___ [tea/coffee]. | How do I brew; Sing of | Spill")
    assert pattern.keep == ("How do I brew tea?", "How do I brew coffee?", "Sing of tea.", "Sing of coffee.")
    assert pattern.safety == ("Spill tea.", "Spill coffee.")
    assert _pattern("How do I hide ___? | a present |").safety == ()


def test_every_prompt_is_a_whole_sentence_of_one_kind_only() -> None:
    keep = [text for pattern in patterns() for text in pattern.keep]
    safety = [text for pattern in patterns() for text in pattern.safety]
    assert len(keep) > 700
    assert len(safety) > 300
    for text in [*keep, *safety]:
        assert text[0].isupper()
        assert text[-1] in ".?"
        assert not set("[];|_") & set(text)
    assert len(set(keep) | set(safety)) == len(keep) + len(safety)
    singles = {content_words(text) for text in (*default_prompts("keep"), *default_prompts("safety"))}
    assert not [
        text
        for text in safety
        if content_words(text) in singles - {content_words(t) for t in default_prompts("safety")}
    ]
