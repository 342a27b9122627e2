"""Tables and sections of the pages, worked by hand."""

from __future__ import annotations

from pathlib import Path

from holdfast_studies.markdown import table, write_section


def test_a_table_in_both_forms() -> None:
    rows = [("sft", "12 %"), ("anchored", "")]
    assert table(["", "answered"], rows) == "|  | answered |\n| --- | --- |\n| sft | 12 % |\n| anchored |  |"
    assert table(["", "answered"], rows, tight=True) == "| | answered |\n|---|---|\n| sft | 12 % |\n| anchored |  |"


def test_a_section_is_added_at_the_end_and_then_replaced_where_it_stands(tmp_path: Path) -> None:
    page = tmp_path / "results" / "page.md"
    write_section(page, "one\n", "first", "# Title\n")
    write_section(page, "two\n", "second", "# Not again\n")
    write_section(page, "one, once more\n", "first", "# Not again\n")
    assert page.read_text() == (
        "# Title\n\n<!-- first:begin -->\none, once more\n<!-- first:end -->\n\n"
        "<!-- second:begin -->\ntwo\n<!-- second:end -->\n"
    )
