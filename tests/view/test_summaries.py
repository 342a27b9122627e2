"""What the list says about a run: pace and time left, the lock of a training, the processes of a matrix."""

import fcntl
import os
import socket

import pytest

from holdfast.view.folders import find_runs
from holdfast.view.summaries import Watched, locked_folders
from reports.runs import step_rows, write_lines
from view.serving import write_training


def look(watched, root, locked):
    (folder,) = find_runs(root)
    watched.refresh(folder, locked)
    return watched.summary


@pytest.fixture
def run(tmp_path):
    return write_training(tmp_path / "runs" / "one", 10)


def test_time_left_is_told_once_the_run_has_moved(run):
    root, facts = run.parent, run.stat()
    here = frozenset({(facts.st_dev, facts.st_ino)})
    watched = Watched(find_runs(root)[0])
    first = look(watched, root, here)
    assert (first.state, first.step, first.total, first.seconds_left) == ("running", 10, 100, None)
    write_lines(run / "steps.jsonl", step_rows(60))
    moved = look(watched, root, here)
    assert moved.seconds_left is not None
    assert moved.seconds_left > 0
    version = watched.version
    assert look(watched, root, here) is moved  # nothing has changed: nothing is read, nobody is told
    assert watched.version == version
    assert look(watched, root, frozenset()).seconds_left is None


def test_steps_in_all_are_known_from_the_epochs(run):
    rows = [{"step": 5, "epoch": 0.5, "loss": 1.0}]
    write_lines(run / "steps.jsonl", rows)
    (run / "config.yaml").write_text("training: {epochs: 3}\n")
    assert look(Watched(find_runs(run.parent)[0]), run.parent, frozenset()).total == 30


def test_steps_in_all_of_a_run_of_rl_are_those_that_were_set(run):
    (run / "config.yaml").write_text("rl: {steps: 40, epochs: 1.0}\n")
    assert look(Watched(find_runs(run.parent)[0]), run.parent, frozenset()).total == 40


@pytest.mark.skipif(locked_folders() is None, reason="needs /proc/locks, which Linux has")
def test_a_lock_is_seen_and_not_taken(run):
    """Another process that begins to train at this moment is not kept from it."""
    lock = os.open(run, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        watched = Watched(find_runs(run.parent)[0])
        assert look(watched, run.parent, locked_folders()).state == "running"
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert look(watched, run.parent, locked_folders()).state == "stopped"
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(lock)


def test_without_a_list_of_locks_a_log_that_grows_is_running(run):
    watched = Watched(find_runs(run.parent)[0])
    assert look(watched, run.parent, None).state == "running"
    os.utime(run / "steps.jsonl", (0, 0))
    assert look(watched, run.parent, None).state == "stopped"


def test_a_matrix_runs_while_its_process_lives(tmp_path):
    cells = tmp_path / "matrix" / "cells"
    mine = cells / f".scratch-{socket.gethostname()}-{os.getpid()}"
    mine.mkdir(parents=True)
    watched = Watched(find_runs(tmp_path)[0])
    assert look(watched, tmp_path, frozenset()).state == "running"
    mine.rename(cells / f".scratch-{socket.gethostname()}-{2**22 + 1}")  # no process has such a number
    assert look(watched, tmp_path, frozenset()).state == "stopped"
    (tmp_path / "matrix" / "matrix.jsonl").write_text("")
    assert look(watched, tmp_path, frozenset()).state == "finished"
