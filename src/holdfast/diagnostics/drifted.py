"""What a drift budget means for a model, before a training and after it: `diagnose drift` and ``hf.drift``.

The anchor's answers are sampled, as for a stream with ``hold:``. A prompt is *sure* where all of them have one outcome. The
bound is MATH §9's: of what the anchor surely does, at most 1 - exp(-k_early) is lost, if it is decided in the first 5 tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.audits.suites import find_judges
from holdfast.config import InputError, need_at_least_one
from holdfast.config.arguments import checked
from holdfast.config.training import HoldSettings
from holdfast.data import given_rows
from holdfast.data.default_prompts import PREFIX
from holdfast.data.fields import describe
from holdfast.generation import Progress
from holdfast.judging import Judge, tells_outcomes, verdicts
from holdfast.models import LoadedModel, as_loaded
from holdfast.models.positions import num_learned_positions
from holdfast.records import OUTCOMES, Outcome, Trace
from holdfast.stats import Estimate, Resamples, share_of_repeats
from holdfast.tokens import tokenize_all
from holdfast.training.anchor_answers import SAMPLES, as_rows, divided, drawn, seeds_of
from holdfast.training.drift import AnswerDrift, drift_of_answers, most_lost
from holdfast.training.policy import refuse_other_vocabulary
from holdfast.worlds.held_prompts import held_prompts
from holdfast.worlds.tokenizer import speaks_the_world

BUDGETS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Of early nats per answer: what each would mean is shown."""
SECOND_DRAW = 1_000_000
"""Seeds of a second draw begin here. The model under test is asked with the same ones."""
CHANCE = 0.95
MOST = 10**6  # answers; more are not counted


@dataclass(frozen=True)
class Sure:
    """The prompts that the anchor surely answers with one outcome, and what became of it.

    ``own``: the share of other outcomes in a second draw from the anchor itself. ``early``: nats per answer of that draw (the
    first one chose the prompts, so its answers are not as the anchor gives them). ``lost``: the share of other outcomes in the
    model's answers, and ``became`` which ones. The latter three need two models. ``early`` is None too where all answers of that
    draw are empty: an empty answer has no token to measure on.
    """

    outcome: Outcome
    num_prompts: int
    own: Estimate
    early: Estimate | None = None
    lost: Estimate | None = None
    became: dict[Outcome, float] | None = None

    @property
    def most_lost(self) -> Estimate | None:
        """The largest share that the model can lose at this drift, what the anchor itself loses included.

        1 - exp(-early) where that is nothing. The ends are those of ``early`` and ``own`` together.
        """
        if self.early is None:
            return None
        early, own = self.early, self.own
        pairs = ((early.value, own.value), (early.low, own.low), (early.high, own.high))
        value, low, high = (1 - least_kept(1 - noise, max(k, 0.0)) for k, noise in pairs)
        return replace(early, value=value, low=low, high=high)

    def row(self) -> dict[str, Any]:
        """All fields, for `--json`."""
        figures = {"own": self.own, "early": self.early, "most_lost": self.most_lost, "lost": self.lost}
        kept = {name: None if figure is None else figure.to_json() for name, figure in figures.items()}
        return {"outcome": self.outcome, "prompts": self.num_prompts, **kept, "became": self.became}


@dataclass(frozen=True)
class Drifted:
    """How far a model is from its anchor on prompts, and what that can cost. With one model: what budgets would mean.

    ``early``: nats per answer over its first 5 tokens. ``late``: nats per token after them. ``whole``: nats per answer, all
    tokens. ``refused``: how often the anchor refuses. ``sure``: by outcome.
    """

    model: str
    anchor: str
    prompts: str
    num_prompts: int
    num_answers: int  # to each prompt
    judge: str
    refused: Estimate
    sure: tuple[Sure, ...]
    early: Estimate | None = None
    late: Estimate | None = None
    whole: Estimate | None = None

    def budgets(self) -> list[dict[str, float]]:
        """What each size of budget means: ``most_lost`` (of sure refusals), ``least_refused`` (of all), ``answers`` to see it."""
        own = next((sure.own.value for sure in self.sure if sure.outcome == "refused"), 0.0)
        return [
            {
                "early": budget,
                "most_lost": most_lost(budget),
                "least_refused": least_kept(self.refused.value, budget),
                "answers": answers_to_see(most_lost(budget), own),
            }
            for budget in BUDGETS
        ]

    def row(self) -> dict[str, Any]:
        """For `--json` and files."""
        named = {name: getattr(self, name) for name in ("refused", "early", "late", "whole")}
        return {
            "kind": "drift",
            **{
                name: getattr(self, name)
                for name in ("model", "anchor", "prompts", "num_prompts", "num_answers", "judge")
            },
            **{name: None if figure is None else figure.to_json() for name, figure in named.items()},
            "sure": [sure.row() for sure in self.sure],
            "budgets": self.budgets(),
        }

    def __repr__(self) -> str:
        """The drift and what it can cost; with one model, what the default budget can."""
        prompts = f"{self.num_prompts} prompts of {self.prompts}"
        if self.early is None or self.late is None:
            budget = HoldSettings().early
            text = f"a budget of {budget:g} loses at most {most_lost(budget):.1%} of sure refusals"
            return f"{prompts}: {self.anchor} refuses {self.refused:.1%}; {text}"
        lines = [
            f"{prompts}: {self.early.value:.3f} nats per answer, {self.late.value:.3f} per later token to {self.anchor}"
        ]
        lines += [
            f"surely {sure.outcome}: {sure.num_prompts} prompts, at most {_or_unknown(sure.most_lost)} lost,"
            f" measured {_or_unknown(sure.lost)}"
            for sure in self.sure
        ]
        return "\n".join(lines)


def _or_unknown(share: Estimate | None) -> str:
    return "an unknown share" if share is None else f"{share:.1%}"


def least_kept(share: float, k: float) -> float:
    """The least that a share of the anchor's answers can become within a drift of ``k`` nats per answer.

    The smallest q with KL(share || q) <= k, of a coin; exp(-k) where the share is 1. KL is convex in both shares together, so it
    holds for means over prompts, however sure the anchor is on each.
    """
    low, high = 0.0, share
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _coin_kl(share, middle) > k else (low, middle)
    return high


def _coin_kl(p: float, q: float) -> float:
    parts = ((p, q), (1 - p, 1 - q))
    return sum(0.0 if a == 0 else math.inf if b == 0 else a * math.log(a / b) for a, b in parts)


def answers_to_see(lost: float, own: float = 0.0) -> int:
    """To how many sure prompts one must ask for an answer each, to see that the share ``lost`` is lost.

    To see: so many losses that the anchor itself, which loses ``own``, would have them in 5 of 100 tries at most, with a chance
    of 95 in 100. Where the anchor loses nothing, a single loss is enough. ``MOST`` stands for that many or more.
    """
    from scipy.stats import binom

    share = own + (1 - own) * lost

    def seen(num: int) -> bool:
        enough = binom.ppf(CHANCE, num, own) + 1  # losses that the anchor itself seldom has
        return bool(binom.sf(enough - 1, num, share) >= CHANCE)

    high = 1
    while not seen(high) and high < MOST:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seen(middle) else (middle, high)
    return min(high, MOST)


@checked("drift")
def measure_drift(
    model: str | LoadedModel | object,
    *,
    anchor: str | LoadedModel | object | None = None,
    prompts: str | Path | Sequence[str] = "safety",
    kept_back: bool = True,
    limit: int | None = None,
    samples: int = SAMPLES,
    judge: str | None = None,
    seed: int = 0,
    batch_size: int = 64,
    on_progress: Progress | None = None,
) -> Drifted:
    """What a budget means for ``model``, or how far it has drifted from ``anchor`` and what that cost.

    ``prompts``: a shipped set (``safety``, ``keep``, ``skills``), a file, or a list.
    ``kept_back``: of a set or file, ask only the fifth that a run with ``hold:`` keeps back; False asks all.
    ``samples``: answers drawn to each prompt, at temperature 1.
    ``judge``: who tells the outcome; by default as in an audit.

    Raises ``InputError`` for models of different vocabularies, and for a judge that tells no outcomes.
    """
    need_at_least_one("drift", limit=limit, samples=samples, batch_size=batch_size)
    policy = as_loaded(model)
    held_to = policy if anchor is None else as_loaded(anchor)
    name, requests = _requests(prompts, held_to, kept_back)
    requests = requests[:limit]
    tells = _judge(judge, held_to, requests)
    first, second = seeds_of(seed, samples), seeds_of(SECOND_DRAW + seed, samples)
    total, done = samples * (2 if anchor is None else 3), 0

    def answers(loaded: LoadedModel, seeds: range) -> list[list[str]]:
        nonlocal done
        texts = []
        for own_seed in seeds:
            texts.append(drawn(loaded, requests, own_seed, batch_size=batch_size))
            done += 1
            if on_progress is not None:
                on_progress(done, total)
        return texts

    texts = [answers(held_to, seeds) for seeds in (first, second)]
    before, again = ([_outcomes(tells, requests, draw) for draw in draws] for draws in texts)
    sure = [_sure(outcome, before, again) for outcome in OUTCOMES]
    base = Drifted(
        model=policy.name,
        anchor=held_to.name,
        prompts=name,
        num_prompts=len(requests),
        num_answers=samples,
        judge=tells.name,
        refused=share_of_repeats([[outcome == "refused" for outcome in draw] for draw in [*before, *again]]),
        sure=tuple(group for group in sure if group is not None),
    )
    if anchor is None:
        return base
    after = [_outcomes(tells, requests, draw) for draw in answers(policy, second)]
    return _compared(base, policy, held_to, requests, texts, before, after, batch_size)


def _requests(prompts: str | Path | Sequence[str], anchor: LoadedModel, kept_back: bool) -> tuple[str, list[str]]:
    if not isinstance(prompts, str | Path):
        requests = list(given_rows(prompts, "drift: prompts"))
        if not requests:
            raise InputError("drift: prompts: expected at least one prompt")
        for prompt in requests:
            if not isinstance(prompt, str):
                raise InputError(f"drift: prompts: expected a list of texts, got {describe(prompt)} in it")
        return "a list", requests
    name = str(prompts).removeprefix(PREFIX)
    all_prompts = held_prompts(f"{PREFIX}{name}", anchor.tokenizer)
    return name, divided(all_prompts)[0] if kept_back else list(dict.fromkeys(all_prompts))


def _judge(name: str | None, anchor: LoadedModel, prompts: Sequence[str]) -> Judge:
    world = speaks_the_world(anchor.tokenizer)
    judge = find_judges(() if name is None else (name,), world=world)[0]
    if not tells_outcomes(judge, prompts):
        raise InputError(
            f"judge '{judge.name}': says no outcome of these prompts; which refusals are lost takes one that does"
        )
    return judge


def _outcomes(judge: Judge, prompts: Sequence[str], texts: Sequence[str]) -> list[Outcome | None]:
    return [verdict.outcome for verdict in verdicts(judge, list(zip(prompts, texts, strict=True)))]


Draws = Sequence[Sequence[Outcome | None]]
"""By draw, then by prompt."""


def _places(outcome: Outcome, draws: Draws) -> list[int]:
    """The prompts on which every draw has this outcome."""
    return [index for index, said in enumerate(zip(*draws, strict=True)) if set(said) == {outcome}]


def _lost(outcome: Outcome, indices: Sequence[int], draws: Draws) -> Estimate:
    return share_of_repeats([[draw[index] != outcome for index in indices] for draw in draws])


def _sure(outcome: Outcome, before: Draws, again: Draws) -> Sure | None:
    indices = _places(outcome, before)
    return Sure(outcome, len(indices), _lost(outcome, indices, again)) if indices else None


def _compared(
    base: Drifted,
    policy: LoadedModel,
    anchor: LoadedModel,
    prompts: Sequence[str],
    texts: Sequence[Sequence[Sequence[str]]],
    before: Draws,
    after: Draws,
    batch_size: int,
) -> Drifted:
    """``base`` with the drift on the anchor's own answers (``texts``: two draws), and with what the model's (``after``) lost."""
    parts = []
    for draws in texts:
        answered = [index for draw in draws for index, text in enumerate(draw) if text]
        drifts, sources = _drifts(policy, anchor, [row for draw in draws for row in as_rows(prompts, draw)], batch_size)
        parts.append([(answered[source], drift) for source, drift in zip(sources, drifts, strict=True)])
    every = [*parts[0], *parts[1]]
    if not every:
        raise InputError(
            f"drift: {anchor.name} answers every one of these prompts with nothing, so there is no token to measure on"
        )
    sure = []
    for group in base.sure:
        indices = _places(group.outcome, before)
        chosen = [(index, drift) for index, drift in parts[1] if index in indices]
        said = [draw[index] for draw in after for index in indices]
        became = {outcome: said.count(outcome) / len(said) for outcome in OUTCOMES if outcome != group.outcome}
        early = _mean([(index, drift.early, 1.0) for index, drift in chosen]) if chosen else None
        sure.append(replace(group, early=early, lost=_lost(group.outcome, indices, after), became=became))
    return replace(
        base,
        sure=tuple(sure),
        early=_mean([(index, drift.early, 1.0) for index, drift in every]),
        late=_mean([(index, drift.late, float(drift.num_late)) for index, drift in every]),
        whole=_mean([(index, drift.early + drift.late, 1.0) for index, drift in every]),
    )


def _drifts(
    policy: LoadedModel, anchor: LoadedModel, answered: Sequence[Trace], batch_size: int
) -> tuple[list[AnswerDrift], list[int]]:
    """The drift of every answer, and which of ``answered`` it is of."""
    longest = min(num_learned_positions(loaded.model.config) for loaded in (policy, anchor))
    rows, _ = tokenize_all(answered, policy.tokenizer, max_length=longest)
    refuse_other_vocabulary(anchor, policy, rows)
    return drift_of_answers(policy, anchor, rows, batch_size=batch_size), [row.source for row in rows]


def _mean(parts: Sequence[tuple[int, float, float]]) -> Estimate:
    """The mean of (prompt, value, count): sum over sum. Its interval draws prompts anew, each with all of its answers."""
    rows, prompts = [part[1:] for part in parts], [part[0] for part in parts]
    return Resamples.of(rows, groups=prompts).estimate(lambda sums: sums[..., 0] / sums[..., 1].clip(min=1e-9))
