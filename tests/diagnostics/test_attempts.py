import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config import InputError
from holdfast.diagnostics.attempts import MARKERS, lexical_splitter, token_splitter
from holdfast.judging.extractors import (
    boxed,
    choices,
    code_blocks,
    find_extractor,
    numbers,
    plain_number,
    reference_answer,
)
from holdfast.records import Role
from holdfast_studies.decisions.products import product_splitter


def answers(extract, text):
    return [candidate.answer for candidate in extract(text)]


def test_extractors():
    assert answers(numbers, "It costs $1,234.50, not -3 or 1/2.") == ["1234.5", "-3", "1/2"]
    assert answers(numbers, "x2 and a_3 are names, v1.5 too") == []
    assert answers(boxed, r"so \boxed{\frac{1}{2}} and \boxed{1,000}") == [r"\frac{1}{2}", "1000"]
    assert answers(boxed, r"cut off in \boxed{12") == []
    assert answers(choices, "The answer is (b). Or (C)\nD\nAn apple") == ["B", "C", "D"]
    words = (
        "choice is a dog",
        "to answer a question",
        "the answer I get is 5",
        "answer: i'm not sure",
        "option (a dog)",
    )
    assert [answers(choices, text) for text in words] == [[]] * 5
    letters = (
        "answer is a.",
        "option a is right",
        "answer: a\nSo",
        "answer is I because",
        "answer (a) dog",
        "answer is A dog",
    )
    assert [answers(choices, text) for text in letters] == [["A"], ["A"], ["A"], ["I"], ["A"], ["A"]]
    assert answers(code_blocks, "```python\nx = 1  \n```\nor\n```\ny\n") == ["x = 1", "y"]
    assert reference_answer("48 + 24 = 72\n#### 72", numbers) == "72"
    assert reference_answer("blue", numbers) == "blue"


def test_numbers_are_compared_digit_by_digit_however_long():
    long = "123456789012345678901234567890123451"
    assert plain_number(long) == long != plain_number(long[:-1] + "2")
    spellings = ("1,000", "$1000", "1000.0", "1000.", "1e3", "01000", "+1000")
    assert {plain_number(each) for each in spellings} == {"1000"}
    assert [plain_number(each) for each in ("-0", "0.00", "-0.50", "9" * 5000)] == ["0", "0", "-0.5", "9" * 5000]


@pytest.mark.parametrize("text", ["1e99999999", "-1e-99999999", "1e99999999999999999999", "NaN", "Infinity"])
def test_an_answer_that_only_claims_to_be_a_number_stays_text(text):
    assert [each.answer for each in boxed(rf"\boxed{{{text}}}")] == [text]


def test_unknown_extractor_has_a_hint():
    with pytest.raises(InputError, match="did you mean 'number'"):
        find_extractor("numbers")


def test_marker_between_two_answers_is_a_decision():
    split = lexical_splitter(numbers)
    found = split("12 * 3 = 35. Wait, let me recheck. The product is 36.", True)
    assert found.answers == ("35", "36")
    assert [(part.role, part.text) for part in found.segments] == [
        (Role.SAMPLE, "12 * 3 = 35. "),
        (Role.DECISION, "Wait, let me recheck. The product is "),
        (Role.SAMPLE, "36."),
    ]


def test_marker_before_any_answer_is_reasoning():
    assert lexical_splitter(numbers)("Wait, what is asked? It is 7.", True).answers == ("7",)


def test_reflection_that_ends_in_stopping_is_no_attempt():
    found = lexical_splitter(numbers)("It is 7. Let me double-check. All fine.", True)
    assert found.answers == ("7",)
    assert found.segments[-1].role is Role.DECISION


def test_an_echo_is_an_attempt():
    assert lexical_splitter(numbers)("It is 7. Let me verify. Yes, 7.", True).answers == ("7", "7")


def test_markers_are_the_users_to_choose():
    split = lexical_splitter(numbers, [r"hang on"])
    assert split("3. Wait, 4. Hang on, 5.", True).answers == ("4", "5")
    with pytest.raises(InputError, match="no regular expression"):
        lexical_splitter(numbers, ["("])


WORDS = st.lists(
    st.sampled_from(["12", "7,000", "wait", "so", "let me recheck", ".", "\n", "I made a mistake"]), max_size=12
)


@given(WORDS)
def test_segments_spell_the_text_and_attempts_alternate_with_decisions(words):
    text = " ".join(words)
    found = lexical_splitter(numbers, MARKERS)(text, True)
    assert "".join(part.text for part in found.segments) == text
    decisions = sum(part.role is Role.DECISION for part in found.segments)
    assert len(found.answers) <= decisions + 1


def test_exact_tokens():
    split = token_splitter(numbers, resample="<again>", stop="<stop>")
    found = split("is 5 <again> is 6 <stop>", False)
    assert (found.answers, found.stopped) == (("5", "6"), True)
    assert split("is 5 <again> is", True).stopped is False
    assert split("is 5 <again> is", True).answers == ("5",)
    assert split("is 5 <again> <stop>", True).answers == ("5", "")  # it did not stop on 5


def test_arithmetic_responses():
    found = product_splitter(5)("a0.0:8 a0.1:1 check a0.0:8 a0.1:2 again b0.0:8 b0.1:2 stop", True)
    assert found.answers == ("8", "13")
    assert found.stopped
    assert [part.role for part in found.segments] == [Role.SAMPLE, Role.DECISION, Role.SAMPLE, Role.DECISION]
