"""What somebody gives a public function in Python: one line for a wrong kind, Python's own numbers for numpy's and torch's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from holdfast.config import InputError
from holdfast.config.arguments import check_fields, checked


@checked("give")
def give(
    model: str | object,
    *,
    limit: int | None = None,
    margin: float = 1.0,
    judges: Sequence[str] = (),
    seeds: int | Sequence[int] = 3,
    say: Callable[[str], None] = print,
    undo: bool = False,
    options: Mapping[str, Any] | None = None,
    context: Literal["soft", "hard"] = "soft",
    out: str | Path | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Everything as it came through."""
    return {**locals(), **more}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"limit": 2.5}, "give: limit=2.5: expected a whole number"),
        ({"limit": "3"}, "give: limit='3': expected a whole number"),
        ({"limit": True}, "give: limit=True: expected a whole number"),
        ({"margin": "0.1"}, "give: margin='0.1': expected a number"),
        ({"margin": None}, "give: margin=None: expected a number"),
        ({"margin": torch.ones(2)}, "give: margin=tensor([1., 1.]): expected a number"),
        ({"judges": None}, "give: judges=None: expected a list of texts"),
        ({"judges": [3]}, "give: judges=[3]: expected a list of texts"),
        ({"judges": {"outcome": 1}}, "give: judges={'outcome': 1}: expected a list of texts"),
        ({"seeds": "10"}, "give: seeds='10': expected a whole number or a list of whole numbers"),
        ({"say": None}, "give: say=None: expected a function"),
        ({"undo": "false"}, "give: undo='false': expected True or False"),
        ({"options": "lr"}, "give: options='lr': expected settings by name, such as {'name': value}"),
        ({"context": "sfot"}, "give: context='sfot': expected soft or hard"),
        ({"limit": "x" * 99}, "give: limit: expected a whole number, got a value of type str"),
    ],
)
def test_a_wrong_kind_is_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        give("m", **given)
    assert str(error.value) == said


def test_numbers_of_other_packages_become_pythons() -> None:
    got = give("m", limit=np.int64(4), margin=np.float32(0.5), seeds=np.arange(2), undo=np.bool_(True))  # type: ignore[arg-type]
    assert [got["limit"], got["margin"], got["seeds"], got["undo"]] == [4, 0.5, (0, 1), True]
    assert [type(got[name]) for name in ("limit", "margin", "undo")] == [int, float, bool]
    got = give("m", limit=torch.tensor(4), margin=torch.tensor(0.5))  # type: ignore[arg-type]
    assert (got["limit"], got["margin"]) == (4, 0.5)


def test_one_text_or_any_iterable_of_texts_is_a_list_and_what_is_no_plain_type_is_left_alone() -> None:
    assert give("m", judges="outcome")["judges"] == ("outcome",)
    assert give("m", judges=(name for name in "ab"))["judges"] == ("a", "b")  # type: ignore[arg-type]
    got = give(3, out=3, extra="x")  # type: ignore[arg-type]
    assert (got["model"], got["out"], got["more"]) == (3, 3, {"extra": "x"})


def test_a_wrong_name_is_told_with_the_right_one() -> None:
    @checked("two")
    def two(first: int, second: int = 0) -> int:
        return first + second

    assert two(1, second=2) == 3
    with pytest.raises(InputError, match=r"^two: no argument 'secnd'; did you mean 'second'\?$"):
        two(1, secnd=2)  # type: ignore[call-arg]
    with pytest.raises(InputError, match=r"^two: missing a required argument: 'first'$"):
        two()  # type: ignore[call-arg]


def test_fields_of_a_dataclass_are_checked_too() -> None:
    @dataclass(frozen=True)
    class Bound:
        most: float | None = None

        def __post_init__(self) -> None:
            check_fields(self, "Bound", Bound)

    assert Bound(np.float32(0.5)).most == 0.5  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^Bound: most='0.5': expected a number$"):
        Bound("0.5")  # type: ignore[arg-type]
