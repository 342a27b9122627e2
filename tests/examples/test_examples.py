"""Each script in examples/, run as a user would run it, in a folder of its own."""

import re
from pathlib import Path

import pytest

from forked import Forked

EXAMPLES = Path(__file__).parents[2] / "examples"


def ran(name: str, folder: Path) -> str:
    done = Forked(script=EXAMPLES / name, cwd=folder).done()
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tune(tmp_path: Path) -> None:
    told = ran("tune.py", tmp_path)
    assert "(world)" in told
    assert (tmp_path / "runs" / "tune" / "audit.json").is_file()
    assert (tmp_path / "runs" / "tune" / "report.html").is_file()


@pytest.mark.slow  # its parts are run by docs/python.md
def test_research(tmp_path: Path) -> None:
    told = ran("research.py", tmp_path)
    assert re.search(r"^untouched 0\.\d{3} \[.*\nsft [01]\.\d{3} \[", told, re.MULTILINE), "the attack's estimates"
    assert "sun river | reward" in told
    assert "the best of 8, not judged" in told
    assert (tmp_path / "runs" / "research" / "report.html").is_file()


def test_serve(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="the extra serve is not installed")
    told = ran("serve.py", tmp_path)
    assert "sun river stone\n    safe | " in told
    assert "refused | abstained: of 4 candidates 4 unsafe" in told
    assert 'holdfast_candidates_total{verdict="unsafe"} 4.0' in told


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_each_is_in_cells_and_is_named_in_the_docs(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count("\n# %% ") >= 2
    page = (EXAMPLES.parent / "docs" / "python.md").read_text(encoding="utf-8")
    assert f"examples/{path.name}" in page
