"""The live page's list of runs and their charts, in a real browser: states, new rows, runs laid over each other."""

import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest

from reports.runs import HOSTILE, step_rows, write_hostile_run, write_lines
from view.serving import write_training
from waiting import wait_for


def row(page, name):
    return page.locator("#run-rows tr", has=page.get_by_role("link", name=name, exact=True))


def cells(page, name):
    return [text.strip() for text in row(page, name).locator("td").all_inner_texts()]


def legend(page, title):
    """The names at the ends of a chart's lines."""
    return page.locator(f"figure[data-title='{title}'] svg .label").all_text_contents()


def append(path: Path, rows):
    with path.open("a") as file:
        file.writelines(json.dumps(one) + "\n" for one in rows)


@pytest.fixture
def root(tmp_path):
    write_training(tmp_path / "alpha", 20)
    write_training(tmp_path / "beta", 30)
    done = write_training(tmp_path / "done", 5)
    (done / "model").mkdir()
    (done / "microscope.json").write_text("[]")
    (done / "finished.json").write_text(json.dumps({"step": 5, "files": {}}))
    return tmp_path


def test_every_state_is_told(live, root):
    lost = write_training(root / "lost", 5)
    (lost / "finished.json").write_text(json.dumps({"step": 5, "files": {"model/model.safetensors": "0" * 64}}))
    torn = write_training(root / "torn", 5)
    append(torn / "steps.jsonl", [])
    (torn / "steps.jsonl").write_bytes(
        (torn / "steps.jsonl").read_bytes() + b'{"step": 6, "lo\n{"step": 7, "loss": 1}\n'
    )
    half = write_training(root / "half", 5)  # killed while it wrote: the next run of it drops that line
    (half / "steps.jsonl").write_bytes((half / "steps.jsonl").read_bytes() + b'{"step": 6, "lo')
    lock = os.open(root / "alpha", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        page = live(root).page
        wait_for(lambda: page.locator("#run-rows tr").count() == 6)
        states = {name: row(page, name).locator(".state").inner_text() for name in ("alpha", "beta", "done", "half")}
        assert states == {"alpha": "running", "beta": "stopped", "done": "finished", "half": "stopped"}
        assert "model/model.safetensors is gone" in row(page, "lost").inner_text()
        assert "damaged" in row(page, "lost").inner_text()
        assert "damaged lines in steps.jsonl: 1" in row(page, "torn").inner_text()
        assert page.locator("#connection").inner_text() == "6 runs, 1 running"
        os.close(lock)
        lock = -1
        wait_for(lambda: row(page, "alpha").locator(".state").inner_text() == "stopped")
    finally:
        if lock >= 0:
            os.close(lock)


def test_figures_of_a_run(live, root):
    page = live(root).page
    wait_for(lambda: page.locator("#charts svg").count() > 3)
    assert cells(page, "beta")[2:] == ["stopped", "30 of 100", "1", "1", "", "1,000", "", "tiny:aligned", "csft"]
    assert page.locator("#run-rows input:checked").count() == 1  # one is chosen to begin with
    assert legend(page, "NLL by stream") == ["task", "safety"]
    assert row(page, "done").locator("a").nth(1).get_attribute("href").endswith("/report#microscope")


def test_new_rows_arrive_while_the_page_is_open(live, root):
    page = live(root).page
    page.get_by_label("Chart beta", exact=True).wait_for()
    page.get_by_label("Chart alpha", exact=True).uncheck()
    page.get_by_label("Chart beta", exact=True).check()
    chart = page.locator("figure[data-title='NLL by role']")
    chart.locator("summary").click()
    wait_for(lambda: chart.locator("tbody tr").count() == 30)
    append(root / "beta" / "steps.jsonl", step_rows(41)[30:])
    wait_for(lambda: cells(page, "beta")[3] == "41 of 100")
    wait_for(lambda: chart.locator("tbody tr").count() == 41)
    # A resumed run cuts its log back to a checkpoint and goes on from there.
    write_lines(root / "beta" / "steps.jsonl", step_rows(10))
    wait_for(lambda: cells(page, "beta")[3] == "10 of 100")
    wait_for(lambda: chart.locator("tbody tr").count() == 10)
    # A figure that nobody knew before has a chart of its own.
    extra = [{"step": n, "streams": {"task": {"lambda": 0.1 * n, "kbar": 0.2}}} for n in range(11, 15)]
    append(root / "beta" / "steps.jsonl", extra)
    wait_for(lambda: page.locator("figure[data-title='Lambda by stream']").count() == 1)
    write_training(root / "new", 3)
    wait_for(lambda: page.locator("#connection").inner_text().startswith("4 runs"))
    shutil.rmtree(root / "new")
    wait_for(lambda: page.locator("#connection").inner_text().startswith("3 runs"))
    wait_for(lambda: page.locator("#run-rows tr").count() == 3)


def test_runs_are_laid_over_each_other(live, root):
    page = live(root).page
    for name in ("alpha", "beta", "done"):
        page.get_by_label(f"Chart {name}", exact=True).check()
    wait_for(lambda: sorted(legend(page, "Loss")) == ["alpha", "beta", "done"])
    assert page.locator("#runs-status").inner_text() == "3 runs laid over each other"
    assert sorted(legend(page, "NLL, role error")) == ["alpha", "beta", "done"]
    colours = page.locator("figure[data-title='Loss'] svg .line").evaluate_all(
        "lines => lines.map(line => getComputedStyle(line).stroke)"
    )
    assert len(set(colours)) == 3
    page.get_by_label("Find").fill("BET")
    assert page.locator("#run-rows tr:visible").count() == 1
    page.get_by_label("Find").fill("")
    page.get_by_label("State").select_option("finished")
    assert page.locator("#run-rows tr:visible").count() == 1


def test_charts_by_keyboard(live, root):
    page = live(root).page
    chart = page.locator("figure[data-title='Loss'] svg")
    chart.focus()
    page.keyboard.press("End")
    assert page.locator("#tip").inner_text().startswith("step 20")
    append(
        root / "alpha" / "steps.jsonl", step_rows(25)[20:]
    )  # the picture is exchanged, the reader stays where he was
    wait_for(lambda: cells(page, "alpha")[3] == "25 of 100")
    wait_for(lambda: chart.evaluate("svg => document.activeElement === svg"))
    page.keyboard.press("End")
    wait_for(lambda: page.locator("#tip").inner_text().startswith("step 25"))


def test_everything_can_be_reached_by_the_tab_key(live, root):
    page = live(root).page
    page.locator("#charts svg").first.wait_for()
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("(e => e.id || e.getAttribute('aria-label') || e.textContent.trim())(document.activeElement)")
        )
    for name in ("Matrix", "Try it", "runs-find", "runs-state", "Chart alpha", "alpha", "Chart beta", "Numbers"):
        assert name in reached, reached


def test_everything_has_a_name_for_a_screen_reader(live, root):
    page = live(root).page
    page.locator("#charts svg").first.wait_for()
    page.locator("#try-model option").first.wait_for(state="attached")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("input, select, textarea, button, a, svg, summary, [tabindex='0']")]
          .filter((e) => !((e.labels && e.labels.length) || e.getAttribute("aria-label") || e.textContent.trim()))
          .map((e) => e.outerHTML.slice(0, 120))"""
    )
    assert nameless == []
    assert page.locator("[role=status]").count() >= 5
    assert page.locator("table:not(:has(th[scope=col]))").count() == 0


def test_the_policy_lets_nothing_in(live, root):
    view = live(root)
    page = view.page
    page.locator("#charts svg").first.wait_for()
    set_markup = "try { document.body.innerHTML = '<b>x</b>'; 'set' } catch (error) { error.name }"
    assert page.evaluate(set_markup) == "TypeError"
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('img'), {src: 'http://127.0.0.1:9/x.png'}))"
    )
    wait_for(lambda: any("img-src" in message for message in view.messages))
    assert page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
    view.messages.clear()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_has_no_sideways_scroll(live, root, scheme):
    page = live(root, scheme=scheme, width=360, height=740).page
    page.locator("#charts svg").first.wait_for()
    for panel in ("runs", "matrix-panel", "tokens", "try"):
        page.locator(f"nav a[href='#{panel}']").click()
        page.locator(f"#{panel}").wait_for()  # the page hears of the click a moment later
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 360, panel


def test_hostile_folders_are_shown_and_do_nothing(live, open_page, tmp_path):
    write_hostile_run(tmp_path / "hostile")
    strange = tmp_path / "<script>window.hacked=1<\\script>"
    write_training(strange, model={"name": HOSTILE.replace("\ud800", "")}, streams=[{"objective": HOSTILE[:90]}])
    wild = write_training(tmp_path / "wild", 3, training={"max_steps": 10**400, "epochs": "<b>"})
    rows = [
        {"step": 4, "loss": 1e308, "nll": -1e308, "streams": {HOSTILE: {HOSTILE: 1.0, "nll": math_nan()}}},
        {"step": 5, "loss": True, "nll": [], "streams": {"task": 7}, "roles": [1]},
        {"step": 10**30, "loss": 1},
        {"step": "7"},
        {"step": 6, **{f"z{n}": n for n in range(1_000)}},
        {"step": 7, "loss": 10**400},
    ]
    append(wild / "steps.jsonl", rows)
    with (wild / "steps.jsonl").open("ab") as file:
        file.write(
            b'[1, 2]\n\xff\xfe{"step": 8}\n'
            + b"[" * 100_000
            + b"\n"
            + b'{"step": 9, "loss": NaN, "deep": '
            + b"{" * 999
            + b"\n"
        )
        file.write(b"x" * 2_000_000)  # no end of line
    os.mkfifo(tmp_path / "wild" / "microscope.json")
    for name in ("bomb", "deep", "binary"):
        write_training(tmp_path / name)
    lines = "\n".join(f"a{n + 1}: &a{n + 1} [{','.join([f'*a{n}'] * 9)}]" for n in range(30))
    (tmp_path / "bomb" / "config.yaml").write_text(f"a0: &a0 [1]\n{lines}\n")
    (tmp_path / "deep" / "config.yaml").write_text("[" * 50_000)
    (tmp_path / "binary" / "config.yaml").write_bytes(bytes(range(256)) * 9)
    view = live(tmp_path)
    page, url = view.page, view.page.url
    wait_for(lambda: page.locator("#run-rows tr").count() == 7)
    for tick in page.locator("#run-rows input:enabled").all():
        tick.check()
    wait_for(lambda: any("window.hacked" in text for text in page.locator("figcaption").all_text_contents()))
    for panel in ("matrix-panel", "tokens", "try", "runs"):
        page.locator(f"nav a[href='#{panel}']").click()
    page.locator("nav a[href='#matrix-panel']").click()
    page.locator(".matrix .face:visible").first.click()
    page.locator("#cell h3").wait_for(timeout=120_000)
    assert "window.hacked" in page.locator("#matrix-panel").inner_text()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, iframe, object").count() == 0
    assert all(request.startswith(url) for request in view.requests), view.requests
    states = dict(
        zip(
            page.locator("#run-rows .name").all_inner_texts(),
            page.locator("#run-rows .state").all_inner_texts(),
            strict=True,
        )
    )
    assert [states[name] for name in ("deep", "binary", "wild")] == ["damaged"] * 3, states
    report = page.locator("#run-rows a", has_text="hostile").first.get_attribute("href")
    other = open_page(url + report)
    assert other.page.evaluate("window.hacked") is None
    assert other.page.locator(".tokens .tok").count() > 0
    assert other.page.evaluate("document.scrollingElement.scrollWidth") <= 1280
    assert other.requests == [url + report]


def math_nan():
    return float("nan")
