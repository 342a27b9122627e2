"""What the server says of the outcome of an answer."""

from starlette.testclient import TestClient

from holdfast.serve import AnswerRequest, Draw, ServerSettings, make_app
from holdfast.serve.backends import Drawn
from oversight.telling import Telling


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
