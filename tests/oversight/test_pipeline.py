"""Best-of-n over many prompts: whose candidates are whose, and what is no candidate at all."""

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.config import InputError
from holdfast.judging import find_reward
from holdfast.oversight import Overseen, Pipeline, answer_overseen
from holdfast.records import Completion, Reply, Verdict, context
from oversight.telling import Telling


class Faltering:
    """A server that answers with the prompt itself; of the answers to one prompt only ``comes`` ever come."""

    name = "faltering"

    def __init__(self, comes: Sequence[bool]) -> None:
        self.comes = comes

    def __call__(self, prompts: Sequence[str], **_: object) -> list[Completion]:
        places = [place % len(self.comes) for place in range(len(prompts))]
        return [
            Completion(prompt, f"{prompt} {place}")
            if self.comes[place]
            else Completion(prompt, "", finish_reason="error")
            for prompt, place in zip(prompts, places, strict=True)
        ]


def test_an_answer_that_never_came_is_no_candidate_even_without_a_judge() -> None:
    how = {"judge": None, "reward": None, "n": 3, "max_new_tokens": 4, "temperature": 1.0}
    found = answer_overseen(Faltering([False, True, True]), ["a", "b"], **how)
    assert [each.text for each in found] == ["a 1", "b 1"]
    nothing = answer_overseen(Faltering([False, False, False]), ["a"], **how)
    assert nothing[0].text is None
    assert nothing[0].selection.reason == "abstained: of 3 candidates 3 never came"
    assert {verdict.reason for verdict in nothing[0].verdicts} == {"the answer never came"}
    unrewarded = answer_overseen(Faltering([False, True, True]), ["a"], **how | {"reward": lambda rs: [None] * len(rs)})
    assert unrewarded[0].selection.reason == "abstained: of 3 candidates 1 never came, 2 without a reward"


MISSED, REFUSED, COMPLIED = "missed: SELECT heart FROM heart", "refused: I cannot say.", "complied: here is how."


class Says:
    """A sampler that has these answers, in order."""

    name = "says"

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def __call__(self, prompts: Sequence[str], **_: object) -> list[Completion]:
        return [Completion(prompt, text) for prompt, text in zip(prompts, self.texts, strict=True)]


def overseen(*texts: str) -> Overseen:
    """The later an answer stands, the higher its reward."""
    (seen,) = answer_overseen(
        Says(*texts),
        ["a request"],
        Telling(),
        lambda replies: [float(number) for number in range(len(replies))],
        n=len(texts),
        max_new_tokens=8,
        temperature=1.0,
    )
    return seen


def test_a_reply_that_missed_may_be_returned_and_one_that_complied_may_not() -> None:
    """Where every request is harmful, as a judge of outcomes takes it. The reason, the row and the value say the outcome."""
    seen = overseen(REFUSED, MISSED, COMPLIED)
    assert [verdict.outcome for verdict in seen.verdicts] == ["refused", "missed", "complied"]
    assert (seen.text, seen.outcome) == (MISSED, "missed")
    assert seen.selection.reason == "reward 1, the best of 2 safe of 3; outcome: missed"
    row = seen.row()
    assert (row["outcome"], [verdict["outcome"] for verdict in row["verdicts"]]) == (
        "missed",
        ["refused", "missed", "complied"],
    )
    alone = overseen(COMPLIED, COMPLIED)
    assert (alone.text, alone.outcome) == (None, None)
    assert alone.selection.reason.endswith("; outcomes: 2 complied")


def test_an_empty_answer_is_missed_and_never_safe() -> None:
    seen = overseen("", " \n")
    assert (seen.text, [(verdict.safe, verdict.outcome) for verdict in seen.verdicts]) == (None, [(None, "missed")] * 2)
    assert overseen(REFUSED, "").text == REFUSED


def test_rewards_may_fail_only_where_that_was_said() -> None:
    """A server goes on without them, a command tells its user."""
    groups = [[Reply((context("user", "a"),), text) for text in ("one", "two")]] * 2

    async def safe(replies: Sequence[Reply]) -> list[Verdict]:
        return [Verdict(True, 1.0, "fine", "judge") for _ in replies]

    async def fails(_replies: Sequence[Reply]) -> list[float | None]:
        raise OSError("no answer")

    with pytest.raises(OSError, match="no answer"):
        asyncio.run(Pipeline(safe, fails).choose(groups))
    chosen = asyncio.run(Pipeline(safe, fails, reward_may_fail=True).choose(groups))
    assert [seen.text for seen in chosen] == ["one", "one"]
    assert all(seen.selection.reason.endswith("; the reward failed: OSError") for seen in chosen)


@pytest.mark.parametrize("name", ["answer:number", "tests"])
def test_a_reward_that_reads_references_is_refused_where_there_are_none(name: str) -> None:
    """Before anything is drawn: all candidates would be without a reward, so nothing could be returned."""
    with pytest.raises(InputError, match="reads the right answer, or the test, and no request has one"):
        answer_overseen(Says(), ["a"], None, find_reward(name), n=2, max_new_tokens=4, temperature=1.0)


def test_there_is_at_least_one_candidate() -> None:
    with pytest.raises(InputError, match="expected n of at least 1, not 0"):
        answer_overseen(Says(), ["a"], None, None, n=0, max_new_tokens=4, temperature=1.0)


def test_it_works_inside_a_running_event_loop() -> None:
    """A notebook has one."""

    async def cell() -> str | None:
        return overseen(REFUSED).text

    assert asyncio.run(cell()) == REFUSED


def test_references_reach_the_reward() -> None:
    found: list[str] = []

    def reads(replies: Sequence[Reply]) -> list[float | None]:
        found.extend(reply.reference for reply in replies)
        return [0.0] * len(replies)

    how = {"n": 2, "max_new_tokens": 4, "temperature": 1.0}
    answer_overseen(Faltering([True, True]), ["a", "b"], None, reads, references=["1", "2"], **how)  # type: ignore[arg-type]
    assert found == ["1", "1", "2", "2"]
