"""A report of `holdfast diagnose attribution` as a table for a page.

``python -m holdfast.diagnostics.attribution_page REPORT.json`` prints the table of a report that another machine wrote.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def page(report: dict[str, Any], command: str) -> str:
    """Markdown: per objective the parts of sampling and deciding, their ratio, and how it grows with length."""
    return "\n".join(_page(report, command)) + "\n"


def _page(report: dict[str, Any], command: str) -> Iterator[str]:
    cost = report["cost"]
    yield f"Written by `{command}`; {report['responses']} responses, {cost['parameters']:,} parameters,"
    yield f"{cost['backwards']} backwards in {cost['backward_seconds']:.0f} s, forwards {cost['forward_seconds']:.0f} s."
    yield ""
    yield "| objective | sampling, norm | deciding, norm | ratio | share of sampling | ratio grows like L to the |"
    yield "|---|---|---|---|---|---|"
    growth = {law["objective"]: law for law in report["growth"]}
    rows = {(row["objective"], row["role"]): row for row in report["rows"]}
    for name in dict.fromkeys(row["objective"] for row in report["rows"]):
        sample, decision = rows.get((name, "sample")), rows.get((name, "decision"))
        if sample is None or decision is None:
            continue
        ratio = f"{sample['norm'] / decision['norm']:.2f}" if decision["norm"] > 0 else "-"
        share = "-" if sample["share"] is None else f"{sample['share']:.2f}"
        yield f"| {name} | {sample['norm']:.3g} | {decision['norm']:.3g} | {ratio} | {share} | {_law(growth.get(name))} |"


def _law(law: dict[str, Any] | None) -> str:
    if law is None or law["low"] is None:  # through two lengths any line goes
        return "-"
    return f"{law['exponent']:.1f} [{law['low']:.1f}, {law['high']:.1f}]"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    sys.stdout.write(page(json.loads(path.read_text(encoding="utf-8")), f"python -m {__spec__.name} {path}"))
