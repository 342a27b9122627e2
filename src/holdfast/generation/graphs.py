"""Fast decoding on a GPU: a static key/value cache, and one step captured as a CUDA graph that is replayed.

A step of a small model is a thousand kernels of a microsecond each: launched one by one, the GPU waits for Python. A graph
launches them at once; nothing is compiled, so it is ready in a fraction of a second for every model that is loaded. What is
captured runs as it is on a CPU too, where the tests compare it with transformers.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, Cache, StaticCache
from transformers.cache_utils import StaticLayer

from holdfast.generation.choosing import draw
from holdfast.generation.reading import next_logits, padded_left, positions_of
from holdfast.models.positions import num_positions

CHECK_EVERY = 8  # steps between two looks at whether all rows have ended: each look waits for the GPU
SLOT_STEP = 64  # caches are a multiple of this long, so that batches of similar length share a graph
FEWEST_ROWS = 8  # of a batch that memory is too short for: below it, something else is wrong
ATTENTION = "holdfast_decode"


@dataclass(frozen=True, slots=True)
class Decoding:
    """What to write. Temperature 0 is greedy."""

    max_new_tokens: int
    stops: Sequence[int]
    pad_id: int
    temperature: float = 0.0
    top_p: float = 1.0
    keep_logps: bool = False  # of the tokens written, at this temperature


@dataclass(frozen=True, slots=True)
class Written:
    """The new ids of every row up to and including the one that ends it; with ``keep_logps``, their log-probabilities."""

    ids: list[list[int]]
    logps: list[list[float]]


def why_not_graphs(model: Any) -> str | None:
    """Why this model cannot be decoded here; None if it can."""
    config = model.config
    if model.device.type != "cuda":
        return "it needs a CUDA device"
    if config.is_encoder_decoder or config.sub_configs:
        return "the model has several parts"
    if len(set(getattr(model, "hf_device_map", {}).values())) > 1:
        return "the model is spread over several devices"
    if config._attn_implementation not in ("sdpa", "eager"):
        return f"attention {config._attn_implementation} takes no mask of ours"
    if any(type(layer) is not StaticLayer for layer in StaticCache(config=config, max_cache_len=8).layers):
        return "some layers keep something else than all keys and values"
    return None


def graphs_for(model: Any, how: Decoding, num_rows: int) -> GraphDecoder | None:
    """A decoder by CUDA graphs; None where the model cannot be decoded so. On a GPU the reason is printed, once."""
    reason = why_not_graphs(model)
    if reason is None:
        return GraphDecoder(model, how, num_rows)
    if model.device.type == "cuda":
        _say_once(reason)
    return None


class GraphDecoder:
    """Writes batch after batch, ``num_rows`` rows at a time; cache and graph are kept as long as the batches fit them."""

    def __init__(self, model: Any, how: Decoding, num_rows: int) -> None:
        self.model, self.how, self.num_rows = model, how, num_rows
        self._batch: _Batch | None = None
        self._failed = False

    def attempt(self, prompts: Sequence[Sequence[int]], uniform: Tensor | None = None) -> Written | None:
        """Write one batch; None if the model cannot be captured or memory is short. The reason is printed once."""
        if self._failed:
            return None
        try:
            return self(prompts, uniform)
        except torch.OutOfMemoryError:
            reason = "out of memory"
        except (RuntimeError, NotImplementedError) as error:
            self._failed, reason = True, str(error).splitlines()[0]
        self._batch = None
        if self._failed or self.num_rows <= FEWEST_ROWS:
            self._failed = True
            _say_once(reason)
            return None
        torch.cuda.empty_cache()  # here, where no exception holds on to what it was raised in
        self.num_rows = -(-self.num_rows // 2)
        return self.attempt(prompts, uniform)

    @torch.no_grad()
    def __call__(self, prompts: Sequence[Sequence[int]], uniform: Tensor | None = None) -> Written:
        """``uniform`` [rows, max_new_tokens], from [0, 1): the random numbers of every row; needed above temperature 0."""
        if len(prompts) > self.num_rows:
            cuts = [slice(at, at + self.num_rows) for at in range(0, len(prompts), self.num_rows)]
            parts = [self(prompts[cut], None if uniform is None else uniform[cut]) for cut in cuts]
            return Written([row for part in parts for row in part.ids], [row for part in parts for row in part.logps])
        longest = max(map(len, prompts)) + self.how.max_new_tokens
        num_slots = -(-longest // SLOT_STEP) * SLOT_STEP
        if self._batch is None or self._batch.num_slots != num_slots:
            self._batch = None  # its memory first
            self._batch = _Batch(self.model, self.how, self.num_rows, num_slots)
        return self._batch.write(prompts, uniform)


class _Layer(StaticLayer):
    """Keys in the values' dtype: under autocast they leave their rotation in float32, and attention rounds them anyway."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Put them into their slots; returns all slots."""
        return super().update(key_states.to(value_states.dtype), value_states, *args, **kwargs)


class _Batch:
    """Tensors that stay where they are, because the graph reads and writes them there."""

    def __init__(self, model: Any, how: Decoding, num_rows: int, num_slots: int) -> None:
        device = model.device
        self.model, self.how, self.num_slots = model, how, num_slots
        num_layers = len(StaticCache(config=model.config, max_cache_len=num_slots).layers)
        self.cache = Cache(layers=[_Layer(num_slots) for _ in range(num_layers)])
        self.graph: torch.cuda.CUDAGraph | None = None
        self.last_position = num_positions(model.config) - 1
        self.stops = torch.tensor(list(how.stops), device=device)
        self.slots = torch.arange(num_slots, device=device)
        self.given = torch.empty(num_rows, num_slots, dtype=torch.bool, device=device)  # False: padding of the prompt
        self.uniform = torch.zeros(num_rows, how.max_new_tokens, dtype=torch.float64, device=device)
        self.ids = torch.empty(num_rows, how.max_new_tokens, dtype=torch.long, device=device)
        self.logps = torch.zeros(num_rows, how.max_new_tokens if how.keep_logps else 0, device=device)
        self.last = torch.empty(num_rows, 1, dtype=torch.long, device=device)
        self.position = torch.empty_like(self.last)
        self.done = torch.empty(num_rows, dtype=torch.bool, device=device)
        self.slot = torch.empty(1, dtype=torch.long, device=device)  # where the last token's keys and values will lie
        self.count = torch.empty_like(self.slot)  # how many tokens are written

    def write(self, prompts: Sequence[Sequence[int]], uniform: Tensor | None) -> Written:
        """The answers to one batch. Missing rows are filled with padding, and have ended from the start."""
        num = len(prompts)
        if uniform is not None:
            self.uniform[:num] = uniform.to(self.uniform)
        self._read([*prompts, *[[self.how.pad_id]] * (len(self.done) - num)], num)
        steps = self.how.max_new_tokens - 1
        for number in range(steps):
            if number % CHECK_EVERY == 0 and bool(self.done.all()):
                break
            self._replay()
        written = int(self.count)
        rows = self.ids[:num, :written].tolist()
        ids = [until_stop(row, self.how.stops) for row in rows]
        logps = self.logps[:num, :written].tolist() if self.how.keep_logps else [[]] * num
        return Written(ids, [row[: len(kept)] for row, kept in zip(logps, ids, strict=True)])

    def _read(self, prompts: Sequence[Sequence[int]], num: int) -> None:
        """The prompts, padded on the left, and the first token after them."""
        ids, given = padded_left(prompts, self.how.pad_id, self.done.device)
        width = ids.shape[1]
        self.given[:, :width], self.given[:, width:] = given, True
        self.done.copy_(torch.arange(len(prompts), device=ids.device) >= num)
        self.position.copy_(given.sum(1, keepdim=True))
        self.slot.fill_(width)
        self.count.zero_()
        self.cache.reset()
        self._choose(next_logits(self.model, ids, given.long(), positions_of(given), self.cache))

    def _replay(self) -> None:
        """Replay the captured step. The first step runs uncaptured, to set up what cannot be set up during capture."""
        if self.graph is not None:
            self.graph.replay()
            return
        with grouped_attention(self.model):
            self._step()
            if self.done.is_cuda:
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    self._step()
                self.graph = graph

    def _step(self) -> None:
        """Feed the last token of every row, write the next. Nothing here may look at a value, or change a shape."""
        seen = self.given & (self.slots <= self.slot)
        mask = torch.zeros(seen.shape, dtype=self.model.dtype, device=seen.device)
        mask.masked_fill_(~seen, torch.finfo(mask.dtype).min)
        position = self.position.clamp(max=self.last_position)  # what is written beyond it is not kept
        logits = next_logits(self.model, self.last, mask[:, None, None], position, self.cache)
        self.slot += 1
        self.position += 1
        self._choose(logits)

    def _choose(self, logits: Tensor) -> None:
        how = self.how
        luck = self.uniform.index_select(1, self.count.clamp(max=how.max_new_tokens - 1))
        chosen = draw(logits, luck, temperature=how.temperature, top_p=how.top_p)
        chosen = chosen.masked_fill(self.done[:, None], how.pad_id)
        if how.keep_logps:
            logp = (logits.float() / (how.temperature or 1.0)).log_softmax(-1).gather(1, chosen)
            self.logps.index_copy_(1, self.count, logp)
        self.ids.index_copy_(1, self.count, chosen)
        self.done |= (chosen == self.stops).any(1)
        self.last.copy_(chosen)
        self.count += 1


def until_stop(row: list[int], stops: Sequence[int]) -> list[int]:
    """The ids up to and including the one that ends the text."""
    end = next((index for index, token in enumerate(row) if token in stops), len(row) - 1)
    return row[: end + 1]


@functools.cache
def _say_once(reason: str) -> None:
    warnings.warn(f"generation goes without CUDA graphs, which is slower: {reason}", stacklevel=2)


@contextlib.contextmanager
def grouped_attention(model: Any) -> Iterator[None]:
    """Let the model's layers attend by ``attend_in_groups``."""
    config = model.config
    before = config._attn_implementation
    config._attn_implementation = ATTENTION
    try:
        yield
    finally:
        config._attn_implementation = before


def attend_in_groups(
    _: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, scaling: float, **options: Any
) -> tuple[Tensor, None]:
    """Attention of one token per row: the query heads that share keys stand as so many queries, and no key is copied.

    query [B, H, 1, D], key and value [B, K, S, D] -> [B, 1, H, D]
    """
    strange = [name for name in ("softcap", "s_aux", "sliding_window") if options.get(name) is not None]
    if strange:
        raise NotImplementedError(f"this attention has {' and '.join(strange)}")
    rows, heads, _, width = query.shape
    queries = query.reshape(rows, key.shape[1], heads // key.shape[1], width)
    mask = attention_mask.to(query.dtype)
    mixed = scaled_dot_product_attention(queries, key, value, attn_mask=mask, scale=scaling)
    return mixed.reshape(rows, 1, heads, -1), None


AttentionInterface.register(ATTENTION, attend_in_groups)
