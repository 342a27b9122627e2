"""/v1/completions: texts to go on with, given as text or as tokens; with ``echo`` also how likely the model finds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.records import context
from holdfast.serve.answers import Answer, pieces
from holdfast.serve.logprobs import to_completion
from holdfast.serve.protocol import (
    MAX_TOP,
    UNDERSTOOD,
    AnswerRequest,
    ProtocolError,
    check_text,
    head,
    read_count,
    read_flag,
    read_object,
    read_wishes,
)
from holdfast.serve.settings import ServerSettings

FIELDS = (*UNDERSTOOD, "prompt", "echo", "best_of")
DEFAULT_TOKENS = 16  # the protocol's own
Prompt = str | tuple[int, ...]


def read_completions(data: bytes, settings: ServerSettings) -> list[AnswerRequest]:
    """One request per prompt. Raises ProtocolError 400 for anything that is not understood."""
    body = read_object(data, FIELDS)
    echo = read_flag(body, "echo")
    wanted = DEFAULT_TOKENS if body.get("max_tokens") is None else body["max_tokens"]
    wishes = read_wishes(body, settings, wanted, least=0 if echo else 1)
    if body.get("best_of") not in (None, 1, wishes["num_answers"]):
        raise ProtocolError(400, "'best_of' is chosen by the server (--n)", "unsupported")
    wish = body.get("logprobs")  # 0 is a number: the tokens without alternatives
    logprobs = None if wish is None or wish is False else read_count(body, "logprobs", 0, (0, MAX_TOP))
    prompts = _read_prompts(body.get("prompt"))
    if len(prompts) * wishes["num_answers"] > settings.max_answers:
        raise ProtocolError(400, f"at most {settings.max_answers} answers a request: prompts times 'n'", "bad_value")
    return [
        AnswerRequest(
            (context("user", prompt),) if isinstance(prompt, str) else (),
            prompt=prompt,
            echo=echo,
            logprobs=logprobs,
            **wishes,
        )
        for prompt in prompts
    ]


def _read_prompts(prompt: Any) -> list[Prompt]:
    prompts = prompt if isinstance(prompt, list) and prompt and not _is_token(prompt[0]) else [prompt]
    return [_read_prompt(one) for one in prompts]


def _read_prompt(prompt: Any) -> Prompt:
    if isinstance(prompt, str) and prompt:
        check_text(prompt, "'prompt'")
        return prompt
    if isinstance(prompt, list) and prompt and all(_is_token(token) for token in prompt):
        return tuple(prompt)
    raise ProtocolError(400, "'prompt' must be a text, a list of tokens, or a list of either; none empty", "bad_value")


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def completion_body(request_id: str, model: str, answer: Answer) -> dict[str, Any]:
    """Choices in the order of the prompts; ``holdfast`` is ours, other clients pass over it."""
    choices = [
        {
            **_choice(choice.text, index, choice.finish_reason),
            "logprobs": None if choice.tokens is None else to_completion(choice.tokens),
            **({"holdfast": choice.verdict} if len(answer.choices) > 1 else {}),
        }
        for index, choice in enumerate(answer.choices)
    ]
    more = {"choices": choices, "usage": answer.usage, "holdfast": answer.verdict}
    return {**head(request_id, "text_completion", model), **more}


def completion_chunks(request_id: str, model: str, answer: Answer) -> Iterator[dict[str, Any]]:
    """The pieces of a judged answer; with log-probabilities the text is one piece."""

    def chunk(choice: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {**head(request_id, "text_completion", model), "choices": [choice], **more}

    for index, choice in enumerate(answer.choices):
        yield chunk(_choice("", index), holdfast=choice.verdict)
        if choice.tokens is not None:
            yield chunk({**_choice(choice.text, index), "logprobs": to_completion(choice.tokens)})
        else:
            for piece in pieces(choice.text):
                yield chunk(_choice(piece, index))
        yield chunk(_choice("", index, choice.finish_reason))


def _choice(text: str, index: int, finish_reason: str | None = None) -> dict[str, Any]:
    return {"text": text, "index": index, "finish_reason": finish_reason, "logprobs": None}
