"""200 runs of 5,000 rows: the page loads and scrolls, and no task of it takes longer than 200 ms. This one measures time."""

import json

import pytest

from reports.runs import step_rows
from view.serving import write_training
from waiting import wait_for

LONGEST = 200  # ms
OBSERVED = """
window.tasks = [];
new PerformanceObserver((list) => { for (const entry of list.getEntries()) window.tasks.push(entry.duration); })
  .observe({ type: "longtask", buffered: true });
"""


@pytest.mark.slow
def test_two_hundred_runs_of_five_thousand_rows(live, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in step_rows(5_000)))
    for number in range(200):
        log = write_training(tmp_path / "runs" / f"group{number % 7}" / f"run{number:03}", 1) / "steps.jsonl"
        log.unlink()
        log.hardlink_to(rows)
    page = live(tmp_path / "runs").page
    page.add_init_script(OBSERVED)
    page.reload()
    wait_for(lambda: page.locator("#run-rows tr").count() == 200)
    wait_for(lambda: page.locator("#charts svg").count() > 4)
    for tick in page.locator("#run-rows input").all()[1:8]:
        tick.check()
    wait_for(lambda: page.locator("figure[data-title='Loss'] svg .line").count() == 8)
    page.locator("figure[data-title='Loss'] summary").click()
    page.locator(".list").hover()
    for _ in range(30):
        page.mouse.wheel(0, 400)
    page.mouse.move(5, 5)
    for _ in range(30):
        page.mouse.wheel(0, 400)
    page.locator("#runs-find").fill("run19")
    assert page.locator("#run-rows tr:visible").count() == 10
    with rows.open("a") as file:
        file.write(json.dumps({"step": 5_001, "loss": 2.0, "nll": 1.0}) + "\n")
    page.locator("#runs-find").fill("run000")
    wait_for(lambda: "5,001" in page.locator("#run-rows tr:visible").inner_text())
    tasks = page.evaluate("window.tasks")
    print("long tasks (ms):", sorted(tasks, reverse=True))
    assert max(tasks, default=0) <= LONGEST, tasks
