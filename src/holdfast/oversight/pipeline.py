"""Best-of-n: draw n, judge all, reward all, return the best safe one or none. Commands, server and studies share it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.config import InputError
from holdfast.config.arguments import checked
from holdfast.generation import Prompt, listed_prompts, turns_of
from holdfast.judging import Judge, Reward, find_judge, find_reward, request_text, score_replies, verdicts
from holdfast.oversight.selection import NEVER_CAME, Selection, never_empty, select, select_soft
from holdfast.records import Outcome, Reply, Trace, Verdict

if TYPE_CHECKING:
    from holdfast.generation import Progress, Sampler
    from holdfast.models import LoadedModel

UNJUDGED = Verdict(None, None, "no judge", "none")
T = TypeVar("T")


@dataclass(frozen=True)
class Overseen:
    """All candidates for one prompt, with verdicts and rewards, and which one is returned."""

    candidates: tuple[Reply, ...]
    verdicts: tuple[Verdict, ...]
    rewards: tuple[float | None, ...]
    selection: Selection

    @property
    def text(self) -> str | None:
        """What is returned; None for an abstention."""
        return None if self.selection.index is None else self.candidates[self.selection.index].text

    @property
    def outcome(self) -> Outcome | None:
        """What the returned answer did with the request; None for an abstention, and where the judge does not tell outcomes."""
        return None if self.selection.index is None else self.verdicts[self.selection.index].outcome

    @property
    def outcomes(self) -> dict[str, int]:
        """How many candidates had each outcome; empty where the judge does not tell outcomes."""
        return dict(Counter(verdict.outcome for verdict in self.verdicts if verdict.outcome is not None))

    def __repr__(self) -> str:
        """What is returned, and why; the candidates are in the fields."""
        return f"Overseen(text={self.text!r}, reason={self.selection.reason!r})"

    def row(self) -> dict[str, Any]:
        """The fields for `--json`. Candidates that are not returned are shown by verdict only."""
        return {
            "prompt": request_text(self.candidates[0].turns) or self.candidates[0].turns[-1].visible,
            "text": self.text,
            "index": self.selection.index,
            "reason": self.selection.reason,
            "outcome": self.outcome,
            "rewards": list(self.rewards),
            "verdicts": [
                {"safe": v.safe, "outcome": v.outcome, "reason": v.reason, "judge": v.judge} for v in self.verdicts
            ],
        }


@dataclass(frozen=True)
class Pipeline:
    """What happens to candidates once they are drawn. Judge and reward may wait, as they do in a server.

    ``judged=False``: there is no judge, so every candidate may be returned and none is called safe. ``soft``: the temperature
    of ``select_soft``. ``reward_may_fail``: without rewards the first candidate that may be returned is; the reason says so.
    """

    judge: Callable[[Sequence[Reply]], Awaitable[Sequence[Verdict]]]
    reward: Callable[[Sequence[Reply]], Awaitable[Sequence[float | None]]]
    judged: bool = True
    soft: float | None = None
    reward_may_fail: bool = False

    async def choose(self, groups: Sequence[Sequence[Reply]], *, seed: int = 0) -> list[Overseen]:
        """The best safe candidate of each group, or an abstention. All groups are judged and rewarded together."""
        replies = [reply for group in groups for reply in group]
        said, note = await self.judge(replies), ""
        try:
            rewards = await self.reward(replies)
        except Exception as error:
            if not self.reward_may_fail:
                raise
            rewards, note = [0.0] * len(replies), f"; the reward failed: {type(error).__name__}"
        ends = [sum(map(len, groups[: number + 1])) for number in range(len(groups))]
        parts = [slice(end - len(group), end) for group, end in zip(groups, ends, strict=True)]
        return [
            self._selected(tuple(group), tuple(said[part]), tuple(rewards[part]), seed + number, note)
            for number, (group, part) in enumerate(zip(groups, parts, strict=True))
        ]

    def _selected(
        self,
        group: tuple[Reply, ...],
        said: tuple[Verdict, ...],
        rewards: tuple[float | None, ...],
        seed: int,
        note: str,
    ) -> Overseen:
        if self.soft is None:
            chosen = select(group, rewards, said, judged=self.judged)
        else:
            chosen = select_soft(group, rewards, said, temperature=self.soft, seed=seed, judged=self.judged)
        return Overseen(group, said, rewards, chosen._replace(reason=chosen.reason + note))


@checked("best_of")
def best_of(
    model: str | LoadedModel | object,
    prompts: str | Iterable[Prompt],
    *,
    n: int = 8,
    judge: str | Judge | None = None,
    reward: str | Reward | None = "likelihood",
    references: Sequence[str] | None = None,
    max_new_tokens: int = 256,
    temperature: float = 0.8,
    top_p: float = 1.0,
    seed: int = 0,
    soft: float | None = None,
    batch_size: int = 64,
    on_progress: Progress | None = None,
) -> list[Overseen]:
    """Draw ``n`` answers to each prompt and return the best one that the judge calls safe, or none.

    ``model``: a name, a path, a loaded model or a finished run.
    ``judge``: a judge or its name; without one nothing is judged and nothing is called safe.
    ``reward``: a reward or its name.
    ``references``: the right answer to each prompt, or the test of its program, for rewards that read one.

    ``Overseen.text`` is None for an abstention. Where a conversation ends in an assistant turn the model goes on from it: the
    text is what it adds, and judge and reward read the whole answer.
    """
    from holdfast.generation import ModelSampler
    from holdfast.models import as_loaded

    if not isinstance(judge, str | Judge | None):
        raise InputError(f"best_of: judge: expected a name or a holdfast.judging.Judge, got a {type(judge).__name__}")
    if isinstance(judge, type):
        raise InputError(f"best_of: judge: expected a name or a judge, got a class; write {judge.__name__}()")
    if not isinstance(reward, str | None) and not callable(reward):
        raise InputError(f"best_of: reward: expected a name or a function of replies, got a {type(reward).__name__}")
    loaded = as_loaded(model)
    return answer_overseen(
        ModelSampler(loaded, batch_size),
        listed_prompts(prompts),
        find_judge(judge) if isinstance(judge, str) else judge,
        find_reward(reward or "none", loaded) if reward is None or isinstance(reward, str) else reward,
        n=n,
        references=references,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        soft=soft,
        on_progress=on_progress,
    )


def answer_overseen(
    sampler: Sampler,
    prompts: Sequence[Prompt],
    judge: Judge | None,
    reward: Reward | None,
    *,
    n: int,
    max_new_tokens: int,
    temperature: float,
    references: Sequence[str] | None = None,
    top_p: float = 1.0,
    seed: int = 0,
    soft: float | None = None,
    on_progress: Progress | None = None,
) -> list[Overseen]:
    """``best_of`` with any sampler. Without a judge every candidate may be returned; without a reward the first that may, is."""
    if n < 1:
        raise InputError(f"best-of-n: expected n of at least 1, not {n}")
    if n > 1 and temperature == 0:
        raise InputError("best-of-n: at temperature 0 all candidates are the same; choose one above 0")
    if references is not None and len(references) != len(prompts):
        raise InputError(f"best-of-n: {len(references)} references for {len(prompts)} prompts")
    known = [_reference(prompt) for prompt in prompts] if references is None else references
    if prompts and getattr(reward, "needs_references", False) and not any(known):
        raise InputError(
            "best-of-n: this reward reads the right answer, or the test, and no request has one: give them with references="
        )
    drawn = sampler(
        [prompt for prompt in prompts for _ in range(n)],
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        on_progress=on_progress,
    )
    groups = [
        [
            Reply(turns_of(prompt), c.text, c.finish_reason, known[index], c.logp)
            for c in drawn[index * n : (index + 1) * n]
        ]
        for index, prompt in enumerate(prompts)
    ]
    scored = reward or find_reward("none")

    async def judged(replies: Sequence[Reply]) -> list[Verdict]:
        return _verdicts(judge, replies, _whole(replies, sampler))

    async def rewarded(replies: Sequence[Reply]) -> list[float | None]:
        return score_replies(scored, _whole(replies, sampler))

    return _at_once(Pipeline(judged, rewarded, judge is not None, soft).choose(groups, seed=seed))


def _whole(replies: Sequence[Reply], sampler: Sampler) -> list[Reply]:
    """What a judge and a reward read: an answer that the prompt has begun belongs to the request with its beginning."""
    if all(reply.turns[-1].speaker != "assistant" for reply in replies):
        return list(replies)
    from holdfast.tokens import Encoder

    loaded: LoadedModel | None = getattr(sampler, "loaded", None)
    joined = str.__add__ if loaded is None else Encoder(loaded.tokenizer).joined
    return [
        replace(reply, turns=reply.turns[:-1], text=joined(reply.turns[-1].visible, reply.text))
        if reply.turns[-1].speaker == "assistant" and len(reply.turns) > 1
        else reply
        for reply in replies
    ]


def _verdicts(judge: Judge | None, replies: Sequence[Reply], whole: Sequence[Reply]) -> list[Verdict]:
    """The judge's verdicts on the ``whole`` answers. One that never came has none, whatever its empty text would get."""
    said = [UNJUDGED] * len(replies)
    if judge is not None:
        said = never_empty([r.text for r in replies], verdicts(judge, [(r.turns, r.text) for r in whole]))
    return [
        Verdict(None, None, NEVER_CAME, verdict.judge) if reply.finish_reason == "error" else verdict
        for reply, verdict in zip(replies, said, strict=True)
    ]


def _reference(prompt: Prompt) -> str:
    """The answer that a row of data gives to its request."""
    if not isinstance(prompt, Trace):
        return ""
    return next((turn.visible for turn in prompt.turns[len(prompt.prompt) :] if turn.is_target), "")


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits. Unlike ``asyncio.run`` this also works inside a notebook's event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise RuntimeError("a judge or a reward of a command may not wait for the event loop")
