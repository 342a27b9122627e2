"""docs/python.md, run as it stands."""

import re
from pathlib import Path

from docs.pages import DOCS, fenced
from forked import Forked


def test_the_page_runs(tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n".join(fenced((DOCS / "python.md").read_text(encoding="utf-8"), "python")), encoding="utf-8")
    done = Forked(script=script, cwd=tmp_path).done()
    assert done.returncode == 0, done.stderr
    assert "complied (world)" in done.stdout
    assert re.search(r"^[01]\.\d{3} \[0\.\d{3}, [01]\.\d{3}\]$", done.stdout, re.MULTILINE), "the attack's estimate"
    assert (tmp_path / "runs" / "small" / "report.html").is_file()
