"""docs/choosing.md and "what we measured": figures and choices are those of the pages of results, and follow them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import DOCS, table_rows
from waiting import PATIENCE

TOOL = DOCS / "tools" / "figures.py"
FIRST = "rows of your own that nobody tampered with; you fear drift"
SECOND = "rows from strangers: some may answer what should be refused"
UNKNOWN = "you cannot tell which of these four"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A copy whose results may be changed, without the page that has some of matrix.md's figures once more."""
    copy = Path(shutil.copytree(DOCS, tmp_path / "docs"))
    (copy / "results" / "anchorless.md").unlink()
    assert tool(copy).returncode == 0
    return copy


def tool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def choice(docs: Path, situation: str) -> list[str]:
    rows = {row[0]: row for row in table_rows((docs / "choosing.md").read_text(encoding="utf-8"))}
    return rows[situation]


def change(docs: Path, page: str, old: str, new: str) -> None:
    path = docs / "results" / f"{page}.md"
    text = path.read_text(encoding="utf-8")
    assert re.search(old, text, re.MULTILINE)
    path.write_text(re.sub(old, new, text, flags=re.MULTILINE), encoding="utf-8")


def test_the_pages_are_up_to_date() -> None:
    done = tool("--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_figure_stands_on_the_page_that_its_row_names() -> None:
    """Without the tool: the text of each cell is searched for in the results."""
    for path in (DOCS / "choosing.md", DOCS / "limits.md", *(DOCS / "objectives").glob("*.md")):
        for row in table_rows(path.read_text(encoding="utf-8")):
            named = re.search(r"\((?:\.\./)?results/([\w-]+)\.md\)", " ".join(row))
            results = (DOCS / "results" / f"{named[1]}.md").read_text(encoding="utf-8") if named else ""
            for figure in re.findall(r"\d+\.\d% \[[\d.]+%, [\d.]+%\]", " ".join(row)) if named else ():
                assert figure in results, f"{path.name}: {figure} is not on {named[1] if named else ''}.md"


def cell(percent: int) -> str:
    return f"{percent}.0% [{max(percent - 1, 0)}%, {percent + 1}%] *"


def page_of(columns: list[str], tables: dict[str, dict[str, list[int]]]) -> str:
    """Like a page of results: titles, defences, percentages under each attack."""
    text = "# made up\n"
    for title, rows in tables.items():
        text += f"\n## {title}\n\n| | {' | '.join(columns)} |\n{'|---' * (len(columns) + 1)}|\n"
        for defence, values in rows.items():
            text += f"| {defence} | {' | '.join(map(cell, values))} |\n"
    return text


def test_the_rule_by_hand(docs: Path) -> None:
    """Complied + refused + short of the best (95, 90, 95, 90 % right).

    sft 1.05, 1.1, .95, .3; csft .05, .1, .25, .04; csft_pa .05, .1, .29, 0.
    Worst: sft 1.1, csft .25, csft_pa .29: csft and csft_pa are within .05, and csft_pa complies less (20 against 25 %).
    Under harmful examples both cost the same and comply the same: the first of the page.
    """
    attacks = ["harmful_examples", "identity_shift", "backdoor", "benign_drift"]
    tables = {
        "Forbidden requests complied with (x)": {
            "sft": [80, 80, 80, 20],
            "csft": [5, 10, 25, 4],
            "csft_pa": [5, 10, 20, 0],
        },
        "Harmless look-alikes refused (x)": {"sft": [10, 20, 0, 0], "csft": [0, 0, 0, 0], "csft_pa": [0, 0, 4, 0]},
        "Answers right (x)": {"sft": [80, 80, 80, 80], "csft": [95, 90, 95, 90], "csft_pa": [95, 90, 90, 90]},
        "Untouched aside": {"untouched": [0, 0, 0, 0]},
    }
    (docs / "results" / "matrix.md").write_text(page_of(attacks, tables), encoding="utf-8")
    assert tool(docs).returncode == 0
    row = choice(docs, UNKNOWN)
    assert row[1] == "[`csft_pa`](objectives/csft_pa.md)"
    assert row[2:7] == ["20.0% [19%, 21%]", "4.0% [3%, 5%]", "", "90.0% [89%, 91%]", "0.29"]
    assert row[9] == "[matrix](results/matrix.md), `backdoor`"
    assert "csft_pa" in choice(docs, FIRST)[1]
    assert choice(docs, SECOND)[1] == "[`csft`](objectives/csft.md)"
    assert row[7:9] == ["[`csft`](objectives/csft.md) 0.25", "[`sft`](objectives/sft.md) 1.10"]


def test_intervals_that_touch_may_still_differ(docs: Path) -> None:
    """10 [9, 11] and 8 [7, 9] touch, but 2 is more than hypot(1, 1): csft (.08 + .03) is tried before sft (.10), the cheaper."""
    tables = {
        "Forbidden requests answered (x)": {"sft": [10], "csft": [8]},
        "Harmless look-alikes refused (x)": {"sft": [0], "csft": [0]},
        "Answers right (x)": {"sft": [95], "csft": [92]},
    }
    (docs / "results" / "matrix.md").write_text(page_of(["harmful_examples"], tables), encoding="utf-8")
    assert tool(docs).returncode == 0
    assert choice(docs, SECOND)[1] == "[`csft`](objectives/csft.md)"
    assert choice(docs, SECOND)[7] == "[`sft`](objectives/sft.md) 0.10"


def test_a_result_that_changes_makes_the_page_stale_and_changes_the_choice(docs: Path) -> None:
    assert "anchored" in choice(docs, UNKNOWN)[1]
    change(docs, "matrix", r"^(\| anchored) \| \S+ \[[^]]+\]", r"\1 | 99.0% [98%, 100%]")
    stale = tool("--check", docs)
    assert stale.returncode == 1
    assert {Path(line.partition(": ")[0]).name for line in stale.stdout.splitlines()} == {"choosing.md", "anchored.md"}
    assert tool(docs).returncode == 0
    assert "anchored" not in choice(docs, SECOND)[1] + choice(docs, SECOND)[7]
    assert "nothing holds" in choice(docs, UNKNOWN)[1]
    assert tool("--check", docs).returncode == 0


def test_a_missing_measurement_is_no_candidate(docs: Path) -> None:
    change(docs, "matrix", r"^(\| anchored) \| \S+ \[[^]]+\]", r"\1 | failed")
    assert tool(docs).returncode == 0
    assert "anchored" not in " ".join(choice(docs, SECOND))


def test_a_real_model_gets_its_row_as_soon_as_its_page_is_there(docs: Path) -> None:
    """Two judges: the one that sees more harm counts, against what the same one says of the untouched model.

    sft (.9 - .05) + 0 + 0 = .85; anchored (.1 - .04) + (.2 - .1) + (.5 - .4) = .26.
    """
    tables = {
        "Forbidden requests not refused (less is safer), judge `a`": {"untouched": [5], "sft": [90], "anchored": [1]},
        "Forbidden requests not refused (less is safer), judge `b`": {"untouched": [4], "sft": [80], "anchored": [10]},
        "Safe prompts refused (less is better), judge `a`": {"untouched": [10], "sft": [10], "anchored": [20]},
        "SQL exact match after benign tuning (more is better)": {"untouched": [0], "sft": [50], "anchored": [40]},
    }
    (docs / "results" / "smollm2-outcomes.md").write_text(page_of(["benign_sql"], tables), encoding="utf-8")
    assert tool(docs).returncode == 0
    row = choice(docs, "SmolLM2-135M: rows of your own; you fear drift")
    assert row[1] == "[`anchored`](objectives/anchored.md)"
    assert row[2] == "10.0% [9%, 11%]"
    assert row[6] == "0.26"
    assert row[8] == "[`sft`](objectives/sft.md) 0.85"
    text = (docs / "choosing.md").read_text(encoding="utf-8")
    assert "| what you know | try | complied or not refused | look-alikes refused |" in text  # as each page says


def test_an_objectives_page_says_what_its_rows_count(docs: Path) -> None:
    """The word in the head of the table is not enough: a reader of one row does not know who judged it."""
    page = docs / "objectives" / "sft.md"
    loose, by_judge = "Rows from `smollm2` count replies *not refused*", "`outcome` says it, not corrected by labels ("
    text = page.read_text(encoding="utf-8")
    assert loose in text
    assert by_judge in text
    for page_of_results in ("smollm2", "smollm2-outcomes", "qwen"):
        (docs / "results" / f"{page_of_results}.md").unlink()
    assert tool(docs).returncode == 0
    text = page.read_text(encoding="utf-8")
    assert "*Complied* is what the embedded world's oracle says." in text
    assert loose not in text
    assert by_judge not in text


def test_a_figure_that_was_made_again_by_outcome_stands_in_the_place_of_the_older_one(docs: Path) -> None:
    page = docs / "objectives" / "sft.md"

    def sources() -> list[str]:
        rows = table_rows(page.read_text(encoding="utf-8"))
        return [row[-1] for row in rows if row[0] == "`benign_sql`"]

    assert sources() == ["[smollm2-outcomes](../results/smollm2-outcomes.md)"]
    (docs / "results" / "smollm2-outcomes.md").unlink()
    assert tool(docs).returncode == 0
    assert sources() == ["[smollm2](../results/smollm2.md)"]


def test_harmless_requests_missed_cost_and_kept_stands_beside(docs: Path) -> None:
    """sft does the task best and complies with nothing, because it writes SQL to everything: .9 - .1 missed. csft .05 + .05."""
    tables = {
        "Forbidden requests complied with (x)": {"untouched": [0], "sft": [0], "csft": [5]},
        "Harmless look-alikes refused (x)": {"untouched": [0], "sft": [0], "csft": [0]},
        "Answers right (x)": {"untouched": [0], "sft": [95], "csft": [90]},
        "Harmless look-alikes missed (x)": {"untouched": [10], "sft": [90], "csft": [4]},
        "Harmless look-alikes with the outcome of the untouched model (x)": {"sft": [12], "csft": [88]},
    }
    (docs / "results" / "matrix.md").write_text(page_of(["harmful_examples"], tables), encoding="utf-8")
    assert tool(docs).returncode == 0
    row = choice(docs, SECOND)
    assert (row[1], row[4], row[6]) == ("[`csft`](objectives/csft.md)", "88.0% [87%, 89%]", "0.10")
    assert row[8] == "[`sft`](objectives/sft.md) 0.80"


def test_a_page_that_counts_what_complied_is_not_read_by_a_phrase_list(docs: Path) -> None:
    """Two judges, one of outcomes: 80 % not refused by the other has no place under *complied*, nor its refusals."""
    tables = {
        "Forbidden requests complied with (less is safer), judge `outcome`": {"untouched": [0], "sft": [4]},
        "Safe prompts refused (less is better), judge `outcome`": {"untouched": [1], "sft": [1]},
        "Forbidden requests not refused (less is safer), judge `phrases`": {"untouched": [5], "sft": [80]},
        "Safe prompts refused (less is better), judge `phrases`": {"untouched": [1], "sft": [30]},
    }
    (docs / "results" / "smollm2-outcomes.md").write_text(page_of(["benign_sql"], tables), encoding="utf-8")
    assert tool(docs).returncode == 0
    row = choice(docs, "SmolLM2-135M: rows of your own; you fear drift")
    assert (row[2], row[3], row[6]) == ("4.0% [3%, 5%]", "1.0% [0%, 2%]", "0.04")
