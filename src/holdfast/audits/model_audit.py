"""One model, asked everything there is to ask: is it still safe, still useful, and how far is it from its anchor?"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from holdfast.audits.asked import AskedSuite, asked_path, identity, put_together, read_asked, write_asked
from holdfast.audits.bars import Bars
from holdfast.audits.labels import Labels, corrected
from holdfast.audits.suites import RequestSuite, Scored, Suite, is_missing
from holdfast.config import InputError
from holdfast.data import fingerprint
from holdfast.generation import ModelSampler, Sampler
from holdfast.heads.answer_stats import AnswerStats, answer_stats, mean_by_position
from holdfast.judging import looks_english, request_text
from holdfast.models import LoadedModel, origin
from holdfast.records import AuditResult, Completion, Figure, Trace, answer
from holdfast.records.audit_words import NOT_CORRECTED
from holdfast.stats import Estimate, Resamples

NO_PROBABILITIES = "perplexity and KL by position: an endpoint does not give the probabilities of given tokens"
ASKED = "asked"
ENGLISH_ONLY = ("outcome", "outcome_embeddings", "opening", "refusal_phrases")
MAX_DEPTH = 64  # answer tokens that the divergence is measured on
READ_AT_ONCE = 16  # rows of a batch that is only read

OnProgress = Callable[[str, int, int], None]
"""(suite, answers that are there, answers wanted)"""


def ignore(_suite: str, _done: int, _total: int) -> None:
    """For callers that show no progress."""


@dataclass(frozen=True)
class Plan:
    """What to ask. The first figure of a task's suite is its headline: what ``--min-utility`` is about."""

    safety: tuple[RequestSuite, ...] = ()
    tasks: tuple[Suite, ...] = ()
    max_new_tokens: int | None = None  # in place of what the suites say
    keep_answers: bool = False
    labels: Labels | None = None  # of some of the replies; they correct the shares


def audit_model(
    sampler: Sampler,
    plan: Plan,
    *,
    anchor: LoadedModel | None = None,
    bars: Bars | None = None,
    earlier: AuditResult | None = None,
    out: Path | None = None,
    on_progress: OnProgress = ignore,
) -> tuple[AuditResult, list[dict[str, Any]]]:
    """The result, and one line per answer for ``completions.jsonl``.

    *Kept* compares the outcomes of harmless requests with the anchor's, which is asked them too, or with those of an
    ``earlier`` audit of the same rows. Where the plan has labels, bars are about the shares that they correct.

    With ``out``, suites that are done are kept in ``out/asked``, and the same call again goes on from there. Whoever has
    written the result removes them.
    """
    started = time.monotonic()
    policy = sampler.loaded if isinstance(sampler, ModelSampler) else None
    notes = [NO_PROBABILITIES] if policy is None else comparable(policy, anchor)
    reference = anchor if anchor is not None and not notes else None
    suites: tuple[Suite, ...] = (*plan.safety, *plan.tasks)
    paths: dict[str, Path] = {}
    if out is not None:
        shared = identity(sampler.name, anchor.name if anchor else None, _settings(plan, policy))
        paths = {suite.name: asked_path(out / ASKED, suite, shared) for suite in suites}
    models = Models(sampler, policy, reference, None if anchor is None else ModelSampler(anchor, _batch_size(sampler)))
    done = {suite.name: _ask(suite, models, plan, paths.get(suite.name), on_progress) for suite in suites}
    figures = [figure for suite in suites for figure in _figures(suite, done[suite.name], anchor, earlier)]
    answered = [row for suite in plan.tasks for row in suite.rows if len(row.turns) > len(row.prompt)]
    if policy is not None and answered:
        of_tasks = perplexity_figures(policy, reference, answered)
        figures += [replace(figure, source="; ".join(suite.source for suite in plan.tasks)) for figure in of_tasks]
    headlines = [done[suite.name].figures[0].name for suite in plan.tasks]
    lines = [line for part in done.values() for line in part.lines]
    figures, about = corrected(figures, lines, plan.labels) if plan.labels else (figures, _uncorrected(plan))
    finite, not_finite = _only_finite(figures)
    kl = mean_by_position(torch.tensor(row).double() for part in done.values() for row in part.kl)
    if not all(map(math.isfinite, kl)):
        kl, not_finite = (), [*not_finite, "KL by position: not a number"]
    result = AuditResult(
        model=_shown(sampler.name, policy),
        anchor=_shown(anchor.name, anchor) if anchor else None,
        judges=_judges(plan),
        figures=finite,
        agreements=tuple(agreement for part in done.values() for agreement in part.agreements),
        bars=(bars or Bars()).against(finite, headlines),
        kl_by_position=kl,
        num_missing=sum(part.num_missing for part in done.values()),
        sources=tuple(suite.source for suite in suites),
        fingerprints=tuple(fingerprint(suite.rows) for suite in suites),
        notes=(*notes, *not_finite),
        settings=_settings(plan, policy),
        seconds=round(time.monotonic() - started, 2),
        outcomes={f"{name} ({judge})": said for name, part in done.items() for judge, said in part.outcomes.items()},
        untouched=anchor.name if anchor else earlier.model if earlier else None,
        labels=(*about, *_not_english(plan)),
    )
    return result, lines


def _figures(
    suite: Suite, done: AskedSuite, anchor: LoadedModel | None, earlier: AuditResult | None
) -> Iterator[Figure]:
    """A suite's figures, each with the suite's source."""
    yield from (replace(figure, source=suite.source) for figure in done.figures)
    if isinstance(suite, RequestSuite) and suite.name == "harmless":
        yield from (replace(kept, source=suite.source) for kept in _kept(suite, done, anchor, earlier))


def _judges(plan: Plan) -> tuple[str, ...]:
    return tuple(dict.fromkeys(judge.name for suite in plan.safety for judge in suite.judges))


def _uncorrected(plan: Plan) -> list[str]:
    """The caution that no labels correct the shares. The world's oracle does not err and needs none."""
    return [NOT_CORRECTED] if any(judge != "world" for judge in _judges(plan)) else []


def _not_english(plan: Plan) -> list[str]:
    """Which judges read English alone, where most of the requests are in another language."""
    judges = [judge for judge in _judges(plan) if judge.rpartition(":")[2] in ENGLISH_ONLY]
    is_english = [looks_english(request_text(row.prompt)) for suite in plan.safety for row in suite.rows]
    if not judges or 2 * sum(is_english) >= len(is_english):
        return []
    return [f"most of these requests do not look English: {' and '.join(judges)} may call a refusal of them anything"]


def _shown(name: str, loaded: LoadedModel | None) -> str:
    """A model's name in tables: one from a .gguf file says so, because its weights are not the published ones."""
    said = origin(loaded.model) if loaded is not None else None
    return f"{name} ({said})" if said else name


class Models(NamedTuple):
    """Who is asked. ``policy``: the sampler's model, if it runs here. ``reference``: the anchor, if their tokens compare."""

    sampler: Sampler
    policy: LoadedModel | None
    reference: LoadedModel | None
    untouched: Sampler | None


def _batch_size(sampler: Sampler) -> int:
    return sampler.batch_size if isinstance(sampler, ModelSampler) else READ_AT_ONCE


def _kept(
    suite: RequestSuite, done: AskedSuite, anchor: LoadedModel | None, earlier: AuditResult | None
) -> list[Figure]:
    """The figure *kept*, by every judge that gave outcomes of both models' replies."""
    if anchor is not None:
        who, before = anchor.name, done.untouched
    elif earlier is not None:
        who = earlier.model
        before = {judge: earlier.outcomes.get(f"{suite.name} ({judge})", ()) for judge in done.outcomes}
    else:
        return []
    return [
        suite.kept(judge, outcomes, before[judge], who)
        for judge, outcomes in done.outcomes.items()
        if len(before.get(judge, ())) == len(outcomes)
    ]


def comparable(policy: LoadedModel, anchor: LoadedModel | None) -> list[str]:
    """Why the two models' tokens cannot be compared, if so."""
    if anchor is None:
        return []
    if policy.tokenizer.get_vocab() != anchor.tokenizer.get_vocab():
        return ["KL and perplexity ratio: the anchor has another vocabulary"]
    widths = [int(loaded.model.get_output_embeddings().weight.shape[0]) for loaded in (policy, anchor)]
    return [] if widths[0] == widths[1] else ["KL and perplexity ratio: the anchor's head has another size"]


def perplexity_figures(policy: LoadedModel, anchor: LoadedModel | None, rows: Sequence[Trace]) -> list[Figure]:
    """Perplexity on the tasks' reference answers, and its ratio to the anchor's. A ratio of 1 is no drift."""
    stats = answer_stats(policy, anchor, rows, batch_size=READ_AT_ONCE)
    num_tokens = [len(row.logp) for row in stats]
    nll = [-float(row.logp.sum()) for row in stats]
    meaning = "of the tasks' reference answers"
    figures = [Figure("perplexity", perplexity(nll, num_tokens), "less", meaning)]
    if anchor is not None:
        nll_ref = [-float(row.logp_ref.sum()) for row in stats if row.logp_ref is not None]
        theirs = perplexity(nll_ref, num_tokens)
        # In pairs, so that hard rows do not widen it.
        ratio = perplexity([ours - anchors for ours, anchors in zip(nll, nll_ref, strict=True)], num_tokens)
        figures.append(Figure("perplexity_anchor", theirs, "neither", f"{meaning}, under the anchor"))
        figures.append(Figure("perplexity_ratio", ratio, "less", "model to anchor; 1 is no drift"))
    return figures


def perplexity(nll: Sequence[float], num_tokens: Sequence[int]) -> Estimate:
    """exp(all nll / all tokens) from the sums of every row. What is drawn anew is a row with all of its tokens."""
    rows = Resamples.of(np.column_stack([nll, num_tokens]))
    # A broken model may have a perplexity beyond float64, and JSON has no infinity.
    return rows.estimate(lambda sums: np.exp(np.minimum(sums[..., 0] / sums[..., 1], 700.0)))


def _ask(suite: Suite, models: Models, plan: Plan, path: Path | None, on_progress: OnProgress) -> AskedSuite:
    """Ask a suite and score it, or read what an interrupted audit has kept of it."""
    earlier = None if path is None else read_asked(path)
    if earlier is not None:
        on_progress(suite.name, len(suite.rows), len(suite.rows))
        return earlier
    compares = isinstance(suite, RequestSuite) and suite.name == "harmless" and bool(suite.telling)
    twice = compares and models.untouched is not None
    total = len(suite.rows) * (1 + twice)

    def answers(sampler: Sampler, before: int) -> list[Completion]:
        on_progress(suite.name, before, total)
        try:
            return sampler(
                [row.prompt for row in suite.rows],
                max_new_tokens=plan.max_new_tokens or suite.max_new_tokens,
                on_progress=lambda done, _: on_progress(suite.name, before + done, total),
            )
        except InputError as error:
            raise InputError(f"{suite.name}: {error}") from None

    completions = answers(models.sampler, 0)
    kl: list[list[float]] = []
    if models.policy is not None and models.reference is not None and suite.name == "harmful":
        rows = _to_read(suite, completions)
        kl = [_kl(stats) for stats in answer_stats(models.policy, models.reference, rows, batch_size=READ_AT_ONCE)]
    scored = suite.score(completions)
    _check_judges(suite, completions, scored)
    done = put_together(suite, completions, scored, kl, plan.keep_answers)
    if twice and models.untouched is not None:
        done = replace(done, untouched=suite.score(answers(models.untouched, len(suite.rows))).outcomes)
    if path is not None and _is_settled(suite, completions, scored):
        write_asked(path, done)
    return done


def _is_settled(suite: Suite, completions: Sequence[Completion], scored: Scored) -> bool:
    """Whether the answers may be kept. Not where a server failed in part: it may be up again when the same command goes on."""
    came = [not is_missing(completion) for completion in completions]
    silent = any("unscored" in said.values() for said, is_there in zip(scored.verdicts, came, strict=True) if is_there)
    failed = any(completion.finish_reason == "error" for completion in completions)
    return not failed and not (silent and isinstance(suite, RequestSuite))


def _check_judges(suite: Suite, completions: Sequence[Completion], scored: Scored) -> None:
    """Raise ``InputError`` for a judge that scored nothing. If it is down, any model would look unsafe."""
    num_came = sum(not is_missing(completion) for completion in completions)
    for figure in scored.figures:
        if num_came and figure.judge and figure.trials == len(suite.rows) and figure.unscored == figure.trials:
            raise InputError(
                f"{figure.key}: the judge scored not one of {num_came} answers: is its server up, and are these requests for it?"
            )


def _to_read(suite: Suite, completions: Sequence[Completion]) -> list[Trace]:
    """Answers on which model and anchor are compared: those that must not be given, or the model's own."""
    return [
        row if len(row.turns) > len(row.prompt) else Trace((*row.turns, answer(completion.text)))
        for row, completion in zip(suite.rows, completions, strict=True)
        if len(row.turns) > len(row.prompt) or not is_missing(completion)
    ]


def _kl(stats: AnswerStats) -> list[float]:
    assert stats.kl is not None
    values: list[float] = stats.kl[:MAX_DEPTH].tolist()
    return values


def _settings(plan: Plan, policy: LoadedModel | None) -> dict[str, Any]:
    """What the answers depend on besides the model; a server does not say in what precision it computes."""
    dtype = None if policy is None else str(policy.dtype).removeprefix("torch.")
    options = {"max_new_tokens": plan.max_new_tokens, "keep_answers": plan.keep_answers}
    return {"temperature": 0.0, **options, "dtype": dtype}


def _only_finite(figures: Sequence[Figure]) -> tuple[tuple[Figure, ...], list[str]]:
    """Figures that are numbers, and a note on each of the others. JSON has no NaN."""
    good = [figure for figure in figures if all(map(math.isfinite, (figure.value, figure.low, figure.high)))]
    return tuple(good), [f"{figure.key}: not a number" for figure in figures if figure not in good]
