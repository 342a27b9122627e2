"""Judges by name, as configs and the command line write them."""

from __future__ import annotations

import os
from collections.abc import Callable

from holdfast.config import InputError, nearest_or_all
from holdfast.judging.judge import Judge
from holdfast.judging.policy import CodePolicy
from holdfast.judging.refusal_phrases import RefusalPhrases
from holdfast.judging.world import WorldJudge

KEY = "HOLDFAST_JUDGE_KEY"
"""Environment variable with the key of a judge's endpoint, if it wants one."""
GUARDS = ("llama_guard", "wildguard", "shieldgemma", "strongreject")
FORM = "FORMAT:MODEL@URL, such as wildguard:allenai/wildguard@http://localhost:8000/v1"


def find_judge(name: str) -> Judge:
    """``world``, ``refusal_phrases``, ``learned`` (or ``learned:cpu``), or a guard model's endpoint: FORMAT:MODEL@URL."""
    kind, _, rest = name.partition(":")
    if kind in GUARDS:
        return _endpoint(kind, rest, name)
    if kind == "learned":
        return _learned(rest or "auto")
    if name in PLAIN:
        return PLAIN[name]()
    known = (*PLAIN, "learned", *GUARDS)
    raise InputError(f"judge '{name}': no such judge{nearest_or_all(kind, known)}")


PLAIN: dict[str, Callable[[], Judge]] = {
    "world": WorldJudge,
    "refusal_phrases": RefusalPhrases,
    "code_policy": CodePolicy,
}


def _learned(device: str) -> Judge:
    """Looked for at once: a missing package is told before anything is asked of a model."""
    from holdfast.judging.embeddings import INSTALL, PACKAGE, package_folder
    from holdfast.judging.learned_judge import LearnedJudge

    package_folder(PACKAGE, INSTALL)
    return LearnedJudge(device)


def _endpoint(kind: str, rest: str, name: str) -> Judge:
    from holdfast.generation.endpoint import EndpointSampler
    from holdfast.judging.endpoint_judge import EndpointJudge
    from holdfast.judging.guard_formats import FORMATS

    model, _, url = rest.rpartition("@")
    if not model or not url:
        raise InputError(f"judge '{name}': expected {FORM}")
    return EndpointJudge(FORMATS[kind], EndpointSampler(url, model, key=os.environ.get(KEY), goes_on=False))
