"""Rewards: how good is a reply? One protocol and one registry, for best-of-n, the server and reinforcement learning."""

from __future__ import annotations

import ast
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from holdfast.config import InputError, nearest_or_all
from holdfast.config.arguments import fitting
from holdfast.config.plugins import look_up
from holdfast.judging.code import check_code, free_names
from holdfast.judging.extractors import Extractor, find_extractor, reference_answer
from holdfast.judging.judge import Judge, request_text, verdicts
from holdfast.judging.policy import code_of
from holdfast.judging.registry import find_judge
from holdfast.records import Reply

if TYPE_CHECKING:
    from holdfast.generation import EndpointSampler
    from holdfast.models import LoadedModel

KEY = "HOLDFAST_REWARD_KEY"
"""Environment variable with the key of a reward's endpoint, if it wants one."""
RATING = (
    "Rate how well the answer does what the request asks, from 0 (not at all) to 100 (perfectly). "
    "Reply with the number alone.\n\nRequest:\n{request}\n\nAnswer:\n{answer}"
)


@runtime_checkable
class Reward(Protocol):
    """A function of replies. A reply that it cannot score gets None: best-of-n never chooses it, and RL counts it as 0.

    A reward that reads ``Reply.mean_logp`` says so with ``needs_logps = True``: the server then asks its backends for it.
    One that can score nothing without ``Reply.reference`` says so with ``needs_references = True``: the server, whose requests
    have none, does not start with it.
    """

    def __call__(self, replies: Sequence[Reply], /) -> Sequence[float | None]:
        """One number for each reply, in order; more is better. The replies may be to different requests."""
        ...


def score_replies(reward: Reward, replies: Sequence[Reply]) -> list[float | None]:
    """The reward of each reply. A reply that never came has none, whatever its empty text would get.

    Raises ``InputError`` where the reward returns something else than one number for each reply.
    """
    name = getattr(reward, "__name__", type(reward).__name__)
    given: object = reward(replies)
    if not isinstance(given, Iterable) or isinstance(given, str | Mapping):
        raise InputError(f"reward {name}: expected a list with a number for each reply, got {type(given).__name__}")
    values = [
        fitting(f"reward {name}", f"[{index}]", value, "float | bool | None") for index, value in enumerate(given)
    ]
    if len(values) != len(replies):
        raise InputError(f"reward {name}: gave {len(values)} numbers for {len(replies)} replies")
    return [
        None if reply.finish_reason == "error" or value is None or math.isnan(value) else float(value)
        for reply, value in zip(replies, values, strict=True)
    ]


def all_alike(replies: Sequence[Reply]) -> list[float | None]:
    """0 for every reply, so that the first one that may be returned is."""
    return [0.0] * len(replies)


@dataclass(frozen=True)
class JudgeScore:
    """The score that a judge gives: for most judges how safe the reply is, from 0 to 1."""

    judge: Judge

    def __call__(self, replies: Sequence[Reply]) -> list[float | None]:
        """The judge's score of each reply; None where the judge cannot say."""
        return [verdict.score for verdict in verdicts(self.judge, [(reply.turns, reply.text) for reply in replies])]


@dataclass(frozen=True)
class EndpointReward:
    """A model behind an endpoint rates each reply from 0 to 100. An answer that is no such number is no reward."""

    sampler: EndpointSampler

    def __call__(self, replies: Sequence[Reply]) -> list[float | None]:
        """All replies at once, greedily."""
        questions = [RATING.format(request=request_text(reply.turns), answer=reply.text) for reply in replies]
        return [rating(completion.text) for completion in self.sampler(questions, max_new_tokens=8)]


def rating(text: str) -> float | None:
    """The number that a text begins with, as a share of 100."""
    match = re.match(r"\s*(\d+(?:\.\d+)?)", text)
    value = float(match.group(1)) if match else math.nan
    return value / 100 if 0 <= value <= 100 else None


@dataclass(frozen=True)
class FinalAnswer:
    """[004] §3.1: 1 if the reply ended by itself and its last answer is the reference's, else 0; None without a reference."""

    extract: Extractor
    needs_references = True

    def __call__(self, replies: Sequence[Reply]) -> list[float | None]:
        """Score each reply. Numbers are compared as numbers (``extractors``)."""
        return [float(self._right(reply)) if reply.reference else None for reply in replies]

    def _right(self, reply: Reply) -> bool:
        answers = [candidate.answer for candidate in self.extract(reply.text)]
        return reply.finish_reason == "stop" and answers[-1:] == [reference_answer(reply.reference, self.extract)]


class PassesTests:
    """1 if the reply's program passes the test in its ``reference``, else 0; None without a test. Runs in the sandbox.

    The test is assertions on a function of the program, or HumanEval's ``check(candidate)``, which is given the program's last
    function.
    """

    needs_references = True

    def __call__(self, replies: Sequence[Reply]) -> list[float | None]:
        """Run the programs one after the other."""
        return [_passes(code_of(reply.text), reply.reference) if reply.reference else None for reply in replies]


def _passes(program: str, test: str) -> float | None:
    names = free_names(test)
    try:
        functions = [part.name for part in ast.parse(program).body if isinstance(part, ast.FunctionDef)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0.0
    if not functions:
        return 0.0
    entry_point = next((name for name in names if name in functions), functions[-1])
    return check_code(program, test, entry_point).score


Maker = Callable[[str, "LoadedModel | None"], Reward]
"""(what stands behind the colon of the name, the model whose replies are scored if it runs in this process) -> the reward."""


def _likelihood(_option: str, model: LoadedModel | None) -> Reward:
    from holdfast.judging.likelihood import Likelihood

    return Likelihood(model)


def _learned(folder: str, _model: LoadedModel | None) -> Reward:
    from holdfast.judging.learned_reward import LearnedReward

    if not folder:
        raise InputError("reward 'learned': expected learned:FOLDER; `holdfast oversee fit-reward` makes such a folder")
    return LearnedReward.load(Path(folder))


def _endpoint(option: str, _model: LoadedModel | None) -> Reward:
    from holdfast.generation import EndpointSampler

    model, _, url = option.rpartition("@")
    if not (model and url):
        raise InputError(f"reward 'endpoint:{option}': expected endpoint:MODEL@URL")
    return EndpointReward(EndpointSampler(url, model, key=os.environ.get(KEY)))


REWARDS: dict[str, Maker] = {
    "none": lambda _option, _model: all_alike,
    "likelihood": _likelihood,
    "learned": _learned,
    "endpoint": _endpoint,
    "judge": lambda judge, _model: JudgeScore(find_judge(judge)),
    "answer": lambda extractor, _model: FinalAnswer(find_extractor(extractor or "number")),
    "tests": lambda _option, _model: PassesTests(),
}
"""Rewards by name; your own may join them. ``NAME:OPTION`` gives the part behind the colon to the maker."""


def find_reward(name: str, model: LoadedModel | None = None) -> Reward:
    """The reward of that name: ``none``, ``likelihood``, ``learned:FOLDER``, ``endpoint:MODEL@URL``, ``judge:JUDGE``,
    ``answer:EXTRACTOR``, ``tests``, or one that a file or a plugin has registered.

    ``model``: the one whose replies are scored, if it runs in this process. Raises ``InputError`` for an unknown name.
    """
    kind, _, option = name.partition(":")
    make = look_up(REWARDS, kind)
    if make is None:
        raise InputError(f"reward '{name}': no such reward{nearest_or_all(kind, REWARDS)}")
    reward = make(option, model)
    if not callable(reward):
        raise InputError(f"reward '{name}': {type(reward).__name__} is no function of replies")
    return reward
