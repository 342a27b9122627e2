"""Figures for Prometheus. No prompt, no answer and no key is ever a label."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from holdfast.records import Verdict


class Metrics:
    """A registry of its own, so that two servers in one process do not collide."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("holdfast_requests", "Chat requests by outcome", ["outcome"], registry=self.registry)
        self.seconds = Histogram("holdfast_request_seconds", "Time to answer", registry=self.registry)
        self.in_flight = Gauge("holdfast_in_flight", "Requests being answered", registry=self.registry)
        self.candidates = Counter("holdfast_candidates", "Candidates by verdict", ["verdict"], registry=self.registry)
        self.outcomes = Counter("holdfast_outcomes", "Candidates by outcome", ["outcome"], registry=self.registry)
        self.backend_errors = Counter("holdfast_backend_errors", "Failed draws", ["backend"], registry=self.registry)
        self.judge_faults = Counter("holdfast_judge_faults", "Verdicts that never came", registry=self.registry)

    def count(self, verdicts: Sequence[Verdict]) -> None:
        """Candidates, by verdict and, where the judge tells it, by outcome."""
        for verdict in verdicts:
            self.candidates.labels({True: "safe", False: "unsafe", None: "not judged"}[verdict.safe]).inc()
            if verdict.outcome is not None:
                self.outcomes.labels(verdict.outcome).inc()

    def text(self) -> bytes:
        """As /metrics serves it."""
        return generate_latest(self.registry)
