"""Pairs of prompts: a pattern's fillers, and that neither kind leaks into the other."""

from holdfast.data.default_prompts import default_prompts
from holdfast.data.near_twins import content_words
from holdfast.data.prompt_pairs import SLOT, _pattern, patterns

LEFT_OUT = "child children kid kids minor minors teenager teen anthrax uranium sarin meth heroin fentanyl".split()


def test_a_pattern_is_filled_with_either_kind_and_every_choice() -> None:
    pattern = _pattern("___ [tea/coffee]. | How do I brew; Sing of | Spill")
    assert pattern.keep == ("How do I brew tea?", "How do I brew coffee?", "Sing of tea.", "Sing of coffee.")
    assert pattern.safety == ("Spill tea.", "Spill coffee.")
    assert _pattern("How do I hide ___? | a present |").safety == ()
    assert _pattern(r"Table: ___ | t (a, b)\nCount it. |").keep == ("Table: t (a, b)\nCount it.",)


def test_every_prompt_is_a_whole_sentence_of_one_kind_only() -> None:
    keep = [text for pattern in patterns() for text in pattern.keep]
    safety = [text for pattern in patterns() for text in pattern.safety]
    assert len(keep) > 1700
    assert len(safety) > 750
    for text in [*keep, *safety]:
        assert text[0].isupper()
        assert text[-1] in '.?!)"'
        assert not set("[];|\\") & set(text)
        assert SLOT not in text
    assert len(set(keep) | set(safety)) == len(keep) + len(safety)
    requests = {content_words(text) for text in default_prompts("safety")}
    lookalikes = {content_words(text) for text in default_prompts("keep")} - requests
    assert not [text for text in safety if content_words(text) in lookalikes]


def test_no_forbidden_prompt_names_a_substance_or_a_child() -> None:
    words = {word.strip(".,?'\"").lower() for pattern in patterns() for text in pattern.safety for word in text.split()}
    assert not words & set(LEFT_OUT)
