"""Traces as lines of JSON: what their fingerprint is taken of, and how many of them are kept in little memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from holdfast.data.spool import OnDemand, Spool
from holdfast.records.roles import Role
from holdfast.records.traces import Segment, Trace, Turn

_CANONICAL = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ROLES = {role.label: role for role in Role}


class StoredTraces(OnDemand[Trace]):
    """The traces of a source, in order."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._digest = hashlib.sha256()

    def __len__(self) -> int:
        return len(self._spool)

    def append(self, trace: Trace) -> None:
        """Put a trace behind the others."""
        line = _line(trace)
        self._digest.update(line)
        self._spool.append(line)

    def make(self, number: int) -> Trace:
        """The trace of this number, from 0."""
        return Trace(tuple(_turn(*said) for said in json.loads(self._spool.read(number))))

    @property
    def fingerprint(self) -> str:
        """What the function ``fingerprint`` gives for these traces, without reading them again."""
        return self._digest.hexdigest()


def fingerprint(traces: Iterable[Trace]) -> str:
    """SHA-256 of what the traces say, in order: the same whatever file they came from."""
    digest = hashlib.sha256()
    for trace in traces:
        digest.update(_line(trace))
    return digest.hexdigest()


def _line(trace: Trace) -> bytes:
    return _CANONICAL.encode([_said(turn) for turn in trace.turns]).encode() + b"\n"


def _said(turn: Turn) -> list[object]:
    said: list[object] = [turn.speaker, [[part.role.label, part.text] for part in turn.segments]]
    return [*said, turn.fields] if turn.fields else said  # older versions had no fields: their fingerprints stay valid


def _turn(speaker: str, segments: list[tuple[str, str]], fields: str = "") -> Turn:
    return Turn(speaker, tuple(Segment(_ROLES[label], text) for label, text in segments), fields)  # type: ignore[arg-type]
