"""[004] on a pretrained model: attempt, check, decide. Settings are changed by ``key=value``.

    python -m holdfast_studies.decisions plan CONFIG model=M.gguf
    python -m holdfast_studies.decisions run  CONFIG model=M.gguf [seconds=540] [page=FILE] [report=FILE]
    python -m holdfast_studies.decisions page CONFIG model=M.gguf [page=FILE] [report=FILE]

``plan`` says what it costs and how settings are chosen. ``run`` trains and tests what is missing, so the same command goes on
where it stopped; after ``seconds`` it begins no further job. Then it writes, as ``page`` does, the section of the results page
and the ledger's file from what is there; without either it prints the section.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from holdfast.config import InputError, load_config, mistakes_end_it, need_extra
from holdfast_studies.decisions.checking_config import CheckingConfig, plan
from holdfast_studies.study_words import read_words

VERBS = ("plan", "run", "page")
OWN = ("page", "report", "seconds")


def main(arguments: Sequence[str]) -> None:
    """Run one verb."""
    verb, path, own, changes = read_words("decisions", arguments, VERBS, OWN)
    config = load_config(CheckingConfig, Path(path), changes)
    say = partial(print, flush=True)
    if verb == "plan":
        say("\n".join(plan(config)))
        return
    need_extra("rl", "holdfast_studies.decisions")
    from holdfast_studies.decisions.checking import run_checking
    from holdfast_studies.decisions.checking_page import write_results

    if verb == "run":
        run_checking(config, say, _seconds(own.get("seconds")))
    command = f"python -m holdfast_studies.decisions run {path}"
    page, report = (Path(own[name]) if name in own else None for name in ("page", "report"))
    text = write_results(config, command, page=page, report_file=report)
    if page is None and report is None:
        say(text)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(f"seconds: expected a number, got '{text}'") from None


if __name__ == "__main__":
    with mistakes_end_it():
        main(sys.argv[1:])
