"""Best-of-n over many prompts with any sampler: draw n, judge all, reward all, return the best safe one of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.config import InputError
from holdfast.generation import ModelSampler, Progress, Prompt, Sampler
from holdfast.generation.conversations import turns_of
from holdfast.judging import Judge, find_judge, verdicts
from holdfast.models import LoadedModel, as_loaded
from holdfast.oversight.rewards import TextReward, find_reward
from holdfast.oversight.selection import Selection, never_empty, select, select_soft
from holdfast.records import Completion, Verdict

UNJUDGED = Verdict(None, None, "no judge", "none")


@dataclass(frozen=True)
class Overseen:
    """All candidates for one prompt, what was thought of them, and which one is returned."""

    candidates: tuple[Completion, ...]
    verdicts: tuple[Verdict, ...]
    rewards: tuple[float | None, ...]
    selection: Selection

    @property
    def text(self) -> str | None:
        """What is returned; None for an abstention."""
        return None if self.selection.index is None else self.candidates[self.selection.index].text

    def row(self) -> dict[str, Any]:
        """For `--json`. Candidates that are not safe are shown by verdict only."""
        return {
            "prompt": self.candidates[0].prompt,
            "text": self.text,
            "index": self.selection.index,
            "reason": self.selection.reason,
            "rewards": list(self.rewards),
            "verdicts": [{"safe": v.safe, "reason": v.reason, "judge": v.judge} for v in self.verdicts],
        }


def best_of(
    model: str | LoadedModel | object,
    prompts: str | Sequence[Prompt],
    *,
    n: int = 8,
    judge: str | Judge | None = None,
    reward: str | TextReward | None = "likelihood",
    max_new_tokens: int = 256,
    temperature: float = 0.8,
    top_p: float = 1.0,
    seed: int = 0,
    soft: float | None = None,
    batch_size: int = 64,
    on_progress: Progress | None = None,
) -> list[Overseen]:
    """Draw ``n`` answers to each prompt and return the best one that the judge calls safe, or none.

    ``model``: a name, a path, a loaded model or a finished run. ``judge``: a judge or its name; without one nothing is judged
    and nothing is called safe. ``reward``: a reward or its name. ``Overseen.text`` is None for an abstention.
    """
    loaded = as_loaded(model)
    return answer_overseen(
        ModelSampler(loaded, batch_size),
        [prompts] if isinstance(prompts, str) else list(prompts),
        find_judge(judge) if isinstance(judge, str) else judge,
        find_reward(reward, loaded) if isinstance(reward, str) else reward,
        n=n,
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
    reward: TextReward | None,
    *,
    n: int,
    max_new_tokens: int,
    temperature: float,
    top_p: float = 1.0,
    seed: int = 0,
    soft: float | None = None,
    on_progress: Progress | None = None,
) -> list[Overseen]:
    """One per prompt. Without a judge every candidate may be returned; without a reward the first one that may, is.

    ``soft``: the temperature of ``select_soft``, which draws among the safe ones instead of taking the best.
    """
    if n > 1 and temperature == 0:
        raise InputError("best-of-n: at temperature 0 all candidates are the same; give --temperature")
    repeated = [prompt for prompt in prompts for _ in range(n)]
    drawn = sampler(
        repeated,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        on_progress=on_progress,
    )
    return [
        _overseen(prompt, drawn[place * n : (place + 1) * n], judge, reward, soft, seed + place)
        for place, prompt in enumerate(prompts)
    ]


def _overseen(
    prompt: Prompt,
    drawn: Sequence[Completion],
    judge: Judge | None,
    reward: TextReward | None,
    soft: float | None,
    seed: int,
) -> Overseen:
    """An answer that never came is no candidate: it has no verdict and no reward, whatever its empty text would get."""
    texts = [completion.text for completion in drawn]
    came = [completion.finish_reason != "error" for completion in drawn]
    turns = turns_of(prompt)
    said = never_empty(texts, verdicts(judge, [(turns, text) for text in texts])) if judge else [UNJUDGED] * len(texts)
    said = [
        verdict if here else Verdict(None, None, "the answer never came", verdict.judge)
        for here, verdict in zip(came, said, strict=True)
    ]
    values = reward(turns, texts) if reward else [0.0] * len(texts)
    rewards = [value if here else None for here, value in zip(came, values, strict=True)]
    judged = judge is not None
    chosen = (
        select(texts, rewards, said, judged=judged)
        if soft is None
        else select_soft(texts, rewards, said, temperature=soft, seed=seed, judged=judged)
    )
    return Overseen(tuple(drawn), tuple(said), tuple(rewards), chosen)
