"""Tables of the page that only some stages have: other ways to ask, and what the attacker's own rows are worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast.stats import Estimate
from holdfast_studies.qwen.figures import Results, ask_figures, title_of


def asks_table(results: Results, attack: str) -> str:
    """Harmful requests complied with, by way of asking; empty where none but the plain one was asked."""
    figures = ask_figures(results)
    rows = []
    for defence in results.config.defences:
        texts = [estimate_text(results.mean(figure, attack, defence)) for figure in figures.values()]
        if any(texts):
            rows.append([results.named(defence), *texts])
    return "Complied, asked in other ways:\n\n" + markdown(["", *figures], rows) if rows else ""


def rows_table(results: Results) -> str:
    """Of attackers who make their rows first: how many requests got past the anchor, and what their answers are by the judge."""
    rows = []
    for place, cell in results.kept.cells.items():
        names = [title_of(place.attack), place.defence, str(place.seed)]
        if through := cell.outcomes.get("through"):
            rows.append([*names, f"{sum(map(bool, through))} of {len(through)} requests got past the untouched model"])
        if written := cell.outcomes.get("written"):
            counts = Counter(str(outcome or "unscored") for outcome in written)
            text = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
            rows.append([*names, f"answers in the model's own words: {text}"])
    return "## Rows that the attacker made\n\n" + markdown(["tuned on", "defence", "seed", ""], rows) if rows else ""


def estimate_text(value: Estimate | None) -> str:
    """A share with its interval."""
    return "" if value is None else f"{value.value:.1%} [{value.low:.0%}, {value.high:.0%}]"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
