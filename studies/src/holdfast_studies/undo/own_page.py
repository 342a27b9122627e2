"""A study of the model's own errors as a section of docs/results/undo-qwen.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from holdfast.models import named_with_origin
from holdfast.stats import Estimate, Unknown
from holdfast_studies.markdown import table
from holdfast_studies.undo.own_figures import OwnFigures, Pool, Way
from holdfast_studies.undo.safety_gap import WITH_UNDO
from holdfast_studies.undo.safety_gap_config import SafetyGapConfig
from holdfast_studies.undo.safety_gap_identity import Identity
from holdfast_studies.undo.safety_gap_page import OVER_SEEDS, identity_table, points, shown
from holdfast_studies.undo.safety_gap_verdict import ARMS, Gain

CURVES = {
    "p_undo": "p(undo \\| error)",
    "p_undo_right": "p(undo \\| right)",
    "log_p_error": "log p(error \\| prefix)",
}


def section(
    config: SafetyGapConfig, command: str, figures: OwnFigures, pools: dict[str, Pool], identities: dict[str, Identity]
) -> str:
    """The section: where the traces come from, the curves, what every arm does, and what undo gains."""
    seeds, how = ", ".join(map(str, config.seeds)), config.traces.own
    num = len(figures.study.results[0].behaviour.hits)
    model = named_with_origin(config.model.name).rpartition("/")[2]
    about = (
        f"Written by `{command}`. {model}, {config.steps} steps of {config.batch_size} rows, learning rate"
        f" {config.lr:g}, seeds {seeds}. {how.num_attempts} attempts per request at temperature {how.temperature:g}. Up to"
        f" {how.num_wrong} wrong ones of a request are followed step by step: the first wrong step is the first beginning from"
        f" which 0 of {how.num_rollouts} continuations are right. A trace is the attempt up to there, the undos of that step,"
        f" and a right continuation that the model itself wrote. {config.traces.clean:.0%} of the rows carry no error. All"
        f" seeds share the attempts; a seed chooses among them, and orders the rows. {num} test requests, {config.num_sampled}"
        f" samples of each at temperature 1. Intervals are 95 %: of accuracy by bootstrap over requests, of other shares"
        f" {OVER_SEEDS}."
    )
    parts = [
        f"## {config.title}",
        about,
        "### Where the traces come from\n\n" + _pools(pools),
        "### Does the model see its error?\n\n" + _curves(figures),
        "### What the models do\n\n" + _arms(figures),
        "### What undo gains\n\n" + _gains(figures),
        "### Parts (a) and (b): identities of gradients\n\n" + identity_table(identities),
    ]
    return "\n\n".join(parts) + "\n"


def _pools(pools: dict[str, Pool]) -> str:
    rows: dict[str, Callable[[Pool], str]] = {
        "requests": lambda pool: str(pool.requests),
        "attempts": lambda pool: str(pool.attempts),
        "right attempts": lambda pool: f"{pool.right / pool.attempts:.1%}",
        "requests that were always answered rightly": lambda pool: str(pool.always_right),
        "requests that were never answered rightly": lambda pool: str(pool.never_right),
        "requests with a trace": lambda pool: str(pool.usable),
        "wrong attempts whose first wrong step was found": lambda pool: str(pool.wrong),
        "of these, wrong from the first step on": lambda pool: str(pool.at_first_step),
        "wrong attempts that only ended too early": lambda pool: str(pool.never_lost),
        "number of the first wrong step, mean": lambda pool: "-" if pool.mean_step is None else f"{pool.mean_step:.1f}",
    }
    return table(("", *pools), ([name, *map(cell, pools.values())] for name, cell in rows.items()))


def _curves(figures: OwnFigures) -> str:
    """Figures on given text of test requests: after the model's own first wrong step, and after every step of a right attempt."""
    study, steps = figures.study, figures.study.steps()
    ways = [way for way in figures.ways if way.objective in WITH_UNDO]
    parts = ["Along training: mean, least and greatest seed."]
    for name, title in CURVES.items():
        bands = {way: [study.band(name, step, *way) for step in steps] for way in ways}
        rows = [
            (way.title, *(f"{band.mean:.3f} [{band.low:.3f}, {band.high:.3f}]" for band in bands[way])) for way in ways
        ]
        parts.append(table((title, *(f"step {step}" for step in steps)), rows))
    return "\n\n".join(parts)


def _arms(figures: OwnFigures) -> str:
    undo = {way for way in figures.ways if way.objective in WITH_UNDO}

    def only_undo(value: Callable[[Way], Estimate | Unknown]) -> Callable[[Way], str]:
        return lambda way: shown(value(way)) if way in undo else "-"

    rows: dict[str, Callable[[Way], str]] = {
        "right, greedy": lambda way: shown(figures.accuracy(way, greedy=True)),
        "right, sampled": lambda way: shown(figures.accuracy(way, greedy=False)),
        "own error forced on it, taken back": only_undo(figures.taken_back),
        "own error forced on it, right in the end": only_undo(figures.recovered),
        "sampled answers with an undo": only_undo(figures.undone),
        "of these, wrong": only_undo(figures.wrong_with_undo),
        "of the answers without an undo, wrong": lambda way: shown(figures.wrong_without_undo(way)),
        "tokens per sampled answer": lambda way: f"{figures.tokens(way):.1f}",
        "undos among them": lambda way: f"{figures.undo_tokens(way):.1f}",
    }
    body = [[way.title, *(cell(way) for cell in rows.values())] for way in figures.ways]
    return table(("", *rows), body)


def _gains(figures: OwnFigures) -> str:
    """Undo minus each control, in points, on the same requests; and what plain retry would have spent."""
    body: list[Sequence[str]] = []
    for ours in (way for way in figures.ways if way.objective in ARMS):
        for theirs in (way for way in figures.ways if way.objective not in ARMS):
            gains = [figures.against(ours, theirs, greedy=greedy) for greedy in (True, False)]
            body.append((ours.title, theirs.title, *(cell for difference in gains for cell in _cells(difference))))
        for best, title in ((False, "plain retry, the likeliest"), (True, "plain retry, the best of them")):
            gained = figures.against_retry(ours, best=best)
            if gained is not None:
                body.append((ours.title, title, "-", "-", *_cells(gained)))
    header = ("", "ahead of", "greedy", "would be seen", "sampled", "would be seen")
    about = (
        "Right answers in points, on the same requests, seeds paired. *Would be seen*: the smallest difference that this"
        " many requests show four times of five."
    )
    return "\n\n".join([about, table(header, body), *_retry_sentences(figures)])


def _cells(gained: Gain) -> tuple[str, str]:
    return points(gained.difference), f"{100 * gained.visible:.1f}"


def _retry_sentences(figures: OwnFigures) -> list[str]:
    other = figures.retrying()
    if other is None:
        return []
    sentences = [
        f"Plain retry is the arm `{other.title}`: it answers every request once, and again in a random order until it has"
        " written as many tokens as undo did. The likeliest answer per token is returned; *the best of them* is what a"
        " perfect choice would return."
    ]
    for ours in (way for way in figures.ways if way.objective in ARMS):
        retried = figures.retries(ours)
        spent = statistics.fmean(outcome.spent for outcome in retried) / len(retried[0].chosen)
        number = statistics.fmean(outcome.num_retries for outcome in retried)
        sentences.append(
            f"Against {ours.title}: {figures.tokens(ours):.1f} tokens per request for undo, {spent:.1f} for retry, which"
            f" finished {number:.1f} further answers."
        )
    return sentences
