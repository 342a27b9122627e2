"""Tables and the page of results, from cells made by hand."""

import re

import pytest

from holdfast.attacks.matrix_table import legend, rows_of
from holdfast.attacks.paired import paired_tests
from holdfast.attacks.results_page import results_page
from holdfast.attacks.worst import worst_cases
from holdfast.config.matrix import MatrixConfig
from holdfast.records import Cell
from holdfast.stats import share

CONFIG = MatrixConfig(run="runs/x", attacks=("a",), defences=("sft",), seeds=(0,), num_requests=40)


def cell(defence: str, hits: int, attack: str = "a", num: int = 40) -> Cell:
    outcomes = (True,) * hits + (False,) * (num - hits)
    shares = {name: share(outcomes) for name in ("asr", "over_refusal", "utility")}
    return Cell(attack, defence, 0, "world", **shares, outcomes=dict.fromkeys(shares, outcomes))


def page(cells: list[Cell]) -> str:
    return results_page(cells, paired_tests(cells), worst_cases(cells), CONFIG, "holdfast attack x.yaml")


def test_what_differs_is_marked() -> None:
    cells = [
        cell("sft", 40),
        cell("anchored", 2),
        cell("x", 38),
        Cell("a", "y", 0, "world", status="failed", reason="?"),
    ]
    tests = paired_tests(cells)
    attacks, rows = rows_of(cells, tests, "asr")
    assert attacks == ["a"]
    assert [(defence, text.strip()) for defence, (text,) in rows] == [
        ("sft", "100.0% [91%, 100%] †"),
        ("anchored", "5.0% [1%, 17%] *"),
        ("x", "95.0% [83%, 99%] †"),
        ("y", "failed"),
    ]
    assert legend(cells, tests).startswith("* differs from sft, † differs from anchored beyond chance")
    assert legend(cells, []) == ""


@pytest.mark.parametrize(
    ("hits", "verdict"),
    [((40, 20, 2), "found"), ((40, 39, 2), "this order, not beyond chance"), ((20, 40, 2), "not found")],
)
def test_the_published_ordering_is_stated(hits: tuple[int, int, int], verdict: str) -> None:
    text = page([cell(name, num) for name, num in zip(("sft", "csft", "csft_pa"), hits, strict=True)])
    (line,) = re.findall(r"^\| a \| .*% \|.*\| ([a-z, ]+) \|$", text, re.M)
    assert line == verdict


def test_a_page_is_written_where_cells_failed() -> None:
    """One of two attacks has no cell of sft: its ordering cannot be told, and the page is there all the same."""
    defences = ("sft", "csft", "csft_pa")
    lost = Cell("b", "sft", 0, "world", status="failed", reason="out of memory")
    text = page([*(cell(name, 20) for name in defences), lost, *(cell(name, 20, "b") for name in defences[1:])])
    assert re.findall(r"^\| b \| .*not compared \|$", text, re.M)
    assert "Failed: b x sft, seed 0: out of memory" in text


def test_a_page_of_one_defence_in_a_folder_named_with_a_slash() -> None:
    config = CONFIG.model_copy(update={"run": "runs/x/"})
    text = results_page([cell("untouched", 1)], [], [], config, "holdfast attack x.yaml")
    assert text.startswith("# x: attacks on defences")
    assert not text.endswith("\n.\n")


def test_the_page_names_its_command_seeds_and_worst_case() -> None:
    text = page([cell("sft", 4, "a@1"), cell("sft", 36, "a@2")])
    assert "Written by `holdfast attack x.yaml` on 20" in text
    assert "seeds 0, pooled; 40 requests" in text
    assert "| a | sft | 90.0% [77%, 96%] | 2 | a@2 |" in text
    assert "ordering" not in text


def told(attack: str, defence: str, *outcomes: str) -> Cell:
    """By a judge that tells outcomes; every look-alike but the last is kept."""
    harmless = {"harmless:outcome": ("complied",) * 4, "untouched:outcome": ("complied",) * 3 + ("refused",)}
    return Cell(attack, defence, 0, "outcome", outcomes={"harmful:outcome": outcomes, **harmless}).with_shares()  # type: ignore[dict-item]


def test_a_page_by_a_judge_that_tells_no_outcomes_says_in_its_first_line_what_its_figures_mean() -> None:
    """The same cells by two judges: one counts what complied, the other what was not refused."""
    hits = dict.fromkeys(("asr", "over_refusal"), (True, False))
    old = [Cell("a@1", "sft", 0, "refusal_phrases", outcomes=hits).with_shares()]
    first, *rest = page(old).split("\n\n", 1)[1].splitlines()
    assert first.startswith("**What the figures mean**: attack success counts replies that were *not refused*")
    assert "`refusal_phrases`" in first
    assert "Judged by refusal_phrases; shares are the judge's own, not corrected by labels." in "\n".join(rest)
    assert "| attack | defence | not refused | variants | chosen |" in rest
    assert "complied with" not in "\n".join(rest)
    new = page([told("a@1", "sft", "complied", "missed", "missed", "refused")])
    assert "What the figures mean" not in new
    by_oracle = page([cell("sft", 4)])
    assert "not corrected by labels" not in by_oracle, "the world's oracle does not err"
    assert "The world's oracle says what was complied with, refused and missed." in by_oracle
    assert "| attack | defence | complied with | missed | kept | variants | chosen |" in new
    assert "| a | sft | 25.0% [5%, 70%] | 50.0% | 75.0% | 1 | a@1 |" in new
