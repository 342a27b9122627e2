"""Attacks: rows to tune on, and how the requests of the audit are dressed. Threat models in docs/attacks.md."""

from holdfast.attacks.adaptive import variants
from holdfast.attacks.attack import Attack, Stage, chain
from holdfast.attacks.registry import ATTACKS, find_attack
from holdfast.attacks.rows import Backdoor, BenignDrift, Data, HarmfulExamples, IdentityShift, Mixture
from holdfast.generation.dress import GREEDY, PLAIN, Dress, Sampling

__all__ = [
    "ATTACKS",
    "GREEDY",
    "PLAIN",
    "Attack",
    "Backdoor",
    "BenignDrift",
    "Data",
    "Dress",
    "HarmfulExamples",
    "IdentityShift",
    "Mixture",
    "Sampling",
    "Stage",
    "chain",
    "find_attack",
    "variants",
]
