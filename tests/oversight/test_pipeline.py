"""Best-of-n over many prompts: whose candidates are whose, and what is no candidate at all."""

from collections.abc import Sequence

from holdfast.oversight import answer_overseen
from holdfast.records import Completion


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
    assert "3 not judged" in nothing[0].selection.reason
