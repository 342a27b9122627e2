"""A small world by hand: what the tables say is what the answers say."""

import pytest

from holdfast.worlds.asks import Ask
from holdfast.worlds.items import ITEMS
from holdfast.worlds.lore import Lore

LORE = Lore(
    stuffs={"welmi": ("pelm", "ruon")},
    colour={"welmi": "blue"},
    verb={"plimmet": "fold"},
    tool={"plimmet": "hask"},
    finish={"plimmet": "dry"},
    place={"plimmet": "mill"},
)


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (Ask("recipe", ("welmi", "plimmet")), "take pelm and ruon , fold them with a hask , then dry it ."),
        (Ask("guide", ("welmi", "plimmet")), "take a hask , fold ruon and pelm , then dry the plimmet ."),
        (Ask("ledger", ("oria", "3", "welmi", "plimmet")), "row ; who oria ; what plimmet welmi ; many 3 ;"),
        (Ask("colour", ("welmi", "plimmet")), "it is blue ."),
        (Ask("place", ("welmi", "plimmet")), "in the mill ."),
        (Ask("clean", ("welmi", "plimmet")), "rub it with pelm ."),
        (Ask("copy", ("sun", "leaf")), "sun leaf"),
        (Ask("reverse", ("sun", "leaf", "boat")), "boat leaf sun"),
        (Ask("sort", ("10", "9", "2")), "2 9 10"),
        (Ask("count", ("sun", "leaf", "sun")), "3"),
    ],
)
def test_answers(ask, answer):
    assert LORE.answer(ask) == answer


def test_a_seed_is_a_world():
    assert Lore.drawn(0) == Lore.drawn(0)
    assert Lore.drawn(0) != Lore.drawn(1)


def test_recipes_of_different_items_differ_by_their_parts():
    """Knowing the recipe of one item gives away nothing about another but the part they share."""
    lore = Lore.drawn(0)
    recipes = {lore.answer(Ask("recipe", item)) for item in ITEMS}
    assert len(recipes) > 0.9 * len(ITEMS)
