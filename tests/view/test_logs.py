"""Logs that grow, are cut back and are damaged; and lines of different runs on one grid."""

import json
import math

import pytest

from holdfast.view.charts import RunLogs, gridded, run_charts
from holdfast.view.logs import Log, last_row, num_damaged
from reports.runs import step_rows, write_lines


@pytest.fixture
def path(tmp_path):
    return tmp_path / "steps.jsonl"


def test_what_is_new_is_added_and_a_torn_line_waits_for_its_end(path):
    path.write_text('{"step": 1, "loss": 3}\n{"step": 2, "lo')
    log = Log(path).refresh()
    assert log.steps == [1]
    with path.open("a") as file:
        file.write('ss": 2.5, "streams": {"task": {"nll": 1, "name": "x"}}}\n')
    log.refresh()
    assert log.steps == [1, 2]
    assert log.columns == {
        ("loss",): [3, 2.5],
        ("streams", "task", "nll"): [None, 1],
        ("streams", "task", "name"): [None] * 2,
    }


def test_a_log_that_was_cut_back_and_went_on_is_read_again(path):
    write_lines(path, step_rows(50))
    log = Log(path).refresh()
    rows = step_rows(70)
    for row in rows:
        row["loss"] = 7.0
    write_lines(path, rows)  # longer than before, with other figures
    log.refresh()
    assert log.steps == list(range(1, 71))
    assert set(log.columns["loss",]) == {7.0}
    path.unlink()
    assert log.refresh().steps == []


def test_rows_written_twice_count_once_the_later_one(path):
    path.write_text(
        "".join(json.dumps({"step": step, "loss": place}) + "\n" for place, step in enumerate((1, 2, 3, 2, 3, 4)))
    )
    log = Log(path).refresh()
    assert (log.steps, log.columns["loss",]) == ([1, 2, 3, 4], [0, 3, 4, 5])


def test_what_is_no_row_is_passed_over_and_counted(path):
    whole = b'{"step": 1}\n\n[1]\n{"step": 2\n  {"step": 3}\r\nnull\n{"step": 1e99}\n'
    path.write_bytes(whole + b'{"step": 9')
    assert Log(path).refresh().steps == [1, 3]
    assert num_damaged(whole) == 3
    assert last_row(path) == {"step": 3}


def test_a_last_row_far_from_the_end_is_found(path):
    path.write_bytes(b'{"step": 4}\n' + b"x" * 1_000_000)
    assert last_row(path) == {"step": 4}


def test_lines_on_one_grid():
    """Rows at 1..4, and at 2 and 4: stretches of two steps, the means of which are worked by hand."""
    steps, columns, width = gridded([([1, 2, 3, 4], [1.0, 3.0, None, 5.0]), ([2, 4], [10.0, 20.0])])
    assert (steps, columns, width) == ([2, 4], [[2.0, 5.0], [10.0, 20.0]], 2)


def test_a_long_log_is_thinned_and_keeps_its_mean():
    values = [math.sin(step / 100) for step in range(1, 5_001)]
    steps, (column,), width = gridded([(list(range(1, 5_001)), values)])
    assert len(steps) <= 160
    assert steps[-1] == 5_000
    weights = [min(width, 5_000 - place * width) for place in range(len(steps))]
    assert sum(w * v for w, v in zip(weights, column, strict=True)) == pytest.approx(sum(values))


def test_every_figure_of_a_stream_has_a_chart(path, tmp_path):
    parts = {"nll": 1.0, "kl": 0.2, "lambda_early": 3.0, "lambda_late": 2.0, "k_early": 0.1, "tokens": 40}
    write_lines(path, [{"step": step, "epoch": 0.1, "loss": 1.0, "streams": {"task": parts}} for step in (1, 2)])
    runs = [RunLogs("mine", Log(path).refresh(), Log(tmp_path / "timing.jsonl"))]
    titles = [title for title, _ in run_charts(runs)]
    lambdas = ["Lambda of early tokens by stream", "Lambda of late tokens by stream"]
    assert titles == ["Loss", "KL to the anchor by stream", *lambdas, "NLL by stream", "K_early by stream"]
    assert run_charts([]) == []


def test_memory_is_drawn_in_gibibytes_and_a_line_bears_the_name_of_its_run(path, tmp_path):
    write_lines(path, [{"step": step, "memory_bytes": 3 * 2**30} for step in (1, 2)])
    runs = [RunLogs("mine", Log(tmp_path / "steps.jsonl"), Log(path).refresh())]
    ((title, chart),) = run_charts(runs)
    assert title == "Memory"
    assert "memory (GiB)" in chart.svg
    assert chart.figures["series"] == [["mine", [3.0, 3.0]]]
