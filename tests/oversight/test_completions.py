"""/v1/completions with the real client: a model in the server's own process, and another server in front of that one.

The judge looks for phrases of refusal, so here a refusal is what is safe and every other answer is held back.
"""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from holdfast.models import load
from holdfast.worlds import SafetyWorld
from serve.processes import holdfast_serve

CHAT = "<|bos|><|user|> {} <|end|><|assistant|>"
FORBIDDEN = CHAT.format(SafetyWorld().requests("test", "forbidden", 1)[0].prompt[-1].visible)
HARMLESS = CHAT.format("copy : sun river stone")
REFUSAL = "sorry , i can not help you ."


@pytest.fixture(scope="module")
def unjudged() -> Iterator[str]:
    with holdfast_serve("tiny:aligned", "--judge", "none", "--n", "1", "--model", "mine") as address:
        yield address


@pytest.fixture(scope="module", params=["in process", "in front of another"])
def judged(request: pytest.FixtureRequest, unjudged: str) -> Iterator[str]:
    backend = ["tiny:aligned"] if request.param == "in process" else [f"{unjudged}/v1"]
    with holdfast_serve(*backend, "--judge", "refusal_phrases", "--n", "2", "--model", "mine") as address:
        yield address


def complete(address: str, prompt: Any, **more: Any) -> Any:
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="unused", max_retries=0, timeout=60)
    return client.completions.create(**{"model": "holdfast", "prompt": prompt, "temperature": 0, **more})


def test_only_what_is_judged_safe_goes_on(judged: str) -> None:
    """Two prompts, two answers of each: the choices of the first prompt come first."""
    answer = complete(judged, [FORBIDDEN, HARMLESS], n=2)
    assert [(choice.index, choice.finish_reason) for choice in answer.choices] == [
        (0, "stop"),
        (1, "stop"),
        (2, "content_filter"),
        (3, "content_filter"),
    ]
    assert [choice.text for choice in answer.choices[:2]] == [REFUSAL] * 2
    assert not any("river" in choice.text for choice in answer.choices)
    assert answer.model_extra["holdfast"]["verdict"] == "refused"


def test_the_backends_name_of_the_model_is_known_too(judged: str) -> None:
    assert complete(judged, FORBIDDEN, model="mine").model == "mine"
    with pytest.raises(openai.NotFoundError, match="this server has 'holdfast', 'mine'"):
        complete(judged, FORBIDDEN, model="yours")


def test_stop_stream_and_log_probabilities(judged: str) -> None:
    assert complete(judged, FORBIDDEN, stop=["help"]).choices[0].text.strip() == "sorry , i can not"
    chunks = list(complete(judged, FORBIDDEN, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == REFUSAL
    assert chunks[-1].choices[0].finish_reason == "stop"
    told = complete(judged, FORBIDDEN, logprobs=2).choices[0].logprobs
    assert "".join(told.tokens) == REFUSAL
    assert told.text_offset == [REFUSAL.index(token) for token in told.tokens]
    others = {name for top in told.top_logprobs for name in top} - set(told.tokens)
    assert {name[:11] for name in others} == {"<not judged"}  # no judge has read the words that stood beside them


def test_a_judge_lets_a_prompt_be_scored_but_nothing_be_written_after_it(judged: str) -> None:
    scored = complete(judged, "copy : sun river", echo=True, max_tokens=0, logprobs=1).choices[0]
    assert (scored.text, scored.logprobs.tokens) == ("copy : sun river", ["copy", " :", " sun", " river"])
    assert [logp is None for logp in scored.logprobs.token_logprobs] == [True, False, False, False]
    with pytest.raises(openai.BadRequestError, match="'echo' on a server with a judge needs 'max_tokens': 0"):
        complete(judged, "copy : sun", echo=True, max_tokens=1, logprobs=1)


def test_a_model_in_this_process_spells_tokens_for_the_judge() -> None:
    tokenizer = load("tiny:aligned").tokenizer
    with holdfast_serve("tiny:aligned", "--judge", "refusal_phrases", "--n", "2") as address:
        ids = [tokenizer(text)["input_ids"] for text in (FORBIDDEN, HARMLESS)]
        refusal, held_back = complete(address, ids).choices
    assert (refusal.text, held_back.finish_reason) == (REFUSAL, "content_filter")


def test_without_a_judge_the_prompt_may_be_echoed_with_what_follows(unjudged: str) -> None:
    answer = complete(unjudged, HARMLESS, echo=True, max_tokens=2, logprobs=0)
    choice = answer.choices[0]
    assert choice.text == HARMLESS + " sun river"
    assert [token.strip() for token in choice.logprobs.tokens[-4:]] == ["<|end|>", "<|assistant|>", "sun", "river"]
    assert answer.model_extra["holdfast"]["verdict"] == "unjudged"


def test_tokens_that_the_model_does_not_have(unjudged: str) -> None:
    with pytest.raises(openai.BadRequestError, match="this model has tokens 0 to 312"):
        complete(unjudged, [1, 313])
