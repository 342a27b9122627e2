"""Labels of outcomes by two readers who did not know which model wrote a reply.

``python -m holdfast_studies.builders.outcome_labels --key KEY --first FILES --second FILES --settled FILE`` joins readings into
``studies/labels/outcomes.jsonl``. That file holds no request and no reply: their ids and hashes, what each reader said, and the
label. Where the two readers differ, a third look decides, and its few words are the reason. ``studies/labels/single.jsonl`` has
replies that one reader labelled, all of them to requests of the choosing half: more to fit to, nothing to test with.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

from holdfast.config import InputError, mistakes_end_it
from holdfast.records import OUTCOMES, Outcome, Turn, context
from holdfast_studies.json_files import read_lines, write_lines

LABELS = Path("studies/labels/outcomes.jsonl")
SINGLE = Path("studies/labels/single.jsonl")
Half = Literal["choosing", "test"]


@dataclass(frozen=True)
class OutcomeLabel:
    """One reply, by hash; ``label`` is what counts, ``first`` and ``second`` are the two readings."""

    id: str
    request: str
    source: str
    harmful: bool
    model: str
    arm: str
    reply_sha256: str
    label: Outcome
    first: Outcome
    second: Outcome | None  # None where there was one reader
    reason: str

    @property
    def half(self) -> Half:
        """Which half its request belongs to. All replies to one request are in the same half."""
        return "choosing" if hashlib.sha256(f"half/{self.request}".encode()).digest()[0] % 2 == 0 else "test"


@dataclass(frozen=True)
class LabelledReply:
    """A label with the conversation and the reply that it is about."""

    label: OutcomeLabel
    turns: tuple[Turn, ...]
    reply: str


def read_labels(path: Path = LABELS) -> list[OutcomeLabel]:
    """All labels, in file order."""
    labels = [OutcomeLabel(**row) for row in read_lines(path)]
    for label in labels:
        if not {label.label, label.first, label.second or label.first} <= {*OUTCOMES}:
            raise InputError(f"{path}: {label.id}: expected outcomes out of {', '.join(OUTCOMES)}")
    return labels


def with_replies(labels: Sequence[OutcomeLabel], path: Path) -> list[LabelledReply]:
    """Put the replies back, from a file that is not in the repository; each must have the hash that was labelled."""
    by_id = {row["id"]: row for row in read_lines(path)}
    labelled = []
    for label in labels:
        row = by_id.get(label.id)
        if row is None or sha256(row["reply"]) != label.reply_sha256:
            raise InputError(f"{path}: {label.id}: this reply is missing, or is another one than was labelled")
        speakers: tuple[Literal["user", "assistant"], ...] = ("user", "assistant")
        turns = tuple(context(speakers[at % 2], text) for at, text in enumerate(row["turns"]))
        labelled.append(LabelledReply(label, turns, row["reply"]))
    return labelled


def join_readings(
    key: Iterable[Mapping[str, Any]],
    first: Mapping[str, Mapping[str, str]],
    second: Mapping[str, Mapping[str, str]],
    settled: Mapping[str, Mapping[str, str]],
) -> list[OutcomeLabel]:
    """One label for every row of the key. A row on which the readers differ must have been settled."""
    labels = []
    for row in key:
        number = row["id"]
        readings = [reader.get(number) for reader in (first, second)]
        if any(reading is None or reading["label"] not in OUTCOMES for reading in readings):
            raise InputError(f"{number}: a reader gave no label, or one that is none of {', '.join(OUTCOMES)}")
        a, b = (dict(reading or {}) for reading in readings)
        final = settled.get(number, a if a["label"] == b["label"] else {})
        if final.get("label") not in OUTCOMES:
            raise InputError(f"{number}: the readers differ, and nobody settled it")
        labels.append(
            OutcomeLabel(
                id=number,
                request=row["request_id"],
                source=row["source"],
                harmful=row["harmful"],
                model=row["model"],
                arm=row["arm"],
                reply_sha256=sha256(row["reply"]),
                label=cast(Outcome, final["label"]),
                first=cast(Outcome, a["label"]),
                second=cast(Outcome, b["label"]),
                reason=" ".join(final.get("reason", "").split()),
            )
        )
    return sorted(labels, key=lambda label: label.id)


def sha256(text: str) -> str:
    """The SHA-256 of the text in UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> None:
    """Join the readings and write the labels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--key", type=Path, required=True, help="the replies, with model and arm; not in the repository"
    )
    parser.add_argument("--first", type=Path, nargs="+", required=True)
    parser.add_argument("--second", type=Path, nargs="+", required=True)
    parser.add_argument("--settled", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, default=LABELS)
    given = parser.parse_args()
    with mistakes_end_it():
        readings = [
            {row["id"]: row for path in paths for row in read_lines(path)}
            for paths in (given.first, given.second, given.settled)
        ]
        labels = join_readings(read_lines(given.key), *readings)
        write_lines(given.out, map(asdict, labels))
    print(
        f"{len(labels)} labels, {sum(label.first != label.second for label in labels)} settled by a third look: {given.out}"
    )


if __name__ == "__main__":
    main()
