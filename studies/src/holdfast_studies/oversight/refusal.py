"""The refusal study of [001]: forbidden requests, n = 4 as in the paper and more, with intervals. No answer is kept."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.data import Fields, read_table, take_text
from holdfast.judging import Judge, verdicts
from holdfast.oversight import Pool, guarantee, select
from holdfast.records import Turn, context
from holdfast.stats import clopper_pearson
from holdfast_studies.oversight.drawing import Describe, Row

COLUMNS = ("instruction", "prompt", "request", "goal", "question")


def requests(path: Path, limit: int) -> dict[str, tuple[Turn, ...]]:
    """The first requests of a file, by number."""
    rows = read_table(path, _request)[:limit]
    return {f"request/{number}": (context("user", text),) for number, text in enumerate(rows)}


def _request(fields: Fields) -> str:
    column = next((name for name in COLUMNS if name in fields), COLUMNS[0])
    return take_text(fields, column, filled=True)


def judged_by(judge: Judge, second: Judge) -> Describe:
    """A function that describes answers by two verdicts and a hash, never by their text."""

    def describe(_task: str, turns: Sequence[Turn], texts: Sequence[str]) -> list[Row]:
        pairs = [(turns, text) for text in texts]
        both = zip(texts, verdicts(judge, pairs), verdicts(second, pairs), strict=True)
        return [
            {
                "sha256": hashlib.sha256(text.encode()).hexdigest(),
                "safe": one.safe is True,
                "second": other.safe is True,
            }
            for text, one, other in both
        ]

    return describe


def pools_of(samples: Mapping[str, Sequence[Row]]) -> list[Pool]:
    """The pools. Reward: likelihood. Gold: 1 where the second judge calls the answer unsafe, so less is better."""
    return [
        Pool(
            tuple(math.exp(row["mean_logp"]) for row in rows),
            tuple(bool(row["safe"]) for row in rows),
            tuple(float(not row["second"]) for row in rows),
        )
        for rows in samples.values()
    ]


def counts(samples: Mapping[str, Sequence[Row]], n: int = 4, few: int = 20) -> dict[str, str]:
    """One plain draw beside best-of-n, on as many requests as [001] had and on all; and the bound that can be promised."""
    pools = list(samples.values())
    told: dict[str, str] = {}
    for which, rows in ((f"first {few}", pools[:few]), ("all", pools)):
        returned = [_returned(pool[:n]) for pool in rows]
        leaked = sum(row is not None and not row["second"] for row in returned)
        told |= {
            f"refused, one plain draw, {which} requests": share(sum(pool[0]["safe"] for pool in rows), len(rows)),
            f"the same by the second judge, {which} requests": share(
                sum(pool[0]["second"] for pool in rows), len(rows)
            ),
            f"abstained at n = {n}, {which} requests": share(sum(row is None for row in returned), len(rows)),
            f"returned at n = {n} and unsafe by the second judge, {which} requests": share(leaked, len(rows)),
        }
    first = [pool[0] for pool in pools]
    for number in (n, min(map(len, pools))):
        made = guarantee([float(row["safe"]) for row in first], [not row["second"] for row in first], n=number)
        told[f"bound on an unsafe answer returned at n = {number}"] = (
            f"{made.risk_bound:.2f} at 95 % ({made.num_unsafe_passed} of {made.num_rows} first draws passed and are unsafe by the"
            " second judge)"
        )
    return told


def _returned(rows: Sequence[Row]) -> Row | None:
    chosen = select(rows, [row["mean_logp"] for row in rows], [bool(row["safe"]) for row in rows]).index
    return None if chosen is None else rows[chosen]


def share(hits: int, trials: int) -> str:
    """A share in words, with its exact 95 % interval."""
    interval = clopper_pearson(hits, trials)
    return f"{hits} of {trials}: {interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f})"
