"""Which tokens each objective's gradient comes from: what `diagnose attribution` and ``hf.attribute`` do with transcripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.config import InputError, need_at_least_one
from holdfast.config.arguments import checked
from holdfast.diagnostics.attribution import Attribution, attribute
from holdfast.diagnostics.attribution_rows import attribution_rows
from holdfast.diagnostics.growth import Growth, by_length, fit_growth
from holdfast.diagnostics.losses_by_token import find_objectives
from holdfast.diagnostics.splitting import how_to_split
from holdfast.diagnostics.transcripts import Source, read_transcripts
from holdfast.generation import Progress
from holdfast.models import LoadedModel, as_loaded
from holdfast.training.policy import refuse_other_vocabulary


@dataclass(frozen=True)
class Attributed:
    """Gradients by role, and how the part of sampling grows with the length of attempts."""

    model: str
    anchor: str | None
    old: str | None
    num_responses: int
    sketch: int | None
    attribution: Attribution
    growth: tuple[Growth, ...]

    def row(self) -> dict[str, Any]:
        """All figures, for `--json` and the report."""
        return {
            "kind": "attribution",
            "model": self.model,
            "anchor": self.anchor,
            "old": self.old,
            "sketch": self.sketch,
            "responses": self.num_responses,
            "rows": self.attribution.table(),
            "cost": self.attribution.cost,
            "growth": [law.row() for law in self.growth],
        }

    def __repr__(self) -> str:
        """Norm and share by objective and role."""
        lines = [
            f"{row.objective:14} {row.role:10} {row.norm:10.3g} {'-' if row.share is None else format(row.share, '.1%'):>7}"
            for row in self.attribution.rows
        ]
        return "\n".join([f"{self.num_responses} responses, {self.model}: norm and share of the gradient", *lines])


@checked("attribute")
def attribute_transcripts(
    model: str | LoadedModel | object,
    transcripts: Source,
    *,
    anchor: str | LoadedModel | object | None = None,
    old: str | LoadedModel | object | None = None,
    objectives: str | Sequence[str] | None = None,
    extract: str = "number",
    base: int = 5,
    markers: str | Path | None = None,
    resample: str | None = None,
    stop: str | None = None,
    limit: int = 64,
    max_length: int = 1024,
    batch_size: int = 8,
    sketch: int | None = None,
    growth: bool = True,
    on_progress: Progress | None = None,
) -> Attributed:
    """Each objective's gradient by role: norm, norm per token, cosine with the whole, share; and how it grows with length.

    ``transcripts``: as for ``calibrate``; ``limit`` of them are used.
    ``anchor``: the reference model of KL, csft and csft_pa.
    ``old``: the model that wrote the responses, for ratio and clipping.

    Raises ``InputError`` for models of different vocabularies.
    """
    need_at_least_one("attribution", limit=limit, max_length=max_length, batch_size=batch_size, sketch=sketch)
    chosen = find_objectives(objectives, has_anchor=anchor is not None)
    split, extractor = how_to_split(extract, base=base, markers=markers, resample=resample, stop=stop)
    read = read_transcripts(transcripts)
    policy = as_loaded(model, dtype="float32", trainable=True)
    reference = None if anchor is None else as_loaded(anchor, dtype="float32")
    writer = reference if old == anchor else None if old is None else as_loaded(old, dtype="float32")
    rows = attribution_rows(read.transcripts[:limit], split, extractor, policy.tokenizer, max_length=max_length)
    if not rows:
        raise InputError("attribution: no response has any token in it")
    for other in (reference, writer):
        if other is not None:
            refuse_other_vocabulary(other, policy, [row.row for row in rows])
    settings: dict[str, Any] = {
        "anchor": None if reference is None else reference.model,
        "old": None if writer is None else writer.model,
        "pad_id": policy.tokenizer.pad_token_id or 0,
        "batch_size": batch_size,
        "sketch": sketch,
    }
    whole = attribute(policy.model, rows, chosen, **settings, on_progress=on_progress)
    groups = by_length(rows) if growth else {}
    parts = {length: attribute(policy.model, group, chosen, **settings) for length, group in groups.items()}
    laws = (fit_growth(name, {length: part.ratio(name) for length, part in parts.items()}) for name in chosen)
    return Attributed(
        model=policy.name,
        anchor=None if reference is None else reference.name,
        old=None if writer is None else writer.name,
        num_responses=len(rows),
        sketch=sketch,
        attribution=whole,
        growth=tuple(law for law in laws if law is not None),
    )
