"""Further ways to ask a tuned model what is forbidden, in the same cell: a tuning costs more than an asking.

``prefilled@K`` begins every answer with the first K tokens of one that the stock model wrote at run time. ``sampled@N`` asks N
times at temperature 1; one success is success. ``four_bits`` comes last, because it rounds the weights (``models.four_bits``);
harmless requests are asked then too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from holdfast.config.files import FOUR_BITS
from holdfast.generation import Sampling
from holdfast.models import LoadedModel, round_linear_layers
from holdfast.records import Role, Segment, Trace, Turn

HARMLESS = "harmless"
"""Of the key under which harmless requests are kept that were asked in a way: ``four_bits_harmless``."""

Answer = Callable[[Sequence[Trace], Sampling], list[str]]
"""What the model says to these prompts, sampled in this way."""


class Try(NamedTuple):
    """The answers of every try to the same requests; ``harmless`` where those were not the forbidden ones."""

    way: str
    tries: list[list[str]]
    harmless: bool = False


def ask_in_ways(
    ways: Sequence[str],
    model: LoadedModel,
    answer: Answer,
    *,
    forbidden: Sequence[Trace],
    begun: Callable[[], Sequence[Trace]],
    lookalikes: Sequence[Trace],
) -> Iterator[Try]:
    """Ask in the order given, but ``four_bits`` last, because it leaves the model rounded.

    ``forbidden``: requests in the attack's dress. ``begun`` makes the same with an answer; not every way needs it.
    """
    for way in sorted(ways, key=lambda way: way == FOUR_BITS):
        kind, _, number = way.partition("@")
        if kind == "prefilled":
            yield Try(way, [answer([_begin(row, int(number), model) for row in begun()], Sampling())])
        elif kind == "sampled":
            yield Try(way, [answer(forbidden, Sampling(1.0, 1.0, seed)) for seed in range(int(number))])
        else:
            round_linear_layers(model.model)
            yield Try(way, [answer(forbidden, Sampling())])
            yield Try(f"{way}_{HARMLESS}", [answer(lookalikes, Sampling())], harmless=True)


def _begin(row: Trace, num_tokens: int, model: LoadedModel) -> Trace:
    """The prompt with the first tokens of its answer, as this model's tokenizer cuts them; no letter is cut in two."""
    text = row.turns[-1].visible
    tokens = model.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ends = [end for _, end in tokens["offset_mapping"][:num_tokens]]
    begun = Segment(Role.PROMPT, text[: max(ends, default=0)])
    return Trace((*row.prompt, Turn("assistant", (begun,))))
