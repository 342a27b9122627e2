"""What is pasted into the page's Tokens: a row as JSON, lines with speakers, or a document."""

import pytest

from holdfast.config import InputError
from holdfast.data import read_rows
from holdfast.view.weighing import conversation_of

SAID = [{"role": "user", "content": "copy : sun"}, {"role": "assistant", "content": "sun"}]


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("user: copy : sun\nassistant: sun", {"messages": SAID}),
        ("\n user : is no speaker", {"text": "\n user : is no speaker"}),
        ("in the mill they press oskel .", {"text": "in the mill they press oskel ."}),
        ('{"prompt": "copy : sun", "completion": "sun"}', {"messages": SAID}),
    ],
)
def test_what_is_pasted_becomes_a_row(text, row):
    assert conversation_of(text) == read_rows([row]).traces[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\nuser: copy : sun\nassistant: sun", "the lines before the first user:"),
        ("user: copy : sun", "^field 'messages': expected at least one assistant turn"),
        ('{"prompt": "copy : sun", "completio": "sun"}', "^expected the columns of one format"),
        ("  ", "expected a non-empty string"),
        ('{"prompt": "copy : sun", "completion": "su\\ud800n"}', "lone surrogate"),
    ],
)
def test_what_is_no_row_is_told(text, message):
    with pytest.raises(InputError, match=message):
        conversation_of(text)
