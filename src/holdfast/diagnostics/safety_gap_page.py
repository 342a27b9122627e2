"""A study of the safety gap as a section of docs/results/undo.md."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.config.safety_gap import SafetyGapConfig
from holdfast.diagnostics.estimates import Estimate
from holdfast.diagnostics.safety_gap_behaviour import Behaviour
from holdfast.diagnostics.safety_gap_identity import Identity
from holdfast.diagnostics.safety_gap_verdict import ARMS, CLAIMS, Study, corrected, right, with_error
from holdfast.records import atomic_text

CURVES = {
    "log_p_error": "log p(error \\| prefix)",
    "p_wrong": "p(wrong \\| prefix)",
    "p_undo": "p(undo \\| error)",
    "p_correction": "p(correction \\| undo)",
}
COUNTS = {
    "forced error corrected": corrected,
    "answer right after a forced error": lambda b: (b.recovered, b.num),
    "right, greedy": right,
    "right, sampled": lambda b: (b.sampled_right, b.num),
    "sampled answers with an error": with_error,
    "undo precision": lambda b: (b.sampled.undone_wrong, b.sampled.undos),
    "undo recall": lambda b: (b.sampled.errors_undone, b.sampled.errors),
    "false undos, clean answers": lambda b: (
        b.sampled.clean_answers_undone,
        b.sampled.answers - b.sampled.answers_with_error,
    ),
}


def section(config: SafetyGapConfig, command: str, study: Study, identities: dict[str, Identity]) -> str:
    """Everything a reader needs to check it: the command, the figures, the verdicts."""
    seeds = ", ".join(map(str, config.seeds))
    traces = config.traces
    first = study.results[0]
    parts = [
        f"## {config.title}",
        f"Written by `{command}`. {config.model.name}, {config.steps} steps of {config.batch_size} rows, learning rate"
        f" {config.lr:g}, seeds {seeds}. Traces: {traces.builder}, errors per answer {_between(traces.errors)}, words per error"
        f" {_between(traces.length)}, {traces.clean:.0%} clean; an error stands at"
        f" {first.error_rate:.1%} of the places where one could. Measured on {first.behaviour.num} held-out requests."
        " Bands are least and greatest seed; intervals are 95 % (Wilson, seeds pooled).",
        "### Parts (a) and (b): identities of gradients\n\n" + _identities(identities),
        *(f"### Part (c), {context} context\n\n" + _curves(study, context) for context in study.contexts),
        "### Verdicts\n\n" + _verdicts(study),
        "### At the end of training\n\n" + _behaviour(study),
        "### Goals\n\n"
        + table(
            ("wanted", "measured", "met"), ((g.wanted, g.measured, "yes" if g.met else "**no**") for g in study.goals())
        ),
    ]
    if len(study.inits) > 1:
        parts.append("### How the row of `<UNDO>` begins\n\n" + _inits(study))
    return "\n\n".join(parts) + "\n"


def _between(low_high: tuple[int, int]) -> str:
    low, high = low_high
    return str(low) if low == high else f"{low} to {high}"


def write_section(page: Path, name: str, text: str) -> None:
    """Put the section into the page, in the place of an older one of that name."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    old = page.read_text(encoding="utf-8") if page.exists() else "# Taking it back: results\n"
    block = f"{begin}\n{text}{end}\n"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end) + "\n", re.DOTALL)
    page.parent.mkdir(parents=True, exist_ok=True)
    with atomic_text(page) as file:
        file.write(pattern.sub(lambda _: block, old) if pattern.search(old) else f"{old.rstrip()}\n\n{block}")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _identities(identities: dict[str, Identity]) -> str:
    rows = (
        (
            context,
            f"{found.target:.1e}",
            f"{found.difference:.1e}",
            f"{found.error_gain:+.3f}",
            f"{found.num_parameters:,}",
            str(found.num_error_tokens),
        )
        for context, found in identities.items()
    )
    header = (
        "context",
        "(a) difference on target tokens",
        "(b) relative residue",
        "gain of error tokens along it",
        "parameters",
        "error tokens",
    )
    return table(header, rows)


def _verdicts(study: Study) -> str:
    rows = ((CLAIMS[verdict.curve], verdict.context, verdict.sentence) for verdict in study.verdicts())
    return table(("claim", "context", "verdict"), rows)


def _curves(study: Study, context: str) -> str:
    header = ["step", *(f"{title}: {arm}" for title in CURVES.values() for arm in ARMS)]
    rows = []
    for step in study.steps():
        bands = (study.band(name, step, arm, context) for name in CURVES for arm in ARMS)
        rows.append([str(step), *(f"{band.mean:.3f} [{band.low:.3f}, {band.high:.3f}]" for band in bands)])
    return table(header, rows)


def _behaviour(study: Study) -> str:
    ways = [(arm, context) for context in study.contexts for arm in ARMS]
    plain = study.of("plain", "soft")
    ways += [("plain", "soft")] if plain else []
    header = ["", *(f"{arm}, {context}" if arm != "plain" else "plain sft, no errors" for arm, context in ways)]
    rows = []
    for title, count in COUNTS.items():
        nothing = "forced" in title  # is forced on a model that cannot take back
        cells = ["-" if nothing and arm == "plain" else shown(study.rate(count, arm, context)) for arm, context in ways]
        rows.append([title, *cells])
    counts = table(header, rows)
    if not plain:
        return counts
    seen = smallest_visible([each.behaviour for each in plain])
    return f"{counts}\n\nThe smallest difference of accuracies that so many answers could have shown: {seen:.1%}."


def _inits(study: Study) -> str:
    context, first = study.contexts[0], study.steps()[1]
    rows = []
    for init in study.inits:
        for arm in ARMS:
            early, late = (study.band("p_undo", step, arm, context, init).mean for step in (first, study.steps()[-1]))
            rows.append((init, arm, f"{early:.3f}", f"{late:.3f}", shown(study.rate(corrected, arm, context, init))))
    return table(
        ("init", "objective", f"p(undo \\| error), step {first}", "at the end", "forced error corrected"), rows
    )


def shown(rate: Estimate) -> str:
    """A share in percent with its interval."""
    return "-" if rate.value is None else f"{rate.value:.1%} [{rate.low:.1%}, {rate.high:.1%}]"


def smallest_visible(behaviour: Sequence[Behaviour]) -> float:
    """The smallest difference of two shares that so many answers would show with 80 % power at 5 %, near one half."""
    num = sum(each.num for each in behaviour)
    return (1.96 + 0.84) * math.sqrt(2 * 0.25 / num)
