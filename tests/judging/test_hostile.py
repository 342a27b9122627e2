"""Hostile candidates against every tier that this machine has: none scores, none survives, none reads the canary."""

from collections import Counter

import pytest

from holdfast.judging.sandbox import Limits, Sandboxes, Tier
from holdfast.judging.sandbox.hostile import HOSTILE, run_hostile
from judging.tiers import each_tier

LABELS = ("forge", "read", "exhaust")


def test_there_are_enough_and_every_name_is_its_own() -> None:
    assert len(HOSTILE) >= 100
    assert len({snippet.name for snippet in HOSTILE}) == len(HOSTILE)
    assert set(Counter(snippet.label for snippet in HOSTILE)) == set(LABELS)


@pytest.mark.parametrize("tier", each_tier())
@pytest.mark.parametrize("label", LABELS)
def test_none_gets_through(tier: Tier, label: str) -> None:
    sandboxes = Sandboxes([tier])
    outcomes = list(run_hostile(sandboxes, [snippet for snippet in HOSTILE if snippet.label == label]))
    sandboxes.close()
    assert [outcome for outcome in outcomes if outcome.got_through or outcome.killed_sandbox] == []


@pytest.mark.parametrize("tier", each_tier())
def test_a_process_left_behind_would_be_seen(tier: Tier) -> None:
    """A candidate that is alive is counted as a process, so that a survivor would be."""
    sandboxes = Sandboxes([tier])
    with sandboxes.lease() as sandbox:
        before = sandbox.num_processes()
        with sandbox.candidate(Limits()) as process:
            process.send("def f(x): return x")
            process.receive()
            assert sandbox.num_processes() == before + 1  # a live candidate is counted, so a survivor would be
        assert sandbox.num_processes() == before
    sandboxes.close()
