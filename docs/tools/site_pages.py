"""What `make site` adds to docs/: the README as front page, and a page for every file of the repository that is linked to.

Pages are written for reading in the repository, so links lead to files there; on the site each becomes a link to the page
that shows the file, lines as anchors (`#L12`). Called by properdocs, which then checks every link and anchor.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from properdocs.config.defaults import ProperDocsConfig
from properdocs.structure.files import File, Files
from properdocs.structure.pages import Page
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename

ROOT = Path(__file__).parents[2]
OWN_PAGES = {
    "README.md": "index.md",
    "studies/README.md": "studies.md",
    **{name: name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")},
}
FIRST = ("tutorial.md", "your-model.md", "choosing.md", "limits.md")
LAST = ("papers.md", "lab-log.md")
LINK = re.compile(r"(\[[^\]]*\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
LIST_AFTER_TEXT = re.compile(
    r"^(?!- |  |\||#|>)(.+\n)(?=- )", re.MULTILINE
)  # a list there, a paragraph in this dialect
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
STYLE = """
.wy-nav-content { max-width: 75rem }
.rst-content table.docutils td, .rst-content table td, .rst-content table th { white-space: normal; font-size: 85% }
.rst-content table td:first-child { min-width: 10rem }
.rst-content table.docutils td, .rst-content table td, .rst-content table th { padding: 6px 8px }
.rst-content table code { white-space: normal; overflow-wrap: anywhere }
.highlight :target { background: #ffc }
"""


def on_config(config: ProperDocsConfig) -> ProperDocsConfig:
    """Anchors as in the repository's own view; the list of pages."""
    config.mdx_configs["toc"] = {"slugify": slug}
    docs = Path(config.docs_dir)
    guides = sorted(path.name for path in docs.glob("*.md") if path.name not in (*FIRST, *LAST, "objectives.md"))
    config.nav = [
        "index.md",
        {"Start": [name for name in FIRST if (docs / name).exists()]},
        {"Objectives": ["objectives.md", *_pages(docs, "objectives")]},
        {"Guides": guides},
        {"Results": _pages(docs, "results")},
        {"Record": [*LAST, *(name for name in OWN_PAGES.values() if name != "index.md")]},
    ]
    return config


def slug(heading: str, _separator: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _pages(docs: Path, folder: str) -> list[str]:
    return sorted(f"{folder}/{path.name}" for path in (docs / folder).glob("*.md"))


def on_files(files: Files, config: ProperDocsConfig) -> Files:
    """Add the pages of the repository's files that any page links to."""
    for name, uri in OWN_PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text(encoding="utf-8")))
    files.append(File.generated(config, "site.css", content=STYLE + HtmlFormatter().get_style_defs(".highlight")))
    shown = {path for file in files.documentation_pages() for path in _linked(file)}
    for folder in [path for path in shown if path.is_dir()]:
        shown |= {path for path in folder.iterdir() if path.is_file()}
    for path in sorted(shown):
        files.append(File.generated(config, _site_uri(path), content=_page_of(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Replace links to files by links to their pages."""
    here = PurePosixPath(page.file.src_uri)
    if here.parts[0] == "source":
        return markdown

    def replaced(link: re.Match[str]) -> str:
        target = _target(page.file, link[2])
        if target is None or not target.exists():
            return link[0]
        return f"{link[1]}{os.path.relpath(_site_uri(target), here.parent)}{link[3] or ''}"

    pieces = FENCE.split(markdown)  # text, fence, text, ...
    for number in range(0, len(pieces), 2):
        pieces[number] = LIST_AFTER_TEXT.sub(r"\1\n", LINK.sub(replaced, pieces[number]))
    return "".join(pieces)


def _linked(file: File) -> Iterator[Path]:
    """Files and folders that are linked to and lie outside the site's own pages."""
    for link in LINK.finditer(FENCE.sub("", file.content_string)):
        target = _target(file, link[2])
        if target is not None and target.exists() and _site_uri(target).startswith("source/"):
            yield target


def _target(file: File, link: str) -> Path | None:
    """The file of the repository that a link on a page means; None for addresses."""
    if re.match(r"[a-z]+:", link):
        return None
    own = {uri: name for name, uri in OWN_PAGES.items()}
    page = ROOT / own[file.src_uri] if file.src_uri in own else ROOT / "docs" / file.src_uri
    return (page.parent / link).resolve()


def _site_uri(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    if name in OWN_PAGES:
        return OWN_PAGES[name]
    if name.startswith("docs/") and path.suffix in (".md", ".png", ".svg"):
        return name.removeprefix("docs/")
    return f"source/{name}/index.md" if path.is_dir() else f"source/{name}.md"


def _page_of(path: Path) -> str:
    title = f"# {path.relative_to(ROOT).as_posix()}\n\n"
    if path.is_dir():
        names = sorted(file.name for file in path.iterdir() if file.is_file())
        return title + "\n".join(f"- [{name}]({name}.md)" for name in names) + "\n"
    html: str = highlight(
        path.read_text(encoding="utf-8"), get_lexer_for_filename(path.name), HtmlFormatter(linespans="L", wrapcode=True)
    )
    return title + html.replace('<span id="L-', '<span id="L')
