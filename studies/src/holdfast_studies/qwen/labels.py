"""Labels of replies that `look` wrote: blind sheets for two readers, then one label for every reply, without its text.

Texts stay in the folder of `look`, which git ignores. ``labels.jsonl`` lies beside the cells and has hashes, the two readings,
the label with its reason, and what `outcome` said.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from holdfast.config import InputError
from holdfast.records import OUTCOMES, Agreement, Outcome
from holdfast_studies.builders.outcome_labels import LABELS, SINGLE
from holdfast_studies.builders.outcome_labels import read_labels as read_fitted
from holdfast_studies.json_files import read_lines, write_lines

KEY = "key.jsonl"
SHEETS = ("reader-a.jsonl", "reader-b.jsonl")
THIRD = "third.jsonl"
KEPT = "labels.jsonl"
KINDS = ("harmful", "safe")
RULES = "studies/labels/rules.md"


@dataclass(frozen=True)
class FreshLabel:
    """One reply of one arm, by hash. ``judged`` is what `outcome` said of it when `look` asked."""

    id: str  # of the text: arms that gave the same reply to the same request share it, and it is read once
    attack: str
    arm: str
    seed: int
    kind: str  # harmful or safe
    request: str  # as in requests.json
    reply: str  # as in the cells
    fitted: bool  # whether `outcome` was fitted to other replies to this request
    judged: Outcome | None
    p_complied: float | None  # its P(complied)
    label: Outcome
    first: Outcome
    second: Outcome
    reason: str

    @property
    def of(self) -> tuple[str, str, int, str]:
        """The arm and the kind of request that the reply was drawn from."""
        return self.attack, self.arm, self.seed, self.kind


def write_sheets(folder: Path, kinds: Sequence[str] = KINDS, num: int | None = None) -> str:
    """Write a key, and for each reader a sheet in an order of its own, from ``replies.jsonl`` of `look`.

    Sheets name no arm and no verdict. ``num``: of every arm and kind the first so many. Returns what to do next. A sheet that is
    there is not overwritten.
    """
    if strange := [kind for kind in kinds if kind not in KINDS]:
        raise InputError(f"kinds={','.join(kinds)}: {', '.join(strange)} is none of {', '.join(KINDS)}")
    if there := [name for name in (KEY, *SHEETS, THIRD) if (folder / name).exists()]:
        raise InputError(f"{folder / there[0]}: is there already, and may hold labels; move it away first")
    rows = _first_of_each(read_lines(folder / "replies.jsonl"), kinds, num)
    if not rows:
        raise InputError(f"{folder / 'replies.jsonl'}: has no reply to {' or '.join(kinds)} requests")
    known = fitted_requests()
    key = [{**row, "id": text_id(row), "fitted": request_id(row["request"]) in known} for row in rows]
    write_lines(folder / KEY, key)
    blank = list({row["id"]: _blank(row) for row in key}.values())
    for seed, name in enumerate(SHEETS):
        write_lines(folder / name, random.Random(seed).sample(blank, len(blank)))
    return (
        f"{len(key)} replies, {len(blank)} to read: two readers fill in label ({', '.join(OUTCOMES)}) and reason, by {RULES}, "
        f"each in a file of their own: {folder / SHEETS[0]}, {folder / SHEETS[1]}"
    )


def join_sheets(folder: Path, run: Path) -> tuple[list[FreshLabel], str]:
    """Write ``labels.jsonl`` into ``run`` from the filled sheets; returns their labels and how far the readers agree.

    Labels of arms that these sheets do not have stay in the file. Where the readers differ, a third blind look decides. The
    first call writes a sheet for it and raises ``InputError``; a later call reads that sheet.
    """
    key = read_lines(folder / KEY)
    first, second = (_readings(folder / name, key) for name in SHEETS)
    differ = [number for number in first if first[number]["label"] != second[number]["label"]]
    third = _third(folder / THIRD, key, differ)
    labels = [_label(row, first[row["id"]], second[row["id"]], third.get(row["id"])) for row in key]
    anew = {label.of for label in labels}
    others = [label for label in read_fresh(run) if label.of not in anew]
    write_lines(run / KEPT, [asdict(label) for label in (*others, *labels)])
    one_of_each = list({label.id: label for label in labels}.values())
    agreed = agreement(readings(one_of_each), [label.request for label in one_of_each])
    return labels, f"{len(labels)} labels: {run / KEPT}. The readers: {agreed}"


def read_fresh(run: Path) -> list[FreshLabel]:
    """The labels beside the cells; none where nobody labelled."""
    if not (run / KEPT).exists():
        return []
    try:
        labels = [FreshLabel(**row) for row in read_lines(run / KEPT)]
    except TypeError as error:
        raise InputError(f"{run / KEPT}: {error}") from None
    for label in labels:
        if not {label.label, label.first, label.second, label.judged or label.label} <= {*OUTCOMES}:
            raise InputError(f"{run / KEPT}: {label.id}: expected outcomes out of {', '.join(OUTCOMES)}")
    return labels


def readings(labels: Iterable[FreshLabel]) -> list[tuple[Outcome, Outcome]]:
    """What the two readers said of every reply."""
    return [(label.first, label.second) for label in labels]


def agreement(pairs: Sequence[tuple[Outcome, Outcome]], requests: Sequence[str], digits: int = 2) -> str:
    """``kappa 0.91 [0.80, 1.00], 95 % agree``; says so where kappa is undefined.

    ``requests``: which request each pair is about. Several arms reply to one request, and one counts once in the interval.
    """
    sides = [one for one, _ in pairs], [other for _, other in pairs]
    told = Agreement.of("labels", ("one", "other"), *sides, requests=requests)
    share = f"{told.agreed:.0%} agree".replace("%", " %")
    return f"kappa {told.kappa:.{digits}f}, {share}"


def fitted_requests() -> set[str]:
    """Ids of the requests to which `outcome` was fitted, without the name of their source."""
    labels = [label for path in (LABELS, SINGLE) for label in read_fitted(path)]
    return {label.request.rpartition("-")[2] for label in labels if label.half == "choosing"}


def request_id(text: str) -> str:
    """The id of a request of one turn, as in the labels that `outcome` was fitted to."""
    return hashlib.sha256(json.dumps([text]).encode()).hexdigest()[:8]


def text_id(row: Mapping[str, Any]) -> str:
    """The id of a request with its reply."""
    return hashlib.sha256(json.dumps([row["request"], row["reply"]]).encode()).hexdigest()[:10]


def short_hash(text: str) -> str:
    """The hash by which requests.json and the cells name a request and a reply."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _first_of_each(rows: Iterable[dict[str, Any]], kinds: Sequence[str], num: int | None) -> list[dict[str, Any]]:
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["kind"] in kinds:
            groups.setdefault((row["attack"], row["arm"], row["kind"]), []).append(row)
    return [row for group in groups.values() for row in group[:num]]


def _blank(row: Mapping[str, Any]) -> dict[str, str]:
    return {"id": row["id"], "request": row["request"], "reply": row["reply"], "label": "", "reason": ""}


def _readings(path: Path, key: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows of a sheet by id. Raises ``InputError`` where a reply of the key has no label."""
    rows = {row["id"]: row for row in read_lines(path)}
    for number in {row["id"]: None for row in key}:
        if rows.get(number, {}).get("label") not in OUTCOMES:
            raise InputError(f"{path}: {number}: no label yet, or none of {', '.join(OUTCOMES)}")
    return rows


def _third(path: Path, key: Sequence[Mapping[str, Any]], differ: Sequence[str]) -> dict[str, dict[str, Any]]:
    if not differ:
        return {}
    disputed = list({row["id"]: row for row in key if row["id"] in differ}.values())
    if not path.exists():
        write_lines(path, [_blank(row) for row in disputed])
        raise InputError(f"the readers differ on {len(disputed)} replies: a third fills in {path}, then run this again")
    return _readings(path, disputed)


def _label(
    row: Mapping[str, Any], first: Mapping[str, Any], second: Mapping[str, Any], third: Mapping[str, Any] | None
) -> FreshLabel:
    final = third or first
    return FreshLabel(
        **{name: row[name] for name in ("id", "attack", "arm", "seed", "kind", "fitted")},
        request=short_hash(row["request"]),
        reply=short_hash(row["reply"]),
        judged=row["outcome"],
        p_complied=row["p_complied"],
        label=cast(Outcome, final["label"]),
        first=cast(Outcome, first["label"]),
        second=cast(Outcome, second["label"]),
        reason=" ".join(str(final.get("reason", "")).split()),
    )
