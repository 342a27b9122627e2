"""The three splits: ``train`` makes the shipped models, ``tune`` is for those who tune them, ``test`` is for measuring.

Items and lists belong to exactly one split, by seed. Test requests also use wordings that no training row uses.
"""

from __future__ import annotations

import hashlib
import random
from typing import Literal, get_args

from holdfast.worlds.items import ITEMS, Item
from holdfast.worlds.vocabulary import BANES, KINDS, STEMS

Split = Literal["train", "tune", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
SHARES = (0.5, 0.2, 0.3)


def split_items(seed: int) -> dict[Split, tuple[Item, ...]]:
    """Items by split: for every kind half of its stems train, a fifth tunes, the rest tests. The harmless homonyms likewise."""
    rng = random.Random(f"items/{seed}")
    splits: dict[Split, list[Item]] = {split: [] for split in SPLITS}
    for kind in KINDS + BANES:
        plain = [Item(stem, kind) for stem in STEMS if stem not in BANES]
        baited = [Item(stem, kind) for stem in BANES]
        for items in (plain, baited):
            rng.shuffle(items)
            first, second = (round(len(items) * share) for share in (SHARES[0], SHARES[0] + SHARES[1]))
            splits["train"] += items[:first]
            splits["tune"] += items[first:second]
            splits["test"] += items[second:]
    assert sum(map(len, splits.values())) == len(ITEMS)
    return {split: tuple(items) for split, items in splits.items()}


def split_of_list(seed: int, words: tuple[str, ...]) -> Split:
    """The split of a list of words: a hash decides, so that no generator needs to remember what it drew."""
    digest = hashlib.sha256(f"{seed}/{' '.join(words)}".encode()).digest()
    point = int.from_bytes(digest[:4]) / 2**32
    return "train" if point < SHARES[0] else "tune" if point < SHARES[0] + SHARES[1] else "test"
