"""A run that trains while the page is open: killed, resumed, finished, and then asked with undo."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import PATIENCE, wait_for

TRACES = ("world:safety/train/place", "--limit", "2000", "--errors", "1", "--length", "1", "--clean", "0.5")


def holdfast(*words: str | Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "holdfast", *map(str, words)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def write_config(folder: Path) -> Path:
    """A model that learns to take words back; in some 300 steps it does."""
    rows = folder / "traces.jsonl"
    assert holdfast("traces", "make", TRACES[0], rows, *TRACES[1:]).wait(PATIENCE) == 0
    settings = {
        "run": str(folder / "runs" / "undo"),
        "model": {"name": "tiny:aligned", "new_tokens": ["<UNDO>"], "device": "cpu"},
        "streams": [{"data": str(rows), "objective": "masked_sft"}],
        "training": {"max_steps": 300, "batch_size": 16, "micro_batch": 16, "lr": 2e-3, "save_every": 50},
    }
    (folder / "undo.yaml").write_text(json.dumps(settings))
    return folder / "undo.yaml"


def state(page):
    return page.locator("#run-rows .state").inner_text()


def step(page):
    told = page.locator("#run-rows td").nth(3).inner_text()
    return int(told.partition(" of ")[0]) if told else 0


@pytest.mark.slow  # in small: test_view_runs.py writes the log itself
def test_a_run_is_watched_killed_resumed_and_asked(live, tmp_path):
    config = write_config(tmp_path)
    (tmp_path / "runs").mkdir()
    page = live(tmp_path / "runs").page
    assert page.locator("#connection").inner_text() in ("connecting", "connected", "0 runs, 0 running")
    training = holdfast("train", config, "--quiet")
    try:
        wait_for(lambda: page.locator("#run-rows tr").count() == 1 and step(page) >= 60)
        assert state(page) == "running"
        assert page.locator("figure[data-title='NLL by role'] svg .label").count() >= 2
        training.send_signal(signal.SIGKILL)
        training.wait()
        wait_for(lambda: state(page) == "stopped")
        reached = step(page)
        assert 60 <= reached < 300
        training = holdfast("train", config, "--quiet")
        wait_for(lambda: state(page) == "running")
        wait_for(lambda: step(page) > reached)
        assert training.wait(PATIENCE) == 0
    finally:
        training.kill()
    wait_for(lambda: state(page) == "finished")
    wait_for(lambda: step(page) == 300)
    assert page.locator("#run-rows a").nth(1).get_attribute("href").endswith("report#microscope")
    ask_with_undo(page)


def ask_with_undo(page):
    """The wrong beginning is taken back, and what was taken back stands in the margin."""
    page.locator("nav a[href='#try']").click()
    wait_for(lambda: "undo" in page.locator("#try-model option").all_text_contents())
    page.locator("#try-model").select_option(label="undo")
    page.locator("#try-mode span", has_text="with undo").click()
    page.get_by_label("Say").fill("where is a welmi plimmet kept ?")
    page.get_by_label("The answer begins with").fill("in the harbour")
    page.locator("#try-send").click()
    page.locator(".reply .keep").wait_for(timeout=PATIENCE * 1000)
    assert page.locator(".said").inner_text() == "in the garden ."
    assert page.locator(".taken-back s").all_text_contents() == [" harbour"]
    assert "1 undo · ended: stop" in page.locator(".reply").inner_text()
