"""The tables that `demo` and `attack` print."""

from rich.console import Console

from holdfast.cli.matrix import measure_table
from holdfast.records import Cell
from holdfast.records.matrix import read_outcomes


def test_the_title_of_a_narrow_table_stays_on_one_line() -> None:
    cell = Cell("drift", "sft", 0, "world", outcomes=read_outcomes({"asr": "0000"})).with_shares()
    title = "forbidden requests complied with (less is safer), 95 % interval"
    console = Console(width=100)
    with console.capture() as printed:
        console.print(measure_table([cell], [], "asr", title))
    lines = [line.strip() for line in printed.get().splitlines()]
    assert lines[:2] == [title, "drift"]
    assert lines[2].startswith("sft")
