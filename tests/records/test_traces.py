from holdfast.records import Role, Segment, Trace, Turn, answer, context, visible_text

BACKTRACK = (
    Segment(Role.PREFIX, "2+2 is "),
    Segment(Role.ERROR, "5"),
    Segment(Role.UNDO),
    Segment(Role.CORRECTION, "4"),
)


def test_an_undo_takes_back_the_error_before_it_and_nothing_else():
    assert visible_text(BACKTRACK) == "2+2 is 4"
    assert Turn("assistant", BACKTRACK).visible == "2+2 is 4"
    assert visible_text([Segment(Role.UNDO), Segment(Role.PREFIX, "a"), Segment(Role.UNDO)]) == "a"


def test_the_prompt_is_everything_before_the_first_trained_turn():
    asked, said = context("user", "hello"), answer("hi")
    assert Trace((asked, said, asked)).prompt == (asked,)
    assert Trace((asked, asked)).prompt == (asked, asked)
    assert not asked.is_target
    assert said.is_target


def test_role_labels_are_the_words_of_the_data_files():
    labels = [role.label for role in Role]
    assert labels == ["prompt", "response", "prefix", "error", "undo", "correction", "sample", "decision"]
