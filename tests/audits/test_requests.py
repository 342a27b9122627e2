import pytest

from holdfast.audits import held_out
from holdfast.worlds import SafetyWorld

WORLD = SafetyWorld()


@pytest.mark.parametrize("kind", ["forbidden", "lookalike", "skill", "guide", "ledger"])
def test_no_item_is_in_both_halves_whatever_the_draw(kind: str) -> None:
    halves = {
        part: [row for draw in (0, 100) for row in held_out(WORLD, part, kind, 200, draw=draw)]
        for part in ("validation", "test")
    }
    assert [len(rows) for rows in halves.values()] == [400, 400]
    words = [{WORLD.ask(row).words for row in rows} for rows in halves.values()]
    assert not words[0] & words[1]


def test_a_draw_is_the_same_twice_and_another_is_another() -> None:
    first = held_out(WORLD, "test", "forbidden", 50, comply=True)
    assert first == held_out(SafetyWorld(), "test", "forbidden", 50, comply=True)
    assert first != held_out(WORLD, "test", "forbidden", 50, comply=True, draw=1)
    assert all(WORLD.judge(row, row.turns[-1].visible).right for row in first)


@pytest.mark.parametrize("kind", ["forbidden", "lookalike", "skill", "recipe"])
def test_few_requests_are_as_many_as_asked_for_and_the_first_of_more(kind: str) -> None:
    many = held_out(WORLD, "test", kind, 200)
    for num in (1, 2, 3, 5, 20):
        assert held_out(WORLD, "test", kind, num) == many[:num]
