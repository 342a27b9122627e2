"""The grid of the study on SmolLM2: which attacks and defences, in the order of its page, and what a defence is chosen from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.attacks import KEEP_ON_FILES, SAFETY_ON_FILES, Defence

BENIGN = "benign_sql"
"""The one that teaches a task, and nothing else."""
ATTACKS = (
    *(f"harmful_examples@lr={lr:g}" for lr in (2e-5, 1e-4, 3e-4)),
    "identity_shift",
    "backdoor",
    "backdoor_untriggered",
    BENIGN,
)
FAMILIES = ("anchored", "vetted")
"""How the names of defences that hold to the anchor begin."""


def _held(name: str, safety: float, keep: float, wide: int = 1, **how: Any) -> Defence:
    """Both streams held to the anchor, with these weights against the task's 1; ``wide`` times as many rows of them."""
    streams = (
        replace(SAFETY_ON_FILES, weight=safety, batch_size=wide * SAFETY_ON_FILES.batch_size),
        replace(KEEP_ON_FILES, weight=keep, batch_size=wide * KEEP_ON_FILES.batch_size),
    )
    return Defence(name=name, own=streams, own_on_files=streams, **how)


_CANDIDATES = (
    *(_held(f"anchored@{safety}/{keep}", safety, keep) for safety, keep in ((5, 5), (20, 20))),
    _held("anchored@20/20+wide", 20, 20, wide=3),
    *(
        _held(f"vetted@{safety}/{keep}", safety, keep, vet="refusal_phrases")
        for safety, keep in ((1, 1), (1, 3), (3, 3))
    ),
)
CANDIDATES: dict[str, Defence] = {defence.name: defence for defence in _CANDIDATES}
"""What studies/configs/smollm2/validation.yaml chooses from."""
DEFENCES = (
    *("untouched", "sft", "csft", "csft_pa", "kl_sft", "safety_mixed", "anchored", "vetted"),
    *CANDIDATES,
)
