"""Answers from any OpenAI-compatible server (vLLM, llama.cpp, a provider): many at a time, patient with faults.

A request that fails for good becomes a completion with ``finish_reason`` 'error' and no text. It is the caller's to count;
nobody may take it for a refusal.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from holdfast.config import InputError
from holdfast.config.extras import need_extra
from holdfast.generation.prompts import Prompt, request_of, turns_of
from holdfast.records import Completion, FinishReason, Turn, chat_arguments, chat_messages

if TYPE_CHECKING:
    import httpx

    from holdfast.generation.sampler import Progress

T = TypeVar("T")
_Answer = tuple[str, FinishReason, float | None]
"""Text, why it ended, and the mean log-probability of its tokens where that was asked for."""
SCHEMES = ("http", "https")
WRONG_FOR_ALL = {401: "the key is refused", 403: "the key is refused", 404: "no such model or path"}
LONGEST_WAIT = 60.0


def is_endpoint(name: str) -> bool:
    """Whether a model's name is the address of a server."""
    return urlsplit(name).scheme in SCHEMES


def check_address(url: str) -> None:
    """Raise ``InputError`` for an address with a password or a query: it is shown in logs, tables and metrics."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise InputError("endpoint: expected an address such as http://host:8000/v1")
    if parts.username or parts.password or parts.query:
        raise InputError(
            "endpoint: the address must not carry a user, a password or a query: keys come from the environment"
        )


def _say_nothing(_line: str) -> None:
    """For callers who count the errors themselves."""


class NoAnswerError(InputError):
    """Not one answer came: the server is down, or too slow."""


class FailedError(Exception):
    """This answer did not come. ``again``: another try may bring it, after ``wait`` seconds if the server says so."""

    def __init__(self, reason: str, *, again: bool, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.again, self.wait = again, wait


@dataclass(frozen=True)
class EndpointSampler:
    """``url`` is the part before ``/chat/completions``, such as http://host:8000/v1. The key is sent, never shown."""

    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    concurrency: int = 16
    timeout: float = 120.0  # seconds without an answer
    num_tries: int = 5
    first_wait: float = 0.5  # seconds before the second try; doubles
    say: Callable[[str], None] = _say_nothing  # gets a line about answers that never came
    goes_on: bool = True  # from a last assistant turn; a guard model judges that turn instead
    takes_text: bool = False  # a document is gone on with at /completions; else it is refused
    logprobs: bool = False  # ask how likely every answer was, too

    def __post_init__(self) -> None:
        need_extra("serve", "an endpoint", "httpx")
        check_address(self.url)

    @property
    def name(self) -> str:
        """The model, and who serves it."""
        return f"{self.model} at {self.url}"

    def __call__(
        self,
        prompts: Sequence[Prompt],
        *,
        max_new_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        on_progress: Progress | None = None,
    ) -> list[Completion]:
        """All answers; an ``InputError`` where not one came, or where the server says that no request can succeed."""
        settings = {"max_tokens": max_new_tokens, "temperature": temperature, "top_p": top_p, "seed": seed}
        settings |= {"logprobs": True} if self.logprobs else {}
        conversations = [turns_of(prompt) for prompt in prompts]
        groups = _repeated(conversations) if temperature > 0 else [(turns, 1) for turns in conversations]
        bodies = [
            {"model": self.model, **settings, **self._body_of(turns), **({"n": num} if num > 1 else {})}
            for turns, num in groups
        ]
        faults: Counter[str] = Counter()
        completions = run_to_end(self._ask_all(bodies, [turns for turns, _ in groups], faults, on_progress))
        self.tell_faults(faults, len(prompts))
        return completions

    def tell_faults(self, faults: Counter[str], num_asked: int) -> None:
        """Say how many answers never came, by reason. Raises ``NoAnswerError`` where none came."""
        if not faults:
            return
        reasons = ", ".join(f"{reason} ({count})" for reason, count in faults.most_common(3))
        if faults.total() == num_asked:
            raise NoAnswerError(f"{self.url}: not one of {num_asked} answers came: {reasons}")
        self.say(f"{self.url}: {faults.total()} of {num_asked} answers never came: {reasons}")

    def _body_of(self, turns: tuple[Turn, ...]) -> dict[str, Any]:
        if self.takes_text and turns[-1].speaker == "text":
            return {"prompt": turns[-1].visible}
        return _conversation(turns, self.goes_on)

    def client(self) -> httpx.AsyncClient:
        """A connection pool with the key and the limits of this sampler."""
        import httpx

        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        limits = httpx.Limits(max_connections=self.concurrency)
        return httpx.AsyncClient(headers=headers, timeout=self.timeout, limits=limits)

    async def _ask_all(
        self,
        bodies: Sequence[dict[str, Any]],
        conversations: Sequence[tuple[Turn, ...]],
        faults: Counter[str],
        on_progress: Progress | None,
    ) -> list[Completion]:
        free = asyncio.Semaphore(self.concurrency)
        done, total = 0, sum(body.get("n", 1) for body in bodies)

        async def ask(index: int) -> list[Completion]:
            nonlocal done
            request, num = request_of(conversations[index]), bodies[index].get("n", 1)
            async with free:
                answers = await self._answers(client, bodies[index], num, faults)
            done += num
            if on_progress is not None:
                on_progress(done, total)
            return [Completion(request, text, finish_reason=reason, logp=logp) for text, reason, logp in answers]

        async with self.client() as client:
            tasks = [asyncio.create_task(ask(index)) for index in range(len(bodies))]
            try:
                return [completion for group in await asyncio.gather(*tasks) for completion in group]
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _answers(
        self, client: httpx.AsyncClient, body: dict[str, Any], num: int, faults: Counter[str]
    ) -> list[_Answer]:
        """``num`` answers to one request. A server that knows no ``n`` is asked for the rest, each under a seed of its own."""
        answers: list[_Answer] = []
        path = "completions" if "prompt" in body else "chat/completions"
        try:
            while len(answers) < num:
                again = {"seed": body["seed"] + len(answers), "n": num - len(answers)} if answers else {}
                answered = await self.ask({**body, **again}, client=client, path=path, read=_read_answers)
                answers += answered[: num - len(answers)]
        except FailedError as error:
            faults[str(error)] += num - len(answers)
            answers += [("", "error", None)] * (num - len(answers))
        return answers

    async def ask(
        self,
        body: dict[str, Any],
        *,
        client: httpx.AsyncClient,
        path: str,
        read: Callable[[Any], T],
    ) -> T:
        """Try until it comes, until trying is useless, or until ``num_tries`` are spent. ``read`` takes it out of the reply."""
        for attempt in range(self.num_tries):
            try:
                return await self._try(client, body, path, read)
            except FailedError as error:
                if not error.again or attempt + 1 == self.num_tries:
                    raise
                backoff = self.first_wait * 2**attempt * random.uniform(0.5, 1.0)  # apart, or all come back at once
                await asyncio.sleep(min(max(backoff, error.wait), LONGEST_WAIT))
        raise AssertionError("num_tries is at least 1")

    async def _try(self, client: httpx.AsyncClient, body: dict[str, Any], path: str, read: Callable[[Any], T]) -> T:
        import httpx

        try:
            response = await client.post(f"{self.url.rstrip('/')}/{path}", json=body)
        except httpx.TimeoutException:
            raise FailedError("timeout", again=True) from None
        except httpx.HTTPError as error:
            raise FailedError(type(error).__name__, again=True) from None
        status = response.status_code
        if status in WRONG_FOR_ALL:
            raise InputError(f"{self.url}: HTTP {status} for model '{self.model}': {WRONG_FOR_ALL[status]}")
        if status != 200:
            wait = response.headers.get("retry-after", "")
            raise FailedError(
                f"HTTP {status}", again=status in (408, 429) or status >= 500, wait=float(wait) if wait.isdigit() else 0
            )
        try:
            return read(response.json())
        except (ValueError, LookupError, TypeError, AttributeError):
            raise FailedError("not the protocol's answer", again=True) from None


def _conversation(turns: tuple[Turn, ...], goes_on: bool) -> dict[str, Any]:
    """Messages; an answer already begun is gone on with (vLLM's way of asking for that)."""
    if turns[-1].speaker == "text":
        raise InputError("an endpoint answers conversations, not documents: give a prompt with a user turn")
    messages = chat_messages(turns)
    for call in (call["function"] for message in messages for call in message.get("tool_calls", ())):
        call["arguments"] = json.dumps(call["arguments"], ensure_ascii=False)  # the protocol has them as text
    body = {"messages": messages, **chat_arguments(turns)}
    if turns[-1].speaker != "assistant" or not goes_on:
        return body
    return {**body, "continue_final_message": True, "add_generation_prompt": False}


def _repeated(conversations: Sequence[tuple[Turn, ...]]) -> list[tuple[tuple[Turn, ...], int]]:
    """Conversations that follow each other and are the same, counted: one request for all, or a seed would draw one thrice."""
    return [(turns, len(list(same))) for turns, same in groupby(conversations)]


def _read_answers(content: Any) -> list[_Answer]:
    """The answers in order. Where a server puts a refusal into a field of its own, the text is that refusal."""
    answers = [_read_choice(choice) for choice in sorted(content["choices"], key=lambda choice: choice.get("index", 0))]
    if not answers:
        raise LookupError("no choices")
    return answers


def _read_choice(choice: Any) -> _Answer:
    message = choice["message"] if "message" in choice else {"content": choice["text"]}
    text = message.get("content") or message.get("refusal") or ""
    if not isinstance(text, str):
        raise TypeError("expected text")
    text = text.encode(errors="replace").decode()  # JSON can carry half a character, which no file can
    tokens = (choice.get("logprobs") or {}).get("content")
    logp = float(sum(token["logprob"] for token in tokens)) / len(tokens) if tokens else None
    return text, "length" if choice.get("finish_reason") == "length" else "stop", logp


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """asyncio.run, and in a thread of its own where a loop is running already: in a notebook, for one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
