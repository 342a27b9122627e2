"""The pictures of docs/pictures: `python docs/tools/pictures.py [NAME ...]` makes them again with the commands of holdfast.

The runs behind them stay in --runs (runs/pictures), so a second call is quick. The first takes some five minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

PICTURES = Path(__file__).parents[1] / "pictures"
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
    from playwright.sync_api import sync_playwright

    report = demo(runs)
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser_path is None:
        sys.exit("matrix: needs a Chromium on the path: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=list(CHROMIUM_SWITCHES))
        page = browser.new_page(viewport={"width": 1100, "height": 900}, color_scheme="light", device_scale_factor=1.5)
        page.goto(report.resolve().as_uri())
        section = page.locator("#matrix")
        section.evaluate("section => section.style.padding = '16px'")
        section.screenshot(path=out / "matrix.png")
        browser.close()


def live(name: str) -> Callable[[Path, Path], None]:
    """The maker of the picture of one panel of `holdfast view`, on the runs of the other pictures."""

    def draw(runs: Path, out: Path) -> None:
        from playwright.sync_api import sync_playwright

        browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
        if browser_path is None:
            sys.exit(f"{name}: needs a Chromium on the path: apt-get install chromium")
        demo(runs)
        for objective in OBJECTIVES:
            trained(runs, objective)
        command = [sys.executable, "-m", "holdfast", "view", str(runs), "--no-open"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, sync_playwright() as playwright:
            assert process.stdout is not None
            browser = playwright.chromium.launch(executable_path=browser_path, args=list(CHROMIUM_SWITCHES))
            page = browser.new_page(viewport={"width": 1100, "height": 900}, color_scheme="light")
            page.set_default_timeout(300_000)
            page.goto(process.stdout.readline().strip())
            PANELS[name](page)
            page.locator("main").evaluate("main => main.style.padding = '16px'")
            page.locator("main").screenshot(path=out / f"{name}.png")
            browser.close()
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
    """A terminal window with the content, without the web fonts that rich would load from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, highlight=False)
    console.print(content)
    svg = console.export_svg(title="holdfast", unique_id=path.stem)
    path.write_text(re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL), encoding="utf-8")


DRAWN_BY: dict[str, Callable[[Path, Path], None]] = {
    "matrix": matrix,
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
