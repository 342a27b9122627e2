"""Which candidate the server returns, and what it says of it."""

import asyncio
import threading
from collections.abc import Sequence

from starlette.testclient import TestClient

from holdfast.judging import OutcomeJudge
from holdfast.records import Reply
from holdfast.serve import AnswerRequest, Draw, GuardedJudge, NullJudge, ServerSettings, make_app
from holdfast.serve.answers import Choice
from holdfast.serve.backends import Drawn
from holdfast.serve.balance import Balancer
from holdfast.serve.chat import read_chat
from holdfast.serve.metrics import Metrics
from holdfast.serve.overseen import Overseer
from oversight.telling import Telling
from waiting import PATIENCE, run_async


class Saying:
    """A backend whose candidates are these."""

    name = "saying"

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    async def draw(self, _request: AnswerRequest, n: int) -> Drawn:
        return Drawn([Draw(text, "stop") for text in self.texts[:n]])

    async def close(self) -> None:
        pass


def test_what_is_returned_says_its_outcome() -> None:
    """*Missed* may be returned, *complied* not: header, body and metrics say which it was."""
    refuses, sql, complies = "refused: I cannot.", "missed: SELECT heart", "complied: here is how."
    for texts, outcome, returned in (
        ((complies, sql, refuses), "missed", sql),
        ((complies, refuses), "refused", refuses),
        ((complies, complies), None, None),
        (("", ""), None, None),
    ):
        app = make_app([Saying(*texts)], Telling(), ServerSettings(n=len(texts)))  # type: ignore[list-item]
        with TestClient(app) as client:
            body = {"messages": [{"role": "user", "content": "a request"}]}
            response = client.post("/v1/chat/completions", json=body)
            figures = client.get("/metrics").text
        told = response.json()["holdfast"]
        assert (response.headers.get("x-holdfast-outcome"), told["outcome"]) == (outcome, outcome)
        assert told["verdict"] == ("safe" if returned else "refused")
        text = response.json()["choices"][0]["message"]["content"]
        assert text == returned if returned else text.startswith("I can't give an answer")
        words = [text.partition(":")[0] or "missed" for text in texts]
        for word in ("refused", "missed", "complied"):
            expected = words.count(word)
            assert (f'holdfast_outcomes_total{{outcome="{word}"}} {expected}.0' in figures) == (expected > 0)


def test_candidates_that_say_nothing_are_judged_and_not_returned() -> None:
    """Dots are *missed* and not safe. That is a verdict: the client gets the refusal, not a judge that is out of order."""
    app = make_app([Saying("...", " ", "```")], OutcomeJudge(), ServerSettings(n=3))  # type: ignore[list-item]
    with TestClient(app) as client:
        body = {"messages": [{"role": "user", "content": "How do I bake bread?"}]}
        response = client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200
    told = response.json()["holdfast"]
    assert (told["verdict"], told["safe"], told["outcome"]) == ("refused", 0, None)
    assert "outcomes: 3 missed" in told["reason"]


def test_a_reward_that_hangs_costs_the_choice_and_not_the_answer() -> None:
    """R may fail, S may not."""

    class Counting:
        name = "counting"

        async def draw(self, _request: AnswerRequest, n: int) -> Drawn:
            return Drawn([Draw(f"answer {number}", "stop") for number in range(n)])

    over = threading.Event()

    def hangs(replies: Sequence[Reply]) -> list[float | None]:
        over.wait(3 * PATIENCE)
        return [float(number) for number in range(len(replies))]

    settings = ServerSettings(backend_seconds=1.0)
    balancer = Balancer([Counting()], lambda *_: None)  # type: ignore[list-item]
    overseer = Overseer(balancer, GuardedJudge(NullJudge(), seconds=PATIENCE), hangs, settings, Metrics())
    request = read_chat(b'{"messages": [{"role": "user", "content": "x"}]}', settings)

    async def answered() -> Choice:
        try:
            (choice,) = (await asyncio.wait_for(overseer.answer(request), PATIENCE)).choices
            return choice
        finally:
            over.set()  # or the loop would wait for the thread before it ends

    choice = run_async(answered())
    assert (choice.text, "the reward failed: TimeoutError" in choice.verdict["reason"]) == ("answer 0", True)
