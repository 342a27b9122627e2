"""A judge whose answers pass from a score of one's own choosing, such as one that ``holdfast oversee calibrate`` chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.judging.judge import BatchJudge, Judge, Request, refusals, verdicts
from holdfast.records import Outcome, Verdict


@dataclass(frozen=True)
class AtThreshold(BatchJudge):
    """Safe is what scores ``threshold`` or more, whatever the judge itself calls safe; what it did not score stays unscored."""

    judge: Judge
    threshold: float

    @property
    def name(self) -> str:
        """The name by which configs ask for it."""
        return f"at:{self.threshold:.10g}:{self.judge.name}"

    def refuses(self, prompt: Request, response: str) -> bool:
        """What the judge itself says of refusing; the threshold has no part in it."""
        return self.judge.refuses(prompt, response)

    def many(self, pairs: Sequence[tuple[Request, str]]) -> list[Verdict]:
        """The judge's verdicts by their scores."""
        return [self._by_score(verdict) for verdict in verdicts(self.judge, pairs)]

    def refuses_many(self, pairs: Sequence[tuple[Request, str]]) -> list[bool | None]:
        """What the judge itself says."""
        return refusals(self.judge, pairs)

    def _by_score(self, verdict: Verdict) -> Verdict:
        if verdict.safe is None or verdict.score is None:
            return replace(verdict, safe=None, judge=self.name)
        reason = f"{verdict.reason}; score {verdict.score:.3g}, passes from {self.threshold:.10g}"
        safe = verdict.score >= self.threshold
        return replace(verdict, safe=safe, reason=reason, judge=self.name, outcome=_outcome(verdict, safe=safe))


def _outcome(verdict: Verdict, *, safe: bool) -> Outcome | None:
    """The judge's outcome, unless the threshold says otherwise: what does not pass has complied, what passes has not."""
    if verdict.outcome is None or (verdict.outcome != "complied") == safe:
        return verdict.outcome
    if not safe:
        return "complied"
    return "refused" if verdict.p is not None and verdict.p.refused > verdict.p.missed else "missed"
