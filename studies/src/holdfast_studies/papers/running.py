"""Running studies, several at once: what is kept is not run again, so an interrupted `reproduce all` goes on where it stopped."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.config import InputError
from holdfast_studies.papers.figure_files import Kept, is_current, kept_figures, make_figures
from holdfast_studies.papers.registry import find_study
from holdfast_studies.papers.study import MACHINES, Claim, Finding, Machine, Study, StudyRow

OnShares = Callable[[float, float, str], None]
"""Hears (seconds' worth of work done, in all, the studies at work)."""


class Ran(NamedTuple):
    """What came of several studies."""

    kept: dict[str, Kept]  # by study
    failed: dict[str, str]  # by study: why


def run_studies(
    studies: Sequence[Study],
    scale: Machine,
    folder: Path,
    *,
    num_workers: int = 1,
    fresh: bool = False,
    on_shares: OnShares = lambda done, total, names: None,
) -> Ran:
    """The figures of every study that this scale can make; of the others those that are kept.

    Several studies run in worker processes, one core each. One study runs here, because a process takes seconds to start.
    """
    kept = {} if fresh else _all_kept(studies, folder, current=True)
    done = [name for name, each in kept.items() if MACHINES.index(each.scale) >= MACHINES.index(scale)]
    missing = [study for study in studies if study.id not in done and scale in study.seconds]
    missing.sort(key=lambda study: -study.seconds[scale])  # the longest first: no core waits for it at the end
    failed = _run(missing, scale, folder, num_workers, on_shares)
    return Ran(_all_kept(studies, folder, current=True), failed)


def stored(studies: Iterable[Study], folder: Path) -> dict[str, Kept]:
    """Figures that are there already, whatever lies in this machine's runs. A study that it could run must have them."""
    studies = list(studies)
    kept = _all_kept(studies, folder)
    missing = [study.id for study in studies if study.id not in kept and "cpu" in study.seconds]
    if missing:
        raise InputError(
            f"{folder}: no figures, or figures of an older set-up, for {', '.join(missing)}; "
            f"run `holdfast reproduce {missing[0] if len(missing) == 1 else 'all'} --out {folder}`"
        )
    return kept


def rows_of(study: Study, kept: Kept | None) -> list[StudyRow]:
    """One row per claim. Without figures: what it would take to have some."""
    if not study.seconds:
        return [_row(study, "cpu", claim, claim.judge({})) for claim in study.claims]
    if kept is None:
        scale = next(iter(study.seconds))
        finding = Finding("not testable here", f"needed: `holdfast reproduce {study.id} --scale {scale}`")
        return [_row(study, scale, claim, finding) for claim in study.claims]
    return [_row(study, kept.scale, claim, claim.judge(kept.figures)) for claim in study.claims]


def _row(study: Study, scale: Machine, claim: Claim, finding: Finding) -> StudyRow:
    option = "" if scale == "cpu" else f" --scale {scale}"
    return StudyRow(
        id=claim.id,
        paper=study.paper,
        place=claim.place,
        claim=claim.text,
        printed=claim.printed,
        measured=finding.measured,
        found=finding.found,
        verdict=finding.verdict,
        command=f"holdfast reproduce {study.id}{option}",
        erratum=claim.erratum,
        about=claim.about or study.about,
        rule=claim.rule or study.rule,
        model=study.model_at(scale),
    )


def _all_kept(studies: Iterable[Study], folder: Path, *, current: bool = False) -> dict[str, Kept]:
    """The largest scale that is there counts. ``current``: not if the finished runs behind it have changed since."""
    found = {}
    for study in studies:
        for scale in MACHINES:
            kept = kept_figures(study, scale, folder)
            if kept is not None and (not current or is_current(study, kept)):
                found[study.id] = kept
    return found


def _run(
    studies: Sequence[Study], scale: Machine, folder: Path, num_workers: int, on_shares: OnShares
) -> dict[str, str]:
    """Run studies. Returns why some failed."""
    if not studies:
        return {}
    if len(studies) == 1:
        return _run_here(studies[0], scale, folder, on_shares)
    return _run_in_workers(studies, scale, folder, num_workers, on_shares)


def _run_here(study: Study, scale: Machine, folder: Path, on_shares: OnShares) -> dict[str, str]:
    cost = max(study.seconds[scale], 0.1)
    on_shares(0.0, cost, study.id)
    try:
        with _one_thread():
            make_figures(study, scale, folder, lambda share: on_shares(share * cost, cost, study.id))
    except Exception as error:
        return {study.id: _reason(error)}
    on_shares(cost, cost, "")
    return {}


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread, as a worker does, so that figures do not depend on how many studies run. Without torch it does nothing."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _run_in_workers(
    studies: Sequence[Study], scale: Machine, folder: Path, num_workers: int, on_shares: OnShares
) -> dict[str, str]:
    context = get_context("spawn")  # torch's threads do not survive a fork
    shares = context.Array("d", len(studies))
    costs = [max(study.seconds[scale], 0.1) for study in studies]
    with ProcessPoolExecutor(num_workers, context, _begin, (shares,)) as pool:
        futures = {pool.submit(_work, study.id, scale, folder, place): study.id for place, study in enumerate(studies)}
        waiting: set[Future[None]] = set(futures)
        try:
            while waiting:
                waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED).not_done
                busy = ", ".join(name for future, name in futures.items() if future.running())
                on_shares(sum(share * cost for share, cost in zip(shares[:], costs, strict=True)), sum(costs), busy)
        except BaseException:  # Ctrl-C, above all: the pool would wait for every study that is left
            for worker in active_children():
                worker.terminate()
            raise  # a pool without workers ends at once; leaving it waits for that
    return {name: _reason(error) for future, name in futures.items() if (error := future.exception())}


_shares: Any = None  # of this worker: the shared array of every study's progress


def _begin(shares: Any) -> None:
    global _shares
    import torch

    _shares = shares
    torch.set_num_threads(1)


def _work(name: str, scale: Machine, folder: Path, place: int) -> None:
    """In a worker: import this one study and run it."""

    def on_progress(share: float) -> None:
        _shares[place] = share

    make_figures(find_study(name), scale, folder, on_progress)
    _shares[place] = 1.0


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, InputError) else "".join(traceback.format_exception(error))
