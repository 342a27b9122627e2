"""Transcripts to a calibration: split, compare with the reference, count; by group where asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.config import need_at_least_one
from holdfast.config.arguments import checked
from holdfast.diagnostics.attempts import Splitter
from holdfast.diagnostics.calibration import Calibration, calibrate
from holdfast.diagnostics.counts import count
from holdfast.diagnostics.decomposition import Decomposition, decompose
from holdfast.diagnostics.splitting import how_to_split
from holdfast.diagnostics.transcripts import Columns, Source, Transcript, read_transcripts
from holdfast.diagnostics.two_stage import Floats
from holdfast.judging.extractors import Extractor, reference_answer


@dataclass(frozen=True)
class Judged:
    """Responses taken apart and compared: what ``calibrate`` takes."""

    right: tuple[tuple[bool, ...], ...]
    stopped: tuple[bool, ...]
    answers: tuple[tuple[str, ...], ...]
    problems: tuple[str, ...]

    @property
    def counts(self) -> Floats:
        """One row per response."""
        return count(self.right, self.stopped, self.answers)

    def calibrate(self, *, max_attempts: int | None = None, draws: int = 1000, seed: int = 0) -> Calibration:
        """All figures of the calibration."""
        return calibrate(
            self.right,
            self.stopped,
            answers=self.answers,
            problems=self.problems,
            max_attempts=max_attempts,
            draws=draws,
            seed=seed,
        )


@checked("calibrate")
def calibrate_transcripts(
    transcripts: Source,
    *,
    extract: str = "number",
    base: int = 5,
    markers: str | Path | None = None,
    resample: str | None = None,
    stop: str | None = None,
    columns: Columns | Mapping[str, str] | None = None,
    max_attempts: int | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> Calibration:
    """Does the model know when it is wrong? p_s, p_dC, p_dW and predicted against observed accuracy, with intervals.

    ``transcripts``: a file (JSONL, TRL, verl, lm-eval, inspect) or rows in memory, with responses and reference answers.
    ``extract``: what an answer is (number, boxed, choice, code).
    ``markers``: a file of phrases at which an attempt ends, in place of ours. ``resample``: a token that ends it instead.
    ``columns``: where a row has what: ``{"response": "said"}``, also ``reference``, ``problem`` and ``group``.
    """
    need_at_least_one("calibrate", max_attempts=max_attempts, draws=draws)
    split, extractor = how_to_split(extract, base=base, markers=markers, resample=resample, stop=stop)
    read = read_transcripts(transcripts, columns)
    return judge(read.transcripts, split, extractor).calibrate(max_attempts=max_attempts, draws=draws, seed=seed)


def differ(a: Judged, b: Judged, *, draws: int = 1000, seed: int = 0) -> Decomposition:
    """B against A, responses to one problem drawn together."""
    return decompose(a.counts, b.counts, problems=(a.problems, b.problems), draws=draws, seed=seed)


def judge(transcripts: Sequence[Transcript], split: Splitter, extract: Extractor) -> Judged:
    """Every attempt of every response against the reference."""
    parts = [split(transcript.response, transcript.ended is not False) for transcript in transcripts]
    references = [reference_answer(transcript.reference, extract) for transcript in transcripts]
    return Judged(
        right=tuple(
            tuple(answer == reference for answer in part.answers)
            for part, reference in zip(parts, references, strict=True)
        ),
        stopped=tuple(part.stopped for part in parts),
        answers=tuple(part.answers for part in parts),
        problems=tuple(transcript.problem for transcript in transcripts),
    )


def by_group(transcripts: Sequence[Transcript]) -> dict[str, list[Transcript]]:
    """The transcripts of each group, in the order in which groups first appear."""
    groups: dict[str, list[Transcript]] = {}
    for transcript in transcripts:
        groups.setdefault(transcript.group, []).append(transcript)
    return groups
