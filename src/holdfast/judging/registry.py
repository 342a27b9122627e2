"""Judges by name, as configs and the command line write them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.config import InputError, nearest_or_all
from holdfast.config.plugins import look_up
from holdfast.judging.at_threshold import AtThreshold
from holdfast.judging.guard_formats import FORMATS
from holdfast.judging.judge import Judge
from holdfast.judging.outcome import OutcomeJudge, outcome_embeddings
from holdfast.judging.parts import (
    FormJudge,
    OpeningJudge,
    information_judge,
    nearness_judge,
    topic_judge,
    yes_no_judge,
)
from holdfast.judging.policy import CodePolicy
from holdfast.judging.refusal_phrases import RefusalPhrases
from holdfast.judging.world import WorldJudge

if TYPE_CHECKING:
    from holdfast.generation.endpoint import EndpointSampler

KEY = "HOLDFAST_JUDGE_KEY"
"""Environment variable with the key of a judge's endpoint, if it wants one."""
JUDGE_TIMEOUT, JUDGE_TRIES = 120.0, 5
WITH_EMBEDDINGS = ("nearness", "outcome_embeddings")
PARTS_WITH_MODEL = ("information", "yes_no")
FORM = "FORMAT:MODEL@URL, such as wildguard:allenai/wildguard@http://localhost:8000/v1"


def check_judge(name: str) -> None:
    """Raise ``InputError`` where no judge has this name, or its package is not there. Nothing is loaded or asked for."""
    kind, _, rest = name.partition(":")
    if kind == "at":
        check_judge(_threshold(rest, name)[1])
        return
    with_more = ("learned", "asked", "onnx", *PARTS_WITH_MODEL, *FORMATS)
    if kind not in with_more and not name.startswith("nearness:") and look_up(JUDGES, name) is None:
        raise InputError(f"judge '{name}': no such judge{nearest_or_all(kind, (*JUDGES, *with_more))}")
    if kind == "learned" or name in WITH_EMBEDDINGS:
        from holdfast.judging.embeddings import INSTALL, PACKAGE, package_folder

        package_folder(PACKAGE, INSTALL)


def find_judge(name: str, *, timeout: float = JUDGE_TIMEOUT, num_tries: int = JUDGE_TRIES) -> Judge:
    """``outcome``, ``refusal_phrases``, ``world``, ``learned`` (or ``learned:cpu``), or a guard's endpoint: FORMAT:MODEL@URL.

    ``onnx:FOLDER`` is a small guard model that onnxruntime runs.
    ``asked:MODEL`` asks a language model for the outcome, ``asked:MODEL@URL`` one behind an endpoint.
    ``opening``, ``form``, ``topic``, ``nearness``, ``information:MODEL`` and ``yes_no:MODEL`` are parts: each knows one outcome.
    ``nearness:FOLDER`` reads the sentence embeddings of another model than MiniLM, one that a curve was fitted to.
    ``at:0.9:JUDGE`` is any of them whose answers pass from that score.
    ``timeout``: seconds to wait for one answer of an endpoint, which is asked ``num_tries`` times.
    """
    check_judge(name)
    kind, _, rest = name.partition(":")
    if kind in FORMATS:
        return _endpoint(kind, rest, name, timeout, num_tries)
    if kind == "at":
        threshold, judge = _threshold(rest, name)
        return AtThreshold(find_judge(judge, timeout=timeout, num_tries=num_tries), threshold)
    if kind == "learned":
        return _learned(rest or "auto")
    if kind == "onnx":
        return _onnx(rest, name)
    if kind == "asked":
        return _asked_judge(rest, name, timeout, num_tries)
    if kind in PARTS_WITH_MODEL:
        return _part(kind, rest, name)
    if name.startswith("nearness:"):
        return _nearness(rest, name)
    return _checked(name, JUDGES[name]())


JUDGES: dict[str, Callable[[], Judge]] = {
    "outcome": OutcomeJudge,
    "outcome_embeddings": outcome_embeddings,
    "world": WorldJudge,
    "refusal_phrases": RefusalPhrases,
    "code_policy": CodePolicy,
    "opening": OpeningJudge,
    "form": FormJudge,
    "topic": topic_judge,
    "nearness": nearness_judge,
}
"""Those that need nothing to be made; your own may join them."""


def _threshold(rest: str, name: str) -> tuple[float, str]:
    """SCORE and JUDGE of ``at:SCORE:JUDGE``. Raises ``InputError`` for anything else."""
    score, _, judge = rest.partition(":")
    try:
        threshold = float(score)
    except ValueError:
        threshold = math.nan
    if not 0 <= threshold <= 1 or not judge:
        raise InputError(
            f"judge '{name}': expected at:SCORE:JUDGE with a score between 0 and 1, such as at:0.9:learned"
        )
    return threshold, judge


def _checked(name: str, made: object) -> Judge:
    """The judge. Raises ``InputError`` for an object that is none, before a model has answered for hours."""
    if not isinstance(made, Judge):
        lacks = next(part for part in ("name", "__call__", "refuses") if not hasattr(made, part))
        raise InputError(f"judge '{name}': {type(made).__name__} lacks '{lacks}': a judge has name, __call__, refuses")
    return made


def _learned(device: str) -> Judge:
    from holdfast.judging.learned_judge import LearnedJudge
    from holdfast.models.placement import choose_device

    choose_device(device)  # raises for one that is not here
    return LearnedJudge(device)


def _onnx(folder: str, name: str) -> Judge:
    from holdfast.judging.onnx_judge import OnnxJudge

    if not folder:
        raise InputError(f"judge '{name}': expected onnx:FOLDER with model.onnx, tokenizer.json and config.json")
    return OnnxJudge(Path(folder).expanduser())


def _nearness(folder: str, name: str) -> Judge:
    if not folder:
        raise InputError(f"judge '{name}': expected nearness:FOLDER with a model of sentence embeddings")
    return nearness_judge(Path(folder).expanduser())


def _asked_judge(rest: str, name: str, timeout: float, num_tries: int) -> Judge:
    """A model behind an endpoint, or one that is loaded here."""
    from holdfast.generation import ModelSampler, is_endpoint
    from holdfast.judging.asked_judge import AskedJudge
    from holdfast.models import load

    if not rest:
        raise InputError(f"judge '{name}': expected asked:MODEL or asked:MODEL@URL")
    model, _, url = rest.rpartition("@")
    if is_endpoint(url):
        return AskedJudge(_sampler(model, url, timeout, num_tries))
    return AskedJudge(ModelSampler(load(rest)))


def _part(kind: str, model: str, name: str) -> Judge:
    """A part that asks a model, which is loaded here."""
    from holdfast.models import load

    if not model:
        raise InputError(f"judge '{name}': expected {kind}:MODEL, best the untouched model")
    return (information_judge if kind == "information" else yes_no_judge)(load(model))


def _endpoint(kind: str, rest: str, name: str, timeout: float, num_tries: int) -> Judge:
    from holdfast.judging.endpoint_judge import EndpointJudge

    model, _, url = rest.rpartition("@")
    if not model or not url:
        raise InputError(f"judge '{name}': expected {FORM}")
    return EndpointJudge(FORMATS[kind], _sampler(model, url, timeout, num_tries))


def _sampler(model: str, url: str, timeout: float, num_tries: int) -> EndpointSampler:
    from holdfast.generation.endpoint import EndpointSampler

    key = os.environ.get(KEY)
    return EndpointSampler(url, model, key=key, timeout=timeout, num_tries=num_tries, goes_on=False)
