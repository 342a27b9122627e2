"""Decoding with ``<UNDO>`` on a server that speaks vLLM's completions protocol, which knows nothing of undo.

The server stops at an undo and is asked to go on: in soft context from all that was written, in hard context from the prefix
that is left. That prefix is in its cache, so a restart costs no second reading. In hard context the token after an undo still
sees it (MATH §4), so it is asked for alone, behind the undo; then the undo is gone.

Prompts are sent as token ids and answers read as token ids (``return_token_ids``): text would not come back as the same tokens.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from holdfast.config import InputError
from holdfast.generation.answers import Answer
from holdfast.generation.backtracking import UndoDecoding
from holdfast.generation.conversations import completion, ids_to_continue, known_stops
from holdfast.generation.endpoint import EndpointSampler, FailedError, run_to_end
from holdfast.generation.prompts import Prompt, turns_of
from holdfast.records import Completion, Turn
from holdfast.tokens import UNDO_TOKEN, find_undo_id

if TYPE_CHECKING:
    import httpx
    from transformers import PreTrainedTokenizerBase

NEVER = -100.0
"""A bias that keeps a token from being chosen (OpenAI's and vLLM's lowest)."""


@dataclass(frozen=True)
class RemoteUndo:
    """A server with a tokenizer of the same model here. ``stops`` end an answer, as in the model's generation config."""

    server: EndpointSampler
    tokenizer: PreTrainedTokenizerBase
    stops: tuple[int, ...]
    how: UndoDecoding

    def __call__(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """One completion per prompt, in order: its text is what is left, its ids are all that was written.

        An answer that never came, or broke off, has no text and the ``finish_reason`` 'error'; where that is all of them, it
        is an ``InputError``.
        """
        undo_id = find_undo_id(self.tokenizer)
        if undo_id is None:
            raise InputError(f"this tokenizer's vocabulary has no {UNDO_TOKEN}: decode plainly, without --undo")
        conversations = [turns_of(prompt) for prompt in prompts]
        ids = [ids_to_continue(turns, self.tokenizer) for turns in conversations]
        faults: Counter[str] = Counter()
        written = run_to_end(self._all(ids, undo_id, faults))
        self.server.tell_faults(faults, len(prompts))
        return [self._completion(turns, row) for turns, row in zip(conversations, written, strict=True)]

    def _completion(self, turns: tuple[Turn, ...], written: list[int] | None) -> Completion:
        answer = completion(turns, written or [], self.stops, self.tokenizer)
        return replace(answer, finish_reason="error") if written is None else answer

    async def _all(self, prompts: Sequence[list[int]], undo_id: int, faults: Counter[str]) -> list[list[int] | None]:
        """What was written after each prompt; None where the server failed for good, which is counted in ``faults``."""
        free = asyncio.Semaphore(self.server.concurrency)
        async with self.server.client() as client:

            async def one(prompt: list[int]) -> list[int] | None:
                async with free:
                    try:
                        return await self._answer(client, prompt, undo_id)
                    except FailedError as error:
                        faults[str(error)] += 1
                        return None

            return await asyncio.gather(*map(one, prompts))

    async def _answer(self, client: httpx.AsyncClient, prompt: list[int], undo_id: int) -> list[int]:
        answer = Answer(undo_id, self.how.limits)
        while len(answer.written) < self.how.max_new_tokens:
            tokens, ended = await self._tokens(client, prompt, answer, undo_id)
            for token in tokens:
                answer.end(token) if token in self.stops else answer.write(token)
            if ended:
                break
        return answer.written

    async def _tokens(
        self, client: httpx.AsyncClient, prompt: list[int], answer: Answer, undo_id: int
    ) -> tuple[list[int], bool]:
        """Up to and with the next undo or end. One token alone behind an undo in hard context, and where some are barred."""
        is_hard = self.how.context == "hard"
        shown = answer.visible if is_hard else answer.written
        follows_undo = answer.written[-1:] == [undo_id]
        barred = answer.barred()
        left = self.how.max_new_tokens - len(answer.written)
        body: dict[str, Any] = {
            "model": self.server.model,
            "prompt": [*prompt, *shown, *([undo_id] if is_hard and follows_undo else [])],
            "max_tokens": 1 if (is_hard and follows_undo) or barred else left,
            "temperature": self.how.temperature,
            "top_p": self.how.top_p,
            "seed": self.how.seed + len(answer.written),  # a restart under the same seed would draw the same again
            "stop_token_ids": [*self.stops, undo_id],
            "return_token_ids": True,
            "skip_special_tokens": False,
            "add_special_tokens": False,
        }
        if barred:
            body["logit_bias"] = {str(token): NEVER for token in barred}
        choice = await self.server.ask(body, client=client, path="completions", read=_read_choice)
        tokens = _with_stop(choice, [*self.stops, undo_id])
        is_over = choice.get("finish_reason") == "stop" and tokens[-1:] != [undo_id]
        return tokens, is_over or not tokens


def _read_choice(content: Any) -> dict[str, Any]:
    choice: dict[str, Any] = content["choices"][0]
    if not isinstance(choice.get("token_ids"), list):
        raise InputError("this server gives no token ids back (return_token_ids): undo needs vLLM 0.10.2 or newer")
    return choice


def _with_stop(choice: dict[str, Any], stops: Sequence[int]) -> list[int]:
    """The tokens, with the one that ended them: a server may leave it out and name it as ``stop_reason``."""
    tokens: list[int] = choice["token_ids"]
    reason = choice.get("stop_reason")
    if (
        choice.get("finish_reason") == "stop"
        and isinstance(reason, int)
        and tokens[-1:] != [reason]
        and reason in stops
    ):
        return [*tokens, reason]
    return tokens


def stops_of(model: str, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """The tokens that end a text, by the model's generation config where there is one, and its tokenizer."""
    from transformers import GenerationConfig

    try:
        config = GenerationConfig.from_pretrained(model)
    except (OSError, ValueError):  # a tokenizer alone
        config = None
    stops = known_stops(config, tokenizer)
    if not stops:
        raise InputError(f"{model}: does not say which token ends a text (eos_token_id)")
    return tuple(stops)
