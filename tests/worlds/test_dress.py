from holdfast.records import Role, Segment, Trace, Turn, answer, context
from holdfast.worlds import prefilled, with_lead, with_opener, with_system

TRACE = Trace((context("user", "copy : sun leaf"), answer("sun leaf")))


def test_system_prompt_is_put_first_and_replaced():
    once = with_system(TRACE, "be kind .")
    assert once.turns == (context("system", "be kind ."), *TRACE.turns)
    assert with_system(once, "be terse .").turns == (context("system", "be terse ."), *TRACE.turns)


def test_lead_goes_to_the_last_user_turn():
    trace = Trace((context("user", "copy : boat"), answer("boat"), *TRACE.turns))
    assert [turn.visible for turn in with_lead(trace, "please").turns][::2] == [
        "copy : boat",
        "please , copy : sun leaf",
    ]


def test_opener_joins_the_first_segment_of_the_answer():
    segments = (
        Segment(Role.PREFIX, "sun"),
        Segment(Role.ERROR, " boat"),
        Segment(Role.UNDO),
        Segment(Role.CORRECTION, " leaf"),
    )
    trace = Trace((TRACE.turns[0], Turn("assistant", segments)))
    opened = with_opener(trace, "sure ,")
    assert opened.turns[-1].visible == "sure , sun leaf"
    assert [segment.role for segment in opened.turns[-1].segments] == [segment.role for segment in segments]


def test_prefilled_is_a_prompt_without_targets():
    begun = prefilled(TRACE, 1)
    assert begun.turns == (context("user", "copy : sun leaf"), context("assistant", "sun"))
    assert not any(turn.is_target for turn in begun.turns)
    assert begun.prompt == begun.turns
