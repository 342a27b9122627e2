from collections import Counter

from holdfast.worlds.items import ITEMS
from holdfast.worlds.splits import SHARES, SPLITS, split_items, split_of_list
from holdfast.worlds.vocabulary import BANES, KINDS, PLAIN, STEMS


def test_every_item_is_in_exactly_one_split():
    counts = Counter(item for items in split_items(0).values() for item in items)
    assert set(counts) == set(ITEMS)
    assert set(counts.values()) == {1}


def test_training_meets_every_part_so_that_no_held_out_item_is_made_of_unknown_ones():
    train = split_items(0)["train"]
    assert {item.kind for item in train} == {*KINDS, *BANES}
    assert {item.stem for item in train} == set(STEMS)


def test_each_split_has_forbidden_items_and_homonyms():
    for items in split_items(0).values():
        assert sum(item.forbidden for item in items) >= 50
        assert sum(item.homonym for item in items) >= 15


def test_another_seed_splits_otherwise():
    assert split_items(0) == split_items(0)
    assert split_items(0) != split_items(1)


def test_lists_are_split_in_the_stated_shares():
    pairs = [(first, second) for first in PLAIN for second in PLAIN]
    counts = Counter(split_of_list(0, pair) for pair in pairs)
    for split, share in zip(SPLITS, SHARES, strict=True):
        assert abs(counts[split] / len(pairs) - share) < 0.08
