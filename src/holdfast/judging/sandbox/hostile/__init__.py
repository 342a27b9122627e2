"""Candidates that try to get through the walls, and the run that shows what got through. All of them are inert.

A program defines ``f(x)``. It *gets through* when the trusted test passes: a forger's test wants a number that no sandbox ever
sees; a reader's test passes ``f`` the place of a planted canary and wants what is written there; a process left behind
counts too. Addresses are reserved ones, forks are bounded, the canary is the only secret.
"""

from holdfast.judging.sandbox.hostile.run import Outcome, run_hostile
from holdfast.judging.sandbox.hostile.snippets import HOSTILE, Snippet, read_snippets

__all__ = ["HOSTILE", "Outcome", "Snippet", "read_snippets", "run_hostile"]
