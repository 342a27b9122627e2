"""A study of the safety gap as a section of docs/results/undo.md."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.models import named_with_origin
from holdfast.stats import Estimate, Unknown
from holdfast_studies.markdown import table
from holdfast_studies.undo.safety_gap_config import SafetyGapConfig
from holdfast_studies.undo.safety_gap_identity import Identity
from holdfast_studies.undo.safety_gap_verdict import CLAIMS, CurveVerdict, Goal, Study, corrected, right, with_error

OVER_SEEDS = "Wilson; seeds pooled, but all were asked the same, so a request counts once"
"""What pages with ``share_of_counts`` say of their intervals."""
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
    """The section: the command, the figures, the verdicts."""
    seeds = ", ".join(map(str, config.seeds))
    traces = config.traces
    first = study.results[0]
    model = named_with_origin(config.model.name).rpartition("/")[2]
    skipped = f", the first {config.skip_test} of `{config.test}` left out" if config.skip_test else ""
    parts = [
        f"## {config.title}",
        f"Written by `{command}`. {model}, {config.steps} steps of {config.batch_size} rows, learning rate"
        f" {config.lr:g}, seeds {seeds}. Traces: {traces.builder}, errors per answer {_between(traces.errors)}, words per error"
        f" {_between(traces.length)}, {traces.clean:.0%} clean; an error stands at"
        f" {first.error_rate:.1%} of the places where one could. Measured on {first.behaviour.num} held-out requests{skipped}."
        f" Bands are least and greatest seed; intervals are 95 % ({OVER_SEEDS}).",
        "### Parts (a) and (b): identities of gradients\n\n" + identity_table(identities),
        *(f"### Part (c), {context} context\n\n" + _curves(study, context) for context in study.contexts),
        "### At the end of training\n\n" + _behaviour(study),
    ]
    if verdicts := study.verdicts():
        parts.insert(-1, "### Verdicts\n\n" + _verdicts(verdicts))
        parts.append("### Goals\n\n" + _goals(study.goals()))
    if len(study.inits) > 1:
        parts.append("### How the row of `<UNDO>` begins\n\n" + _inits(study))
    return "\n\n".join(parts) + "\n"


def _between(low_high: tuple[int, int]) -> str:
    low, high = low_high
    return str(low) if low == high else f"{low} to {high}"


def identity_table(identities: dict[str, Identity]) -> str:
    """The table of parts (a) and (b) of the theorem, by context."""
    rows = (
        (
            context,
            f"{identity.target:.1e}",
            f"{identity.difference:.1e}",
            f"{identity.error_gain:+.3f}",
            f"{identity.num_parameters:,}",
            str(identity.num_error_tokens),
        )
        for context, identity in identities.items()
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


def _verdicts(verdicts: Sequence[CurveVerdict]) -> str:
    rows = ((CLAIMS[verdict.curve], verdict.context, verdict.sentence) for verdict in verdicts)
    return table(("claim", "context", "verdict"), rows)


def _goals(goals: Sequence[Goal]) -> str:
    rows = ((goal.wanted, goal.measured, "yes" if goal.met else "**no**") for goal in goals)
    return table(("wanted", "measured", "met"), rows)


def _curves(study: Study, context: str) -> str:
    header = ["step", *(f"{title}: {arm}" for title in CURVES.values() for arm in study.objectives)]
    rows = []
    for step in study.steps():
        bands = (study.band(name, step, arm, context) for name in CURVES for arm in study.objectives)
        rows.append([str(step), *(f"{band.mean:.3f} [{band.low:.3f}, {band.high:.3f}]" for band in bands)])
    return table(header, rows)


def _behaviour(study: Study) -> str:
    ways = [(arm, context) for context in study.contexts for arm in study.objectives]
    plain = study.of("plain", "soft")
    ways += [("plain", "soft")] if plain else []
    header = ["", *(f"{arm}, {context}" if arm != "plain" else "plain sft, no errors" for arm, context in ways)]
    rows = []
    for title, count in COUNTS.items():
        nothing = "forced" in title  # is forced on a model that cannot take back
        cells = ["-" if nothing and arm == "plain" else shown(study.rate(count, arm, context)) for arm, context in ways]
        rows.append([title, *cells])
    counts = table(header, rows)
    return f"{counts}\n\n{_gains(study)}" if plain else counts


def _gains(study: Study) -> str:
    """What undo gains: accuracy minus that of plain sft, request by request."""
    rows = []
    for context in study.contexts:
        for arm in study.objectives:
            gained = study.against_plain(arm, context)
            rows.append((f"{arm}, {context}", points(gained.difference), f"{100 * gained.visible:.1f}"))
    about = (
        "Right answers (greedy) in points above plain sft, on the same requests; intervals by bootstrap over requests."
    )
    return f"{about}\n\n{table(('', 'difference', 'smallest that would be seen (80 % power)'), rows)}"


def _inits(study: Study) -> str:
    """How soon undo is learned, and how well in the end. All steps are shown, because an early lead may be lost later."""
    context = study.contexts[0]
    rows = []
    for arm in study.objectives:
        for init in study.inits:
            bands = (study.band("p_undo", step, arm, context, init) for step in study.steps()[1:])
            shares = [f"{band.mean:.3f} [{band.low:.3f}, {band.high:.3f}]" for band in bands]
            rows.append((arm, init, *shares, shown(study.rate(corrected, arm, context, init))))
    steps = (f"step {step}" for step in study.steps()[1:])
    about = f"p(undo \\| error) along training, {context} context."
    return f"{about}\n\n{table(('objective', 'init', *steps, 'forced error corrected'), rows)}"


def shown(rate: Estimate | Unknown) -> str:
    """A share in percent with its interval."""
    return "-" if isinstance(rate, Unknown) else f"{rate:.1%}"


def points(difference: Estimate) -> str:
    """A difference of shares in percentage points."""
    value, low, high = (100 * number for number in (difference.value, difference.low, difference.high))
    return f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"
