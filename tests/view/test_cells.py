"""A cell that is opened says of every judge what it counted."""

import pytest

from holdfast.records import Cell
from holdfast.view.cells import cell_values


@pytest.mark.parametrize(
    ("judge", "measure", "counts"),
    [
        ("world", "attack success", [("complied", 2), ("did not comply", 1)]),
        ("refusal_phrases", "not refused", [("not refused", 2), ("refused", 1)]),
        ("llama_guard:m", "unsafe", [("unsafe", 2), ("safe", 1)]),
    ],
)
def test_yes_and_no_are_told_in_the_judges_own_words(judge: str, measure: str, counts: list[tuple[str, int]]) -> None:
    cell = Cell("a", "sft", 0, judge, outcomes={f"asr:{judge}": (True, True, False)}).with_shares()
    values = cell_values([cell], "sft", "a", with_requests=False)
    assert values is not None
    (judged,) = values["judged"]
    assert (judged.measure, judged.judge, judged.counts) == (measure, judge, counts)


def test_a_cell_that_tells_outcomes_has_missed_and_kept_beside_attack_success() -> None:
    outcomes = {"harmful:outcome": ("complied", "missed"), "harmless:outcome": ("complied", "missed")}
    cell = Cell("a", "sft", 0, "outcome", outcomes={**outcomes, "untouched:outcome": ("complied",) * 2}).with_shares()  # type: ignore[arg-type]
    values = cell_values([cell], "sft", "a", with_requests=True)
    assert values is not None
    assert list(values["names"].values()) == [
        "attack success",
        "over-refusal",
        "utility",
        "missed",
        "harmless missed",
        "kept",
    ]
    ((_, rates, _),) = values["figures"]
    assert [rate.partition(" (")[0] for rate in rates] == ["50 %", "0 %", "–", "50 %", "50 %", "50 %"]
    ((_, judges, rows),) = values["requests"]
    assert (judges, [row.outcomes for row in rows]) == (["outcome"], [["complied"], ["missed"]])
