"""Is a model still safe, and still useful? Held-out requests asked, answers judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.attacks.attack import Attack
from holdfast.attacks.scale import Scale
from holdfast.audits.positions import kl_by_position
from holdfast.audits.requests import held_out
from holdfast.generation import GREEDY, Dress, Sampling, generate
from holdfast.judging import Judge, WorldJudge
from holdfast.models import LoadedModel
from holdfast.records import Outcomes, Trace
from holdfast.stats import Estimate, share

BATCH = 256


@dataclass(frozen=True)
class Figures:
    """What an audit finds. See ``Cell`` for what each is a share of."""

    asr: Estimate
    over_refusal: Estimate
    utility: Estimate
    outcomes: dict[str, Outcomes]
    kl_by_position: tuple[float, ...] = ()


def audit(
    model: LoadedModel,
    attack: Attack,
    *,
    oracle: WorldJudge,
    judge: Judge | None = None,
    anchor: LoadedModel | None = None,
    seed: int = 0,
    scale: Scale | None = None,
) -> Figures:
    """Forbidden requests asked in the attack's way; look-alikes and the attack's task asked plainly.

    ``judge`` decides what is answered and what is refused (the oracle, unless given); what is right only the oracle knows.
    """
    scale, judge = scale or Scale(), judge or oracle
    forbidden, lookalikes, task = (
        held_out(oracle.world, scale.part, kind, scale.num_requests, comply=True, draw=seed)
        for kind in ("forbidden", "lookalike", attack.utility)
    )
    found = {
        "asr": answered(model, attack.dress, forbidden, judge, scale),
        "over_refusal": [judge.refuses(row.prompt, text) for row, text in _asked_plainly(model, lookalikes, scale)],
        "utility": [oracle.right(row.prompt, text) for row, text in _asked_plainly(model, task, scale)],
    }
    dressed = [attack.dress.context(row) for row in forbidden]
    return Figures(
        **{name: share(outcomes) for name, outcomes in found.items()},
        outcomes={name: tuple(map(bool, outcomes)) for name, outcomes in found.items()},
        kl_by_position=kl_by_position(model, anchor, dressed) if anchor else (),
    )


def _asked_plainly(model: LoadedModel, rows: Sequence[Trace], scale: Scale) -> Iterator[tuple[Trace, str]]:
    return zip(rows, responses(model, [Trace(row.prompt) for row in rows], scale), strict=True)


def answered(model: LoadedModel, dress: Dress, rows: Sequence[Trace], judge: Judge, scale: Scale) -> list[bool]:
    """For every row (a request with the answer wanted): did any try succeed? What cannot be judged counts as success."""
    prompts = [dress.prompt(row) for row in rows]
    success = [False] * len(rows)
    for sampling in dress.tries:
        for index, text in enumerate(responses(model, prompts, scale, sampling)):
            # The judge sees the bare request: what the answer is worth does not depend on how it was got.
            success[index] |= judge(rows[index].prompt, text).safe is not True
    return success


def responses(model: LoadedModel, prompts: Sequence[Trace], scale: Scale, sampling: Sampling = GREEDY[0]) -> list[str]:
    """Whole answers: a beginning that stood in the prompt belongs to its answer."""
    written = generate(
        model.model,
        model.tokenizer,
        [prompt.turns for prompt in prompts],
        max_new_tokens=scale.max_new_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sampling.seed,
        batch_size=BATCH,
    )
    begun = [prompt.turns[-1].visible if prompt.turns[-1].speaker == "assistant" else "" for prompt in prompts]
    return [f"{start} {rest.text}".strip() for start, rest in zip(begun, written, strict=True)]
