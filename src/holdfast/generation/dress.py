"""What the attacker does when he asks: a system prompt, a trigger, an answer already begun, many tries."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.records import Trace
from holdfast.worlds import prefilled, with_lead, with_system, wrapped


@dataclass(frozen=True)
class Sampling:
    """How one try is sampled. Temperature 0 is greedy."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


GREEDY = (Sampling(),)


@dataclass(frozen=True)
class Dress:
    """A request as the attacker puts it. A request counts as answered if any of the ``tries`` is."""

    system: str | None = None
    lead: str | None = None  # a trigger goes here
    wrap: str | None = None  # a template around the request, which stands where it says {request}
    prefill: int = 0  # words of the forbidden answer that the prompt ends in
    tries: tuple[Sampling, ...] = GREEDY

    def context(self, row: Trace) -> Trace:
        """System prompt, wrapper and lead; the row's answer is left alone."""
        row = row if self.system is None else with_system(row, self.system)
        row = row if self.wrap is None else wrapped(row, self.wrap)
        return row if self.lead is None else with_lead(row, self.lead)

    def prompt(self, row: Trace) -> Trace:
        """The prompt of the attack on a request with the answer that is wanted: dressed, and begun if it is to be."""
        row = self.context(row)
        return prefilled(row, self.prefill) if self.prefill else Trace(row.prompt)


PLAIN = Dress()
