"""The pictures of docs/pictures: `python docs/tools/pictures.py [NAME ...]` makes them again with the commands of holdfast.

The runs behind them stay in --runs (runs/pictures), so a second call is quick. The first takes some five minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

PICTURES = Path(__file__).parents[1] / "pictures"
PEERS = Path(os.environ.get("HOLDFAST_PEERS", PICTURES.parents[1] / ".venv-peers/bin/python"))
COLUMNS = 96
REQUEST = "where is a welmi plimmet kept ?"
WRONG_START = "in the harbour"
TRACES = ("world:safety/train/place", "--limit", "2000", "--errors", "1", "--length", "1", "--clean", "0.5")
TRAINING = """
run: {run}
model: {{name: "tiny:aligned", new_tokens: ["<UNDO>"], device: cpu}}
streams: [{{data: {traces}, objective: {objective}}}]
training: {{max_steps: 300, batch_size: 16, micro_batch: 16, lr: 2e-3}}
"""
OBJECTIVES = {"masked_sft": "undo", "sft": "sft"}  # and the folders of their runs
CHROMIUM_SWITCHES = ("--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb")


def holdfast(*words: str | Path, coloured: bool = False) -> str:
    """Run `holdfast WORDS` and return what it printed; ``coloured``: as on a terminal."""
    colours = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": str(COLUMNS)}
    environment = {**os.environ, **(colours if coloured else {})}
    command = [sys.executable, "-m", "holdfast", *map(str, words)]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def matrix(runs: Path, out: Path) -> None:
    """The first part of the demo's report, as a browser shows it."""
    report = demo(runs)
    with browser_page(width=1100, height=900, scale=1.5) as page:
        page.goto(report.resolve().as_uri())
        section = page.locator("#matrix")
        section.evaluate("section => section.style.padding = '16px'")
        section.screenshot(path=out / "matrix.png")


@contextmanager
def browser_page(width: int, height: int, scale: float = 1.0) -> Iterator[Any]:
    """A page of the installed Chromium."""
    from playwright.sync_api import sync_playwright

    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser_path is None:
        sys.exit("this picture needs a Chromium on the path: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=list(CHROMIUM_SWITCHES))
        size = {"width": width, "height": height}
        yield browser.new_page(viewport=size, color_scheme="light", device_scale_factor=scale)  # type: ignore[arg-type]
        browser.close()


def inspect_view(runs: Path, out: Path) -> None:
    """The audit of a plainly tuned model, in `inspect view`."""
    if not PEERS.with_name("inspect").exists():
        sys.exit("inspect-view: inspect is not installed: make peers")
    run, logs = runs / "sft", runs / "logs"
    if not (run / "audit.json").is_file():
        holdfast("train", "sft", "training.epochs=10", "training.lr=3e-3", f"run={run}", "--quiet")
        holdfast("audit", run / "model", "--out", run, "--keep-answers")
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(PEERS), "-m", "holdfast", "tasks", "inspect-log", str(run), str(logs / "sft.eval")]
    subprocess.run(words, env=own, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(PEERS.with_name("inspect")), "view", "--log-dir", str(logs), "--port", str(port)]
    server = subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_server(f"http://127.0.0.1:{port}")
        with browser_page(width=1280, height=800) as page:
            page.goto(f"http://127.0.0.1:{port}/#/tasks/sft.eval")
            page.get_by_text("harmful/001").first.wait_for(timeout=600_000)
            # Without the first line, which names folders of the machine that it is drawn on.
            page.screenshot(path=out / "inspect-view.png", clip={"x": 0, "y": 28, "width": 1280, "height": 572})
    finally:
        server.terminate()
        server.wait()


def wait_for_server(address: str) -> None:
    """Wait until the address answers, for ten minutes at most."""
    end = time.monotonic() + 600
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            time.sleep(0.5)
    sys.exit(f"{address} does not answer")


def live(name: str) -> Callable[[Path, Path], None]:
    """The maker of the picture of one panel of `holdfast view`, on the runs of the other pictures."""

    def draw(runs: Path, out: Path) -> None:
        demo(runs)
        for objective in OBJECTIVES:
            trained(runs, objective)
        command = [sys.executable, "-m", "holdfast", "view", str(runs), "--no-open"]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
            browser_page(width=1100, height=900) as page,
        ):
            assert process.stdout is not None
            page.set_default_timeout(300_000)
            page.goto(process.stdout.readline().strip())
            PANELS[name](page)
            page.locator("main").evaluate("main => main.style.padding = '16px'")
            page.locator("main").screenshot(path=out / f"{name}.png")
            process.terminate()

    return draw


def _runs_panel(page: Any) -> None:
    for name in OBJECTIVES.values():
        page.get_by_label(f"Chart {name}", exact=True).check()
    page.locator("figure[data-title='Loss'] svg .line").nth(1).wait_for()
    page.locator(".more, figure:nth-of-type(n + 5)").evaluate_all("parts => parts.forEach(part => part.remove())")


def _matrix_panel(page: Any) -> None:
    page.locator("nav a", has_text="Matrix").click()
    page.locator("#matrix-run").select_option(label="demo")
    page.locator(".matrix tr", has_text="csft_pa").locator(".face:visible").first.click()
    page.locator("#cell h3").wait_for()


def _tokens_panel(page: Any) -> None:
    page.locator("nav a", has_text="Tokens").click()
    page.locator("#tokens-text").fill(f"user: {REQUEST}\nassistant: {WRONG_START} .")
    page.locator("#token-rows .tok", has_text="harbour").wait_for()
    page.locator("#tokens-colour").select_option("kl")
    page.locator("#tokens-numbers summary").click()


def _try_panel(page: Any) -> None:
    page.locator("nav a", has_text="Try it").click()
    page.locator("#try-model option", has_text="undo").wait_for(state="attached")
    page.locator("#try-model").select_option(label="undo")
    page.locator("#try-mode span", has_text="with undo").click()
    page.locator("#try-text").fill(REQUEST)
    page.locator("#try-prefill").fill(WRONG_START)
    page.locator("#try-send").click()
    page.locator(".keep").wait_for()
    page.locator("#try-model").select_option(label="tiny:aligned")
    page.locator("#try-mode span", has_text="overseen").click()
    page.locator("#try-prefill").fill("")
    page.locator("#try-temperature").fill("1.2")
    page.locator("#try-send").click()
    page.locator(".candidates").wait_for()
    page.locator("#try-send", has_text="Ask").wait_for()


PANELS: dict[str, Callable[[Any], None]] = {
    "view-runs": _runs_panel,
    "view-matrix": _matrix_panel,
    "view-tokens": _tokens_panel,
    "view-try": _try_panel,
}


def demo(runs: Path) -> Path:
    """The report of `holdfast demo`."""
    report = runs / "demo" / "report.html"
    if not report.is_file():
        holdfast("demo", "--out", report.parent)
    return report


def trained(runs: Path, objective: str) -> Path:
    """A model that takes words back; with plain sft it has learned the errors too."""
    name = OBJECTIVES[objective]
    model = runs / name / "model"
    if not model.is_dir():
        config = runs / f"{name}.yaml"
        text = TRAINING.format(run=model.parent, traces=traces(runs), objective=objective)
        config.write_text(text, encoding="utf-8")
        holdfast("train", config, "--quiet")
    return model


def roles(runs: Path, out: Path) -> None:
    """One backtrack trace as the model reads it, each token coloured by its role."""
    words = ("tokens", traces(runs), "--model", "tiny:aligned", "--row", "0")
    printed = holdfast(*words, coloured=True).partition("\n")[2]  # the first line names the file
    shown = "holdfast tokens traces.jsonl --model tiny:aligned --row 0"
    write_svg(out / "roles.svg", Group(Text(f"$ {shown}\n", style="bold"), Text.from_ansi(printed.rstrip())))


def undo(runs: Path, out: Path) -> None:
    """A wrong beginning, put into the model's mouth, and what the decoder does with it, change by change."""
    model = trained(runs, "masked_sft")
    words = ("generate", model, REQUEST, "--undo", "--begin", WRONG_START, "--events")
    table = Table("what happens", "the answer on the screen", box=None, padding=(0, 4, 0, 0), header_style="dim")
    for change, line in frames([json.loads(line) for line in holdfast(*words).splitlines()]):
        table.add_row(change, line)
    shown = f'holdfast generate MODEL "{REQUEST}" --undo --begin "{WRONG_START}"'
    write_svg(out / "undo.svg", Group(Text(f"$ {shown}\n", style="bold"), table))


def frames(events: list[dict[str, str | int]]) -> Iterator[tuple[Text, Text]]:
    """What each event does, and the line after it: given text blue, new text green, deleted text struck out."""
    text = ""
    given = WRONG_START
    for event in events:
        if event["event"] == "insert":
            new = str(event["text"])
            is_given = bool(given) and given.startswith(text + new)
            what, colour = ("is given", "blue") if is_given else ("writes", "green")
            yield Text(what, colour), Text(text) + Text(new, colour)
            text += new
        elif event["event"] == "delete":
            kept = text[: len(text) - int(event["num_chars"])]
            yield Text("takes back", "red"), Text(kept) + Text(text[len(kept) :], "red strike")
            text, given = kept, ""
    yield Text("done", "bold"), Text(text, "bold")


def traces(runs: Path) -> Path:
    """Answers of the embedded world with errors that are taken back."""
    path = runs / "traces.jsonl"
    if not path.is_file():
        holdfast("traces", "make", TRACES[0], path, *TRACES[1:])
    return path


def write_svg(path: Path, content: Group) -> None:
    """Write a terminal window with the content, without the web fonts that rich would load from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, highlight=False)
    console.print(content)
    svg = console.export_svg(title="holdfast", unique_id=path.stem)
    path.write_text(re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL), encoding="utf-8")


def qwen(runs: Path, out: Path) -> None:
    """From the committed cells of the study; the page of docs/results is written from the same."""
    from holdfast_studies.qwen.__main__ import main as study_command

    root = PICTURES.parents[1]
    study, cells = root / "studies/configs/qwen/stage1.yaml", root / "docs/results/qwen/stage1"
    files = [f"run={cells}", f"page={runs / 'qwen.md'}", f"picture={out / 'qwen.svg'}"]
    study_command(["page", str(study), *files])


DRAWN_BY: dict[str, Callable[[Path, Path], None]] = {
    "qwen": qwen,
    "matrix": matrix,
    "inspect-view": inspect_view,
    "roles": roles,
    "undo": undo,
    **{name: live(name) for name in PANELS},
}


def main(arguments: list[str]) -> None:
    """Make the pictures that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(DRAWN_BY)}; left out: all")
    parser.add_argument("--runs", type=Path, default=Path("runs/pictures"), help="where the runs behind them are kept")
    parser.add_argument("--out", type=Path, default=PICTURES, help="where the pictures go")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.names) - set(DRAWN_BY):
        parser.error(f"no picture '{min(unknown)}': {', '.join(DRAWN_BY)}")
    for folder in (chosen.runs, chosen.out):
        folder.mkdir(parents=True, exist_ok=True)
    for name in chosen.names or DRAWN_BY:
        DRAWN_BY[name](chosen.runs, chosen.out)
        print(f"wrote {name} to {chosen.out}")


if __name__ == "__main__":
    main(sys.argv[1:])
