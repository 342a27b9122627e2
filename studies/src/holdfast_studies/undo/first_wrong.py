"""Find where a wrong attempt goes wrong: at the first beginning from which none of the model's own continuations is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from holdfast.records import Trace
from holdfast_studies.undo.answer_tasks import AnswerTask
from holdfast_studies.undo.draws import Drawn
from holdfast_studies.undo.safety_gap_config import OwnSettings


class Draw(Protocol):
    """A function that draws ``num`` whole answers to every (row, how its answer begins)."""

    def __call__(self, beginnings: Sequence[tuple[Trace, str]], num: int) -> list[list[Drawn]]:
        """The answers, in the order of ``beginnings``."""
        ...


@dataclass(frozen=True)
class WrongAttempt:
    """A wrong attempt up to its first wrong step, and the model's own right continuations in place of that step."""

    steps: tuple[str, ...]  # the last of them is the first wrong one
    successes: tuple[int, ...]  # right continuations of 0, 1, ... steps; the last is 0, all others are not
    right: tuple[str, ...]  # right continuations of all steps but the last

    @property
    def prefix(self) -> str:
        """The right steps."""
        return "".join(self.steps[:-1])


@dataclass(frozen=True)
class Attempts:
    """What became of the answers that were drawn for one request; ``row`` is its number."""

    row: int
    num: int
    right: tuple[str, ...]
    wrong: tuple[WrongAttempt, ...]
    num_never_lost: int = 0  # wrong attempts that the model could still have put right when it ended them

    @classmethod
    def of_row(cls, values: dict[str, Any]) -> Attempts:
        """Rebuild it from JSON."""
        wrong = (
            WrongAttempt(tuple(attempt["steps"]), tuple(attempt["successes"]), tuple(attempt["right"]))
            for attempt in values["wrong"]
        )
        return cls(values["row"], values["num"], tuple(values["right"]), tuple(wrong), values["num_never_lost"])

    def as_row(self) -> dict[str, Any]:
        """It as a dict for JSON."""
        return asdict(self)


@dataclass
class _Search:
    """A wrong attempt while its first wrong step is looked for. ``right`` continues the beginning that was tried last."""

    row: int
    steps: list[str]
    successes: list[int]
    right: list[str]
    found: WrongAttempt | None = None


def sample_attempts(
    task: AnswerTask, draw: Draw, how: OwnSettings, say: Callable[[str], None] = lambda _: None
) -> list[Attempts]:
    """Draw answers to every row, grade them, and find the first wrong step of some wrong ones.

    A row without a right answer gets no wrong attempts, because nothing is known to be right there. An answer that was cut
    off is neither right nor wrong: it is counted in ``num`` alone.
    """
    pools = draw([(row, "") for row in task.rows], how.num_attempts)
    pairs = [(row, answer.text) for row, pool in zip(task.rows, pools, strict=True) for answer in pool]
    grades = iter(task.grade(pairs))
    right: list[list[str]] = []
    searches: list[_Search] = []
    for number, pool in enumerate(pools):
        judged = [(answer, next(grades)) for answer in pool]
        right.append([answer.text for answer, good in judged if good and answer.ended])
        wrong = dict.fromkeys(
            answer.text for answer, good in judged if not good and answer.ended and answer.text.strip()
        )
        for text in list(wrong)[: how.num_wrong] if right[number] else ():
            searches.append(_Search(number, task.steps(text), [len(right[number])], list(dict.fromkeys(right[number]))))
    say(f"{sum(map(len, right))} of {len(pairs)} attempts are right; {len(searches)} wrong ones are looked into")
    _find(task, draw, how.num_rollouts, searches, say)
    of_row: dict[int, list[_Search]] = {number: [] for number in range(len(pools))}
    for search in searches:
        of_row[search.row].append(search)
    return [
        Attempts(
            number,
            len(pool),
            tuple(right[number]),
            tuple(search.found for search in of_row[number] if search.found is not None),
            sum(search.found is None for search in of_row[number]),
        )
        for number, pool in enumerate(pools)
    ]


def _find(
    task: AnswerTask, draw: Draw, num_rollouts: int, searches: Sequence[_Search], say: Callable[[str], None]
) -> None:
    """Search step by step, all attempts at once. An attempt that is not lost after its last step has no first wrong step."""
    for depth in range(1, max((len(search.steps) for search in searches), default=0) + 1):
        going_on = [search for search in searches if search.found is None and depth <= len(search.steps)]
        if not going_on:
            break
        beginnings = [(task.rows[search.row], "".join(search.steps[:depth])) for search in going_on]
        pools = draw(beginnings, num_rollouts)
        pairs = [(row, answer.text) for (row, _), pool in zip(beginnings, pools, strict=True) for answer in pool]
        grades = iter(task.grade(pairs))
        for search, pool in zip(going_on, pools, strict=True):
            judged = [(answer, next(grades)) for answer in pool]
            right = [answer.rest for answer, good in judged if good and answer.ended]
            search.successes.append(len(right))
            if not right:
                steps = tuple(search.steps[:depth])
                search.found = WrongAttempt(steps, tuple(search.successes), tuple(dict.fromkeys(search.right)))
            search.right = right
        lost = sum(search.found is not None for search in going_on)
        say(f"step {depth}: {len(going_on)} attempts, {lost} went wrong here")
