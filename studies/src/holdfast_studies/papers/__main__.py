"""``python -m holdfast_studies.papers FOLDER WORKERS [SCALE] [ID ...]``: studies with a line for each as it goes, for machines
without the command line's packages. The same figures as `holdfast reproduce all --out FOLDER`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.config import InputError
from holdfast_studies.papers.registry import find_study, studies
from holdfast_studies.papers.running import run_studies
from holdfast_studies.papers.study import Machine


def main(arguments: Sequence[str]) -> None:
    """What is missing in the folder is run; failures are said at the end."""
    if len(arguments) < 2 or not arguments[1].isdecimal() or not int(arguments[1]):
        sys.exit("usage: python -m holdfast_studies.papers FOLDER WORKERS [h200] [ID ...]")
    folder, num_workers, *rest = arguments
    scale: Machine = "h200" if "h200" in rest else "cpu"
    names = [name for name in rest if name not in ("cpu", "h200")]
    started, last = time.monotonic(), [""]

    def on_shares(done: float, total: float, busy: str) -> None:
        if busy != last[0]:
            print(f"{time.monotonic() - started:6.0f}s {done / total:.0%} at work: {busy}", flush=True)
            last[0] = busy

    try:
        chosen = [find_study(name) for name in names] or list(studies().values())
        ran = run_studies(chosen, scale, Path(folder), num_workers=int(num_workers), on_shares=on_shares)
    except InputError as error:
        sys.exit(f"holdfast: {error}")
    print(f"{time.monotonic() - started:6.0f}s {len(ran.kept)} studies have figures")
    for name, reason in ran.failed.items():
        print(f"{name} failed: {reason}")
    sys.exit(bool(ran.failed))


if __name__ == "__main__":
    main(sys.argv[1:])
