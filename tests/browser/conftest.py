"""A real browser on real files: Debian's Chromium, driven by Playwright; nothing is ever downloaded."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast.reports import write_report
from reports.runs import write_hostile_run, write_run
from view.serving import serving

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
)


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Closed before another package's tests: as long as it is open, its event loop counts as running in this thread."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("needs a Chromium on the path: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(SWITCHES))
        yield browser
        browser.close()


@dataclass
class Opened:
    """A page and what happened while it was open."""

    page: Any
    messages: list[str] = field(default_factory=list)  # console errors and warnings, uncaught exceptions
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def open_page(browser):
    """Open a file as a reader does, from disk, or an address. A page that complains fails its test, unless the test takes
    the complaints.
    """
    contexts, pages = [], []

    def opened(path: Path | str, scheme: str = "light", width: int = 1280, height: int = 900) -> Opened:
        viewport = {"width": width, "height": height}
        contexts.append(browser.new_context(color_scheme=scheme, viewport=viewport, reduced_motion="reduce"))
        view = Opened(contexts[-1].new_page())
        view.page.on("console", lambda m: view.messages.append(m.text) if m.type in ("error", "warning") else None)
        view.page.on("pageerror", lambda error: view.messages.append(str(error)))
        view.page.on("request", lambda request: view.requests.append(request.url))
        view.page.goto(path if isinstance(path, str) else path.as_uri())
        pages.append(view)
        return view

    yield opened
    for context in contexts:
        context.close()
    assert [message for view in pages for message in view.messages] == []


@pytest.fixture
def live(open_page):
    """Open the live page of a folder of runs. The page is closed before its server ends, which it would complain of."""
    pages = []
    with ExitStack() as servers:

        def opened(root: Path, models: tuple[str, ...] = (), **how: Any) -> Opened:
            pages.append(open_page(servers.enter_context(serving(root, models)), **how))
            return pages[-1]

        yield opened
        for view in pages:
            view.page.context.close()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(write_run(tmp_path_factory.mktemp("runs") / "demo", num_runs=3))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(write_hostile_run(tmp_path_factory.mktemp("runs") / "hostile"))
