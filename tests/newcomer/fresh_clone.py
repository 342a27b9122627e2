"""What somebody who has never seen the project types: `make demo` in a fresh clone, and the first commands from a wheel.

    python3 tests/newcomer/fresh_clone.py demo PLACE     # clone into PLACE, make demo, look at the tables and the report
    python3 tests/newcomer/fresh_clone.py wheel PLACE    # build a wheel of the last commit, install it, walk through it

After `demo` in the same PLACE the wheel takes that environment over: it has the core dependencies and nothing else.

Commits only, not the working tree. Python's own library only: nothing is installed yet. HOME is empty and PATH is the
system's, so what somebody installed by hand is not seen; pip's settings are the machine's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLONE, WHEEL, EMPTY = "a clone", "a wheel", "an empty place"
PASSED_ON = re.compile(r"(PIP_|SSL_|REQUESTS_|CURL_|HTTPS?_PROXY$|NO_PROXY$)", re.IGNORECASE)
TITLES = ("forbidden requests complied with", "harmless look-alikes refused", "answers right")
ATTACKS = ["harmful_examples", "identity_shift", "backdoor", "benign_drift"]
DEFENCES = ["sft", "csft", "csft_pa", "anchored"]
RATE = re.compile(r"\d+\.\d% \[\d+%, \d+%\]")
WORK = "holdfast train {recipe} model.name=tiny:aligned streams.0.data=rows.jsonl run=runs/{recipe} --quiet"


def environment(place: Path) -> dict[str, str]:
    """Of a machine on which nobody has done anything yet."""
    home = place / "home"
    home.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
    kept = {name: value for name, value in os.environ.items() if PASSED_ON.match(name)}
    return {"HOME": str(home), "LANG": "C.UTF-8", "PATH": path, **kept}


def run(command: Sequence[str | Path], folder: Path, place: Path) -> str:
    """Show the command and what it prints, and return that. One that fails ends everything."""
    print(f"$ {' '.join(map(str, command))}", flush=True)
    started = time.monotonic()
    process = subprocess.Popen(
        list(map(str, command)), cwd=folder, env=environment(place), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    if code := process.wait():
        sys.exit(f"a newcomer does not get through: exit code {code} from {' '.join(map(str, command))}")
    print(f"({time.monotonic() - started:.0f} s)", flush=True)
    return "".join(lines)


def check(holds: object, complaint: str) -> None:
    """Or end."""
    if not holds:
        sys.exit(f"a newcomer does not get through: {complaint}")


def check_demo(said: str, run_folder: Path, num_seeds: int) -> None:
    """Three tables, defences down and attacks across, a rate with its interval in every cell; and a report."""
    for title in TITLES:
        found = re.search(rf"^{title}.*, {num_seeds} seeds pooled, 95 % interval\s*\n((?:.+\n)+)", said, re.MULTILINE)
        check(found, f"no table '{title}' in:\n{said}")
        assert found is not None
        head, *rows = (line.strip() for line in found[1].splitlines())
        check(head.split() == ATTACKS, f"{title}: columns {head}")
        check([row.split()[0] for row in rows] == DEFENCES, f"{title}: rows {rows}")
        check(all(len(RATE.findall(row)) == len(ATTACKS) for row in rows), f"{title}: cells {rows}")
    report = run_folder / "report.html"
    check(report.is_file() and "<html" in report.read_text(encoding="utf-8"), f"no report at {report}")
    check(f"report: {report.relative_to(run_folder.parents[1])}" in said, "the report's path is not printed")


def demo(place: Path) -> None:
    """`make demo` with the core dependencies only."""
    clone = place / CLONE
    run(["git", "clone", "--quiet", ROOT, clone], ROOT, place)
    check_demo(run(["make", "demo"], clone, place), clone / "runs/demo", 3)
    look = "import importlib.util as u; print(*(n for n in ('pytest', 'sqlglot', 'uvicorn', 'ray') if u.find_spec(n)))"
    there = run([clone / ".venv/bin/python", "-c", look], clone, place).split()
    check(not there, f"not the core only: {there}")


def wheel(place: Path) -> None:
    """In an empty folder: what `pip install holdfast` gives."""
    source, room, empty = place / WHEEL, place / CLONE / ".venv", place / EMPTY
    run(["git", "clone", "--quiet", ROOT, source], ROOT, place)
    if not room.exists():
        room = place / "environment"
        run([sys.executable, "-m", "venv", room], place, place)
    pip = [room / "bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([*pip, "wheel", "--no-deps", "--wheel-dir", place, source], place, place)
    (built,) = place.glob("holdfast-*.whl")
    run([*pip, "install", "--constraint", source / "constraints.txt", built], place, place)
    empty.mkdir()

    def holdfast(words: str) -> str:
        return run([room / "bin" / "holdfast", *words.split()[1:]], empty, place)

    code = run([room / "bin/python", "-c", "import holdfast; print(holdfast.__file__)"], empty, place)
    check("site-packages" in code, f"not the wheel's code: {code}")
    said = holdfast(
        "holdfast attack matrix attacks=[benign_drift] defences=[sft] seeds=[0] num_requests=20 run=runs/cell"
    )
    check(RATE.search(said) and (empty / "runs/cell/report.html").is_file(), f"no table or no report: {said}")
    check("defended" in holdfast("holdfast recipes"), "no recipe 'defended'")
    (empty / "mine.yaml").write_text(holdfast("holdfast recipes defended"), encoding="utf-8")
    (empty / "rows.jsonl").write_text(holdfast("holdfast recipes rows"), encoding="utf-8")
    figures = []
    for recipe in ("defended", "sft"):
        holdfast(WORK.format(recipe=recipe))
        holdfast(f"holdfast audit runs/{recipe}/model --out runs/{recipe}")
        holdfast(f"holdfast report runs/{recipe}")
        figures.append(json.loads((empty / f"runs/{recipe}/audit.json").read_text(encoding="utf-8"))["figures"])
    check(figures[0] != figures[1], "the audit does not tell the defended model from the plain one")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("demo", "wheel"):
        sys.exit("usage: python3 tests/newcomer/fresh_clone.py demo|wheel PLACE")
    what, where = sys.argv[1], Path(sys.argv[2]).resolve()
    where.mkdir(parents=True, exist_ok=True)
    (demo if what == "demo" else wheel)(where)
    print(f"a newcomer gets through: {what}", flush=True)
