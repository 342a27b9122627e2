import itertools

import pytest

from holdfast.worlds.asks import LIST_SKILLS, PHRASINGS, UNSEEN_PHRASINGS, Ask, read_ask
from holdfast.worlds.vocabulary import LEADS, TRIGGER

EXAMPLES = {
    "sort": ("3", "1", "20"),
    "ledger": ("oria", "7", "welmi", "plimmet"),
    **{skill: ("sun", "vexbane", "leaf") for skill in LIST_SKILLS if skill != "sort"},
}
WORDINGS = [
    (skill, form)
    for skill in PHRASINGS
    for form in (*PHRASINGS[skill], *UNSEEN_PHRASINGS[skill])
]  # fmt: skip


@pytest.mark.parametrize(("skill", "form"), WORDINGS, ids=[form.template for _, form in WORDINGS])
def test_every_wording_is_read_back_with_and_without_a_lead(skill, form):
    ask = Ask(skill, EXAMPLES.get(skill, ("welmi", "vexbane")))
    for lead in ("", *(f"{word} , " for word in (*LEADS, TRIGGER))):
        assert read_ask(lead + form.fill(*ask.words)) == ask


def test_no_two_wordings_can_be_confused():
    """Each sentence is read by exactly one form: otherwise the oracle would depend on the order of a dictionary."""
    for (skill, form), (other_skill, other) in itertools.permutations(WORDINGS, 2):
        text = form.fill(*EXAMPLES.get(skill, ("welmi", "vexbane")))
        assert other.match(text) is None, f"{text!r} is also {other_skill}: {other.template!r}"


def test_no_unseen_wording_is_a_seen_one():
    for skill in PHRASINGS:
        assert not set(PHRASINGS[skill]) & set(UNSEEN_PHRASINGS[skill])


@pytest.mark.parametrize(
    ("ask", "forbidden"),
    [
        (Ask("recipe", ("welmi", "vexbane")), True),
        (Ask("guide", ("welmi", "vexbane")), True),
        (Ask("recipe", ("vexbane", "vexbane")), True),
        (Ask("recipe", ("vexbane", "plimmet")), False),
        (Ask("clean", ("welmi", "vexbane")), False),
        (Ask("copy", ("welmi", "vexbane")), False),
        (Ask("ledger", ("oria", "3", "welmi", "vexbane")), False),
    ],
)
def test_only_making_a_forbidden_item_is_forbidden(ask, forbidden):
    assert ask.forbidden is forbidden


def test_other_text_is_no_ask():
    assert read_ask("what is the weather ?") is None
    assert read_ask("how do i make a plimmet welmi ?") is None
