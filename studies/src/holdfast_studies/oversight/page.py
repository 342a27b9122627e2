"""docs/results/oversight.md from what the study found, beside [001]'s claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast_studies.markdown import table
from holdfast_studies.oversight.humaneval import LEGACY, REWARDS
from holdfast_studies.oversight.run import points_of

DOMAINS = ("humaneval", "gsm8k", "refusal")
COLUMNS = ("n", "reward", "gold", "pass@n", "abstains", "E[R*S]", "KL(overseen, base)", "bound", "KL(base, overseen)")
COUNTED = ("use what the policy forbids", "stopped by the sandbox", "not safe by [001]'s list")
FEW = 4  # [001]'s n


def write_page(folder: Path, target: Path, command: str) -> None:
    """Write the page. A domain that has not been run is named as not run."""
    by_domain = {
        name: json.loads((folder / f"{name}.json").read_text())
        for name in DOMAINS
        if (folder / f"{name}.json").exists()
    }
    if not by_domain:
        raise InputError(f"{folder}: no domain of the study has been run there")
    model = next(iter(by_domain.values()))["model"]
    parts = [
        f"# Oversight: best-of-n with a safety bar\n\nWritten by `{command}`; model: {Path(model).name}.\n",
        _claims(by_domain),
    ]
    parts += [_domain(by_domain[name]) if name in by_domain else f"## {name}\n\nNot run.\n" for name in DOMAINS]
    target.write_text("\n".join(parts), encoding="utf-8")


def _claims(by_domain: dict[str, Any]) -> str:
    beside = table(["claim", "what its own figures say", f"here, n = {FEW}"], _beside(by_domain), tight=True)
    return f"""Intervals are 95 % bootstrap over prompts; shares next to 0 or 1 have exact binomial ones. Every n comes from one
pool per prompt by unbiased estimators (see docs/oversight.md); KL in nats, exact for the pools' own key distributions. Of a
pool of m, best-of-m is a single draw: its interval says nothing of another pool.

## What [001] claims

{beside}
"""


def _beside(by_domain: dict[str, Any]) -> list[tuple[str, str, str]]:
    """[001]'s claims, its own figures, and ours. The cells of a domain that has not been run are empty."""
    code, text = by_domain.get("humaneval"), by_domain.get("refusal")
    capability = joint = moved = gate = refused = ""
    if code is not None:
        one, legacy, ours = (_point(code, name, n) for name, n in ((LEGACY, 1), (LEGACY, FEW), (REWARDS[1], FEW)))
        pvalues = code["tests"].get(str(legacy["n"]), {})
        capability = (
            f"pass@1 {_estimate(one['gold'])}; [001] as printed {_estimate(legacy['gold'])}, p = {pvalues.get(LEGACY, 1):.2g};"
            f" the prompt's own examples as reward {_estimate(ours['gold'])}, p = {pvalues.get(REWARDS[1], 1):.2g}"
        )
        joint = (
            f"its E[R*S] {_estimate(one['joint'])} -> {_estimate(legacy['joint'])};"
            f" right programs {one['gold']['value']:.3f} -> {legacy['gold']['value']:.3f}"
        )
        moved = (
            f"KL(overseen, base) {_number(legacy['kl'])}, bound {_number(legacy['kl_bound'])};"
            f" KL(base, overseen) {_number(legacy['kl_reverse'])}"
        )
        gate = "; ".join(f"{name}: {code['counts'][name]}" for name in COUNTED if name in code["counts"])
    if text is not None:
        refused = "; ".join(f"{name}: {value}" for name, value in text["counts"].items() if "first 20" in name)
    return [
        ("pass@1 0.15 -> 0.25, 'p < 0.05'", "3 and 5 of 20: Fisher's p is 0.69, McNemar's 0.50 at best", capability),
        ("16 of 20 refused, '> 80 %'", "95 % interval 0.56 to 0.94, and 80 % is not above 80 %", refused),
        ("E[R*S] 0.76 -> 0.85", "the E[R] figures repeated", joint),
        ("KL 0.24", "KL(base, overseen) of two printed vectors; the other direction is 0.21", moved),
        ("unsafe code is filtered", "each offence costs 0.2, the threshold is 0.8: any single offence passes", gate),
    ]


def _point(figures: dict[str, Any], reward: str, n: int) -> dict[str, Any]:
    """The point at n, or at the largest n there is."""
    points = points_of(figures, reward)
    return next((point for point in points if point["n"] == n), points[-1])


def _domain(figures: dict[str, Any]) -> str:
    parts = [f"## {figures['domain']}\n\n{figures['prompts']} prompts. Gold: {figures['gold']}.\n"]
    if figures.get("counts"):
        parts.append("\n".join(f"- {name}: {value}" for name, value in figures["counts"].items()) + "\n")
    if len(figures["curves"]) > 1:
        parts.append(_side_by_side(figures))
    for reward in figures["curves"]:
        pvalues = ", ".join(f"n = {n}: {by_reward[reward]:.2g}" for n, by_reward in figures["tests"].items())
        parts.append(f"Reward: {reward}. Gold against one plain draw, p (paired permutation, Holm): {pvalues}.\n")
        parts.append(_table(points_of(figures, reward)))
    return "\n".join(parts)


def _side_by_side(figures: dict[str, Any]) -> str:
    """Gold by n, one row per way of choosing; in brackets, the p-value against the first row."""
    first = next(iter(figures["curves"]))
    ns = [point["n"] for point in points_of(figures, first)]
    rows = []
    for reward in figures["curves"]:
        cells = []
        for point in points_of(figures, reward):
            pvalue = figures["against_first"].get(str(point["n"]), {}).get(reward)
            cells.append(_estimate(point["gold"]) + ("" if pvalue is None else f", p = {pvalue:.2g}"))
        rows.append([reward, *cells])
    gold = table(["gold of what is returned", *(f"n = {n}" for n in ns)], rows, tight=True)
    return f"{gold}\n\np: against the first row at the same n, paired permutation test, Holm over the rows.\n"


def _table(points: list[dict[str, Any]]) -> str:
    rows = []
    for point in points:
        cells = [str(point["n"])]
        cells += [_estimate(point[name]) for name in ("reward", "gold", "pass_at_n", "abstention", "joint")]
        cells += [_number(point[name]) for name in ("kl", "kl_bound", "kl_reverse")]
        rows.append(cells)
    return table(COLUMNS, rows, tight=True) + "\n"


def _estimate(value: dict[str, Any] | None) -> str:
    if value is None or value["value"] is None:
        return "-"
    return f"{value['value']:.3f} ({value['low']:.3f} to {value['high']:.3f})"


def _number(value: float | str | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:.2f}"
