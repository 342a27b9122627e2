"""docs/results/oversight.md from what the study found, beside [001]'s claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.config import InputError
from holdfast.oversight.study.run import points_of

DOMAINS = ("humaneval", "gsm8k", "refusal")
COLUMNS = ("n", "reward", "gold", "pass@n", "abstains", "E[R*S]", "KL(overseen, base)", "bound", "KL(base, overseen)")
CLAIMS = (
    (
        "pass@1 0.15 -> 0.25, 'p < 0.05'",
        "on 20 tasks (3 and 5) Fisher's p is 0.69, and McNemar's 0.50 at best",
    ),
    ("16 of 20 refused, '> 80 %'", "the 95 % interval is 0.56 to 0.94, and 80 % is not above 80 %"),
    ("E[R*S] 0.76 -> 0.85", "the E[R] figures repeated; E[R*S] is measured below, abstentions as 0"),
    (
        "KL 0.24",
        "KL(base, overseen) of two printed vectors: infinite under a hard filter; the other direction is 0.21",
    ),
    ("safety gate", "each offence costs 0.2 and the threshold is 0.8, so any single offence passes"),
)


def write_page(folder: Path, target: Path, command: str) -> None:
    """What is there; a domain that has not been run is named as such."""
    found = {
        name: json.loads((folder / f"{name}.json").read_text())
        for name in DOMAINS
        if (folder / f"{name}.json").exists()
    }
    if not found:
        raise InputError(f"{folder}: no domain of the study has been run there")
    model = next(iter(found.values()))["model"]
    parts = [
        f"# Oversight: best-of-n with a safety bar\n\nWritten by `{command}`; model: {Path(model).name}.\n",
        _claims(),
    ]
    parts += [_domain(found[name]) if name in found else f"## {name}\n\nNot run.\n" for name in DOMAINS]
    target.write_text("\n".join(parts), encoding="utf-8")


def _claims() -> str:
    rows = "\n".join(f"| {claim} | {verdict} |" for claim, verdict in CLAIMS)
    return f"""Intervals are 95 % bootstrap over prompts; every n comes from one pool per prompt by unbiased estimators (see
docs/oversight.md); KL in nats, exact for the pools' own key distributions.

## What [001] claims

| claim | what its own figures say |
|---|---|
{rows}
"""


def _domain(found: dict[str, Any]) -> str:
    parts = [f"## {found['domain']}\n\n{found['prompts']} prompts. Gold: {found['gold']}.\n"]
    if found.get("counts"):
        parts.append("\n".join(f"- {name}: {value}" for name, value in found["counts"].items()) + "\n")
    if len(found["curves"]) > 1:
        parts.append(_side_by_side(found))
    for reward in found["curves"]:
        pvalue = found["tests"][reward]
        parts.append(
            f"Reward: {reward}. Gold at the largest n against one plain draw: p = {pvalue:.3g} (permutation, Holm).\n"
        )
        parts.append(_table(points_of(found, reward)))
    return "\n".join(parts)


def _side_by_side(found: dict[str, Any]) -> str:
    """Gold by n, one row per way of choosing; in brackets, the p-value against the first row."""
    first = next(iter(found["curves"]))
    ns = [point["n"] for point in points_of(found, first)]
    lines = ["| gold of what is returned | " + " | ".join(f"n = {n}" for n in ns) + " |", "|---" * (len(ns) + 1) + "|"]
    for reward in found["curves"]:
        cells = []
        for point in points_of(found, reward):
            pvalue = found["against_first"].get(str(point["n"]), {}).get(reward)
            cells.append(_estimate(point["gold"]) + ("" if pvalue is None else f", p = {pvalue:.2g}"))
        lines.append(f"| {reward} | " + " | ".join(cells) + " |")
    return (
        "\n".join(lines) + "\n\np: against the first row at the same n, paired permutation test, Holm over the rows.\n"
    )


def _table(points: list[dict[str, Any]]) -> str:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for point in points:
        cells = [str(point["n"])]
        cells += [_estimate(point[name]) for name in ("reward", "gold", "pass_at_n", "abstention", "joint")]
        cells += [_number(point[name]) for name in ("kl", "kl_bound", "kl_reverse")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _estimate(value: dict[str, Any] | None) -> str:
    if value is None or value["value"] is None:
        return "-"
    return f"{value['value']:.3f} ({value['low']:.3f} to {value['high']:.3f})"


def _number(value: float | str | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:.2f}"
