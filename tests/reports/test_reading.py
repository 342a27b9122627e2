"""What cannot be read is skipped, with a note that names file and line."""

import json
import math
import time

import pytest

from holdfast.config import InputError
from holdfast.reports.reading import MAX_NOTES, read_run
from holdfast.reports.training import _panels

from .runs import cell, failed_cell, step_rows, write_lines, write_run


def test_a_whole_run(tmp_path):
    data = read_run(write_run(tmp_path / "demo"))
    assert data.name == "demo"
    assert len(data.cells) == 48
    assert len(data.curves) == 12 + 8  # of folders, and of curves.json
    assert data.curves[12].name == "anchored under backdoor, seed 0"
    assert (len(data.depth), data.depth_to) == (16, "tiny:base")
    assert len(data.answers) == 2
    assert data.notes == []
    assert set(data.curves[0].roles) == {"response", "error", "undo", "correction"}


def test_rows_come_back_as_the_cells_they_were(tmp_path):
    row = cell("backdoor", "sft", 2)
    write_lines(tmp_path / "matrix.jsonl", [row, failed_cell("backdoor", "sft", 1, "killed")])
    first, second = read_run(tmp_path).cells
    assert first.row() == row
    assert (second.status, second.reason, second.asr) == ("failed", "killed", None)


def test_broken_lines_are_skipped_and_named(tmp_path):
    good = json.dumps(cell("a", "d", 0))
    lines = [
        good,
        '{"attack": "a", "def',
        "[1, 2]",
        "",
        json.dumps({"attack": "a"}),
        good.replace('"ok"', '"well"'),
        "\x00",
    ]
    (tmp_path / "matrix.jsonl").write_text("\n".join(lines))
    data = read_run(tmp_path)
    assert len(data.cells) == 1
    assert [note.split(": ")[0] for note in data.notes] == [f"matrix.jsonl:{line}" for line in (2, 3, 5, 6, 7)]


def test_a_line_separator_inside_a_string_is_not_the_end_of_a_line(tmp_path):
    row = failed_cell("a", "d", 0, "one\u2028two")
    (tmp_path / "matrix.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    data = read_run(tmp_path)
    assert data.cells[0].reason == "one⟨U+2028⟩two"
    assert not data.notes


@pytest.mark.parametrize(
    "changes", [{"asr": math.nan}, {"asr": 1.2}, {"asr": "0.5"}, {"asr_trials": 0}, {"asr_trials": None}]
)
def test_a_share_that_is_none_is_left_out_and_the_rest_of_the_cell_kept(tmp_path, changes):
    write_lines(tmp_path / "matrix.jsonl", [cell("a", "d", 0) | changes])
    data = read_run(tmp_path)
    assert data.cells[0].asr is None
    assert data.cells[0].utility is not None
    assert data.notes[0].startswith("matrix.jsonl:1: asr: expected a share")


def test_nan_in_curves_is_a_gap(tmp_path):
    rows = step_rows(3)
    rows[1]["roles"]["response"]["nll"] = math.nan
    rows[2]["step"] = math.inf
    write_lines(tmp_path / "steps.jsonl", rows)
    data = read_run(tmp_path)
    assert data.curves[0].steps == [1, 2]
    assert data.curves[0].roles["response"]["nll"][1] is None
    assert data.notes == ["steps.jsonl:3: step: expected a number: skipped."]


def test_the_work_for_a_long_run_grows_with_its_length(tmp_path):
    """Not with its square, as when the lists were made anew for every row: then four times the rows took 16 times as long."""
    row = {"roles": {"response": {"nll": 1.0}, "error": {"nll": 2.0}}, "streams": {"task": {"nll": 1.0}}}

    def seconds(num: int) -> float:
        write_lines(tmp_path / "steps.jsonl", ({"step": step, **row} for step in range(num)))
        started = time.process_time()
        (curve,) = read_run(tmp_path).curves
        taken = time.process_time() - started
        assert curve.roles["error"]["nll"] == [2.0] * num
        return taken

    assert min(seconds(20_000) for _ in range(3)) < 10 * min(seconds(5_000) for _ in range(3))


def test_many_problems_are_counted_and_not_listed(tmp_path):
    (tmp_path / "matrix.jsonl").write_text("{\n" * 1000)
    notes = read_run(tmp_path).notes
    assert len(notes) == MAX_NOTES + 1
    assert notes[-1] == f"matrix.jsonl: {1000 - MAX_NOTES} more problems like these."


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '"text"', "1" * 5000, "\xff"])
def test_other_files_that_are_not_what_they_should_be(tmp_path, text):
    for name in ("microscope.json", "audit.json", "curves.json", "depth.json"):
        (tmp_path / name).write_text(text, encoding="latin-1")
    data = read_run(tmp_path)
    assert data.answers == []
    assert data.audit is None
    assert data.curves == data.depth == []
    assert len(data.notes) == 4


def test_the_users_mistakes(tmp_path):
    with pytest.raises(InputError, match="expected a run folder"):
        read_run(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"nothing to report: expected one of matrix\.jsonl"):
        read_run(tmp_path)


def test_the_drift_of_a_held_stream_is_drawn_and_of_no_other(tmp_path):
    rows = step_rows(4)
    write_lines(tmp_path / "steps.jsonl", rows)
    titles = [panel.title for panel in _panels(read_run(tmp_path).curves[0])]
    assert not any("held" in title for title in titles)
    for number, row in enumerate(rows):
        figures = {"kbar": 0.01 * number, "lambda": 2.0 + number, "integral": 1.6 + number}
        row["streams"]["safety"] |= {f"{name}_early": value for name, value in figures.items()}
        row["streams"]["safety"] |= {f"{name}_late": 10 * value for name, value in figures.items()}
    write_lines(tmp_path / "steps.jsonl", rows)
    panels = {panel.title: panel.lines for panel in _panels(read_run(tmp_path).curves[0])}
    assert panels["Drift of held streams"] == {"safety": [0.0, 0.01, 0.02, 0.03]}
    assert panels["Drift of held streams, later tokens"] == {"safety": [0.0, 0.1, 0.2, 0.3]}
    weights = {"safety": [2.0, 3.0, 4.0, 5.0], "safety, later tokens": [20.0, 30.0, 40.0, 50.0]}
    assert panels["Weight of held streams"] == weights
    assert panels["Integral of held streams"]["safety"] == [1.6, 2.6, 3.6, 4.6]
