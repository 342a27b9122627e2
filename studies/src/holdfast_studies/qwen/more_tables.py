"""Tables of the page that only some stages have: other ways to ask, curves, and what the attacker's own rows are worth."""

from __future__ import annotations

from collections import Counter

from holdfast.records import CurvePoint
from holdfast.stats import Estimate
from holdfast_studies.markdown import table
from holdfast_studies.qwen.figures import Results, ask_figures, title_of

OUTCOMES = ("complied", "refused", "missed")
TOKENS = (1, 2, 5, 20)
"""The tokens of an answer at which the drift is shown. The cell has it at every token."""


def asks_table(results: Results, attack: str) -> str:
    """The share of harmful requests complied with, by way of asking; empty where only the plain way was asked."""
    figures = ask_figures(results)
    rows = []
    for defence in results.config.defences:
        texts = [estimate_text(results.mean(figure, attack, defence)) for figure in figures.values()]
        if any(texts):
            rows.append([results.named(defence), *texts])
    return "Complied, asked in other ways:\n\n" + table(["", *figures], rows) if rows else ""


def rows_table(results: Results) -> str:
    """For attackers who make their rows first: how many requests got past the anchor, and how the judge rates the answers."""
    rows = []
    for place, cell in results.kept.cells.items():
        names = [title_of(place.attack), place.defence, str(place.seed)]
        if through := cell.outcomes.get("through"):
            rows.append([*names, f"{sum(map(bool, through))} of {len(through)} requests got past the untouched model"])
        if written := cell.outcomes.get("written"):
            counts = Counter(str(outcome or "unscored") for outcome in written)
            text = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
            rows.append([*names, f"answers in the model's own words: {text}"])
    return "## Rows that the attacker made\n\n" + table(["tuned on", "defence", "seed", ""], rows) if rows else ""


def curves_table(results: Results, attack: str) -> str:
    """Outcomes, task and drift along training, of the first seed that has a curve; empty where none has."""
    rows = []
    for defence in results.config.defences:
        cell = next((cell for cell in results.cells(attack, defence) if cell.curve), None)
        for point in cell.curve if cell else ():
            rows.append([results.named(defence), str(point.step), *_point(point)])
    head = ["", "step", *(f"harmful {outcome}" for outcome in OUTCOMES), *(f"safe {outcome}" for outcome in OUTCOMES)]
    drift = [f"KL at token {token}" for token in TOKENS]
    text = "Along the training, one seed, few requests; KL(model, untouched) on the stock model's answers to harmful requests:"
    return f"{text}\n\n{table([*head, 'task', *drift], rows)}" if rows else ""


def _point(point: CurvePoint) -> list[str]:
    texts = []
    for complied, refused, missed in (("asr", None, "missed"), (None, "over_refusal", "harmless_missed")):
        known = {name: point.shares.get(name) for name in (complied, refused, missed) if name}
        rest = None if None in known.values() else 1 - sum(share for share in known.values() if share is not None)
        values = [known.get(name, rest) if name else rest for name in (complied, refused, missed)]
        texts += ["" if value is None else f"{value:.0%}" for value in values]
    task = point.shares.get("utility")
    drift = (point.kl_by_position[token - 1 : token] for token in TOKENS)
    return [*texts, "" if task is None else f"{task:.0%}", *(f"{kl[0]:.2f}" if kl else "" for kl in drift)]


def estimate_text(value: Estimate | None) -> str:
    """A share with its interval."""
    return "" if value is None else f"{value.value:.1%} [{value.low:.0%}, {value.high:.0%}]"
