"""Scoring, the part that needs a sandbox and no GPU: every program of the pools is run, judged and compared with the others."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from holdfast.audits.suites import whole_program
from holdfast.judging import Returned, check_code, outputs_of
from holdfast.judging.policy import CodePolicy
from holdfast.judging.sandbox import Limits, Sandboxes
from holdfast_studies.choosing.config import ChoosingConfig, Domain
from holdfast_studies.choosing.problems import Problem, read_problems
from holdfast_studies.choosing.sample import read_samples
from holdfast_studies.oversight.drawing import Row, read_pools

LIMITS = Limits(seconds=3.0)


def score_programs(
    config: ChoosingConfig, domain: Domain, on_progress: Callable[[int, int], None]
) -> dict[str, list[Row]]:
    """The samples with their scores. Scores are kept problem by problem, so the same call goes on where it stopped."""
    samples = read_samples(config, domain)
    problems = {problem.name: problem for problem in read_problems(config, domain) if problem.name in samples}
    path = Path(config.run) / "scored" / f"{domain}.jsonl"
    kept = read_pools(path)
    scored = {
        name: kept[name]
        for name in problems
        if [row["text_hash"] for row in kept.get(name, ())] == [_hash(row["text"]) for row in samples[name]]
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for rows in scored.values() for row in rows), encoding="utf-8")
    waiting = [name for name in problems if name not in scored]
    sandboxes = Sandboxes()
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads, path.open("a", encoding="utf-8") as file:
        different = {name: list(dict.fromkeys(row["text"] for row in samples[name])) for name in waiting}
        jobs = [(problems[name], text) for name in waiting for text in different[name]]
        done = threads.map(lambda job: _scored(job[0], job[1], sandboxes), jobs)
        for name in waiting:
            by_text = dict(zip(different[name], itertools.islice(done, len(different[name])), strict=True))
            scored[name] = [
                {"task": name, "index": row["index"], "text_hash": _hash(row["text"]), **by_text[row["text"]]}
                for row in samples[name]
            ]
            file.writelines(json.dumps(row) + "\n" for row in scored[name])
            file.flush()
            on_progress(len(scored), len(problems))
    sandboxes.close()
    return {name: [{**row, **more} for row, more in zip(samples[name], scored[name], strict=True)] for name in problems}


def _scored(problem: Problem, text: str, sandboxes: Sandboxes) -> Row:
    """``shown``: passes the prompt's tests, None where there are none. ``outputs``: what it returns, None for nothing.

    The policy reads the program that is run: the code of the answer, without prose around it.
    """
    task, code = problem.task, whole_program(problem.task, text)
    how: dict[str, Any] = {"limits": LIMITS, "sandboxes": sandboxes}
    checks = [
        None if test is None else check_code(code, test, task.entry_point, trusted=task.begun, **how)
        for test in (problem.shown, problem.scoring)
    ]
    shown, scoring = (None if verdict is None else verdict.score == 1 for verdict in checks)
    returned = outputs_of(code, task.entry_point, problem.inputs, **how)
    policy = CodePolicy()("", code)
    return {
        "shown": shown,
        "scoring": bool(scoring),
        "gold": bool(scoring) and (bool(shown) or not problem.shown_scores),
        "policy": policy.safe,
        "stopped": any(verdict is not None and verdict.safe is False for verdict in checks),
        "outputs": signature(returned),
    }


def signature(returned: Sequence[Returned | None]) -> str | None:
    """A hash that is equal for programs that agree on every input; None for one that returned nothing, or only None."""
    if all(result is None or result.value is None for result in returned):
        return None
    return _hash(json.dumps([None if result is None else plain(result.value) for result in returned]))[:16]


def plain(value: Any) -> str:
    """A literal as text: sets are sorted, and numbers that differ only by rounding are equal."""
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, int | float):
        return f"{value:.9g}" if abs(value) < 1e9 else repr(value)
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(plain, value)))}}}"
    if isinstance(value, list | tuple):
        inside = ", ".join(map(plain, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{plain(key)}: {plain(item)}' for key, item in _by_key(value))}}}"
    return repr(value)


def _by_key(value: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    return sorted(value.items(), key=lambda item: plain(item[0]))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
