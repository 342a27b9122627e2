"""The token microscope: rows of the training data, each token with what the objective does to it and what the anchor says.

The anchor's logits are taken before training, when the model still is its own anchor, so that a run needs no second model
for this. Only the tokens shown are kept, within a budget of bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.config import TrainConfig
from holdfast.data import atomic_text
from holdfast.heads import Reference, TokenStats, stats_from_logits
from holdfast.models.eval_mode import eval_mode
from holdfast.models.head_access import head_replaced
from holdfast.records import Role
from holdfast.tokens import TokenRow
from holdfast.tokens.show import text_in_place, token_texts
from holdfast.training.anchor_cache import CachedAnchor
from holdfast.training.anchors import ModelAnchor
from holdfast.training.collate import Collator, MicroBatch, StreamRow
from holdfast.training.streams import NumberedRows, ReadStream
from holdfast.training.trainer import StreamTrainer

MAX_ANSWERS = 6  # shown token by token
MAX_ROWS = 16  # of a stream: the divergence by position is a mean over them
MAX_TOKENS = 96  # of one answer, and of the answers that share a pass
MAX_PADDED = 2_048  # tokens of a pass with several rows
MAX_BYTES = 2**28  # of the anchor's logits, kept while the run trains
MAX_PROMPT = 2_000


@dataclass(frozen=True)
class Slide:
    """Rows of one stream that share a pass: the anchor's logits [N, V] at their targets, and how far off the start was."""

    rows: tuple[StreamRow, ...]
    anchor: Tensor
    kl_before: Tensor

    @property
    def nums(self) -> list[int]:
        """How many target tokens each row has."""
        return [row.row.num_targets for row in self.rows]


class Microscope:
    """Made before training, used after it. Every process of a run takes part; a sharded model needs them all."""

    def __init__(self, streams: Sequence[ReadStream], tokenizer: Any, collator: Collator, device: torch.device) -> None:
        self.streams, self.tokenizer, self.device = streams, tokenizer, device
        self.collator = replace(collator, needs_anchor=(False,) * len(streams), packing=False)
        self.rows: list[StreamRow] = []
        self.slides: list[Slide] = []

    def prepare(self, start: Any, anchor: Any, rows: NumberedRows) -> None:
        """Look at the rows with the anchor, and with the model that training starts from."""
        room = MAX_BYTES // (4 * start.get_output_embeddings().weight.shape[0])
        chosen = chosen_rows(rows, len(self.streams))
        needed = accumulate(row.row.num_targets for row in chosen)
        self.rows = [row for row, total in zip(chosen, needed, strict=True) if total <= room]
        for together in _passes(self.rows, len(self.streams)):
            batch = self._batch(together)
            reference = _logits(anchor, batch)
            kl = torch.zeros(len(reference))
            if anchor is not start:
                kl = _stats(_logits(start, batch), batch, reference, None).need("kl").float().cpu()
            self.slides.append(Slide(together, reference.float().cpu(), kl))

    def look(self, policy: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """``microscope.json``: a few answers token by token; ``depth.json``: KL to the anchor by position, by stream."""
        figures: dict[int, dict[str, Tensor]] = {}  # by the row's number
        kl: dict[int, list[tuple[Tensor, Tensor, Tensor]]] = {}
        for slide in self.slides:
            batch = self._batch(slide.rows)
            columns = self._columns(policy, slide, batch)
            kl.setdefault(slide.rows[0].stream, []).append((batch.targets.position, slide.kl_before, columns["kl"]))
            parts = {name: column.split(slide.nums) for name, column in columns.items()}
            for index, row in enumerate(slide.rows):
                figures[row.number] = {name: part[index] for name, part in parts.items()}
        answers = [self._answer(row, figures[row.number]) for row in self.rows[:MAX_ANSWERS]]
        return answers, [self._depth(number, passes) for number, passes in sorted(kl.items())]

    def _batch(self, rows: Sequence[StreamRow]) -> MicroBatch:
        return self.collator(rows).to(self.device)

    def _columns(self, policy: Any, slide: Slide, batch: MicroBatch) -> dict[str, Tensor]:
        """The figures of every target token, by name."""
        stream, targets = self.streams[slide.rows[0].stream].loss, batch.targets
        logits = _logits(policy, batch).float().requires_grad_()
        with torch.enable_grad():
            stats = _stats(logits, batch, slide.anchor.to(logits.device), stream.soften)
            loss = stream.loss(stats, targets.role, targets.position, 1.0)
            slope, gradient = torch.autograd.grad(loss.sum(), [stats.logp, logits], allow_unused=True)
        norm = torch.linalg.vector_norm(gradient, dim=-1)  # as training/monitor.py has it: at the logits
        tiny = torch.finfo(norm.dtype).tiny
        columns = {
            "kl": stats.need("kl").detach(),
            "gradient_share": torch.cat([own / own.sum().clamp(min=tiny) for own in norm.split(slide.nums)]),
            "anchor_top": stats.need("top_ref"),
            "policy_top": stats.top,
        }
        if slope is not None:  # the objective reads log p: w_t is what it multiplies the likelihood's gradient by
            columns["weight"] = -slope
        return {name: column.cpu() for name, column in columns.items()}

    def _answer(self, row: StreamRow, columns: Mapping[str, Tensor]) -> dict[str, Any]:
        stream = self.streams[row.stream]
        ids, roles = row.row.ids, row.row.roles
        texts = token_texts(ids, self.tokenizer)
        places = [place for place in range(1, len(ids)) if roles[place] != Role.PROMPT]
        tokens = []
        for index, place in enumerate(places):
            token: dict[str, Any] = {"text": texts[place], "role": Role(roles[place]).label}
            for name, column in columns.items():
                value = column[index].item()
                is_token = name.endswith("_top")
                token[name] = (
                    text_in_place(ids, place, int(value), texts, self.tokenizer) if is_token else float(f"{value:.4g}")
                )
            tokens.append(token)
        prompt = "\n".join(turn.visible for turn in stream.dataset.traces[row.row.source].prompt)
        return {
            "title": f"{stream.loss.name}, row {row.place + 1}",
            "stream": stream.loss.name,
            "objective": stream.settings.objective,
            "prompt": prompt[:MAX_PROMPT],
            "tokens": tokens,
            "num_left_out": stream.rows[row.place].num_targets - len(tokens),
        }

    def _depth(self, number: int, passes: Sequence[tuple[Tensor, Tensor, Tensor]]) -> dict[str, Any]:
        num_rows = sum(row.stream == number for row in self.rows)
        position = torch.cat([one[0].cpu() for one in passes])
        count = torch.bincount(position).double()
        before, after = (
            (
                torch.bincount(position, torch.cat([one[column] for one in passes]).double()) / count.clamp(min=1)
            ).tolist()
            for column in (1, 2)
        )
        name = self.streams[number].loss.name
        return {"group": "", "name": name, "before": before, "after": after, "num_answers": num_rows}


def chosen_rows(rows: NumberedRows, num_streams: int) -> list[StreamRow]:
    """Rows spread over every stream, the streams taking turns; long answers lose their end."""
    by_stream = [rows.of([number]) for number in range(num_streams)]
    nums = [min(MAX_ROWS, len(part)) for part in by_stream]
    spread = [[part[len(part) * i // num] for i in range(num)] for part, num in zip(by_stream, nums, strict=True)]
    turns = [part[turn] for turn in range(MAX_ROWS) for part in spread if turn < len(part)]
    return [replace(row, row=_cut(row.row)) for row in turns]


def _passes(rows: Sequence[StreamRow], num_streams: int) -> Iterator[tuple[StreamRow, ...]]:
    """Rows of one stream that fit into a pass: together their logits take no more than those of the longest answer may."""
    for number in range(num_streams):
        together: list[StreamRow] = []
        for row in [row for row in rows if row.stream == number]:
            wider = [*together, row]
            padded = len(wider) * max(len(each.row) for each in wider)
            if together and (sum(each.row.num_targets for each in wider) > MAX_TOKENS or padded > MAX_PADDED):
                yield tuple(together)
                wider = [row]
            together = wider
        if together:
            yield tuple(together)


def prepare_microscope(config: TrainConfig, trainer: StreamTrainer, streams: Sequence[ReadStream]) -> Microscope | None:
    """Look with the anchor, before training. None where the anchor is another model of which only a cache is at hand."""
    anchor, start = trainer.step_loss.anchor, trainer.model
    if isinstance(anchor, CachedAnchor) and config.anchor.model not in (None, config.model.name):
        return None
    microscope = Microscope(streams, trainer.processing_class, trainer.collator, trainer.accelerator.device)
    rows: Any = trainer.train_dataset
    with trainer.accelerator.autocast():  # it sees what training sees
        microscope.prepare(start, anchor.model if isinstance(anchor, ModelAnchor) else start, rows)
    return microscope


def write_microscope(microscope: Microscope, config: TrainConfig, trainer: StreamTrainer) -> None:
    """Write ``microscope.json`` and ``depth.json`` for the report, after training."""
    with trainer.accelerator.autocast():
        answers, lines = microscope.look(trainer.model)
    if not trainer.accelerator.is_main_process:
        return
    depth = {"to": config.anchor.model or config.model.name, "lines": lines}
    for name, content in (("microscope.json", answers), ("depth.json", depth)):
        with atomic_text(trainer.run.path / name) as file:
            json.dump(content, file, ensure_ascii=False, separators=(",", ":"))


def _cut(row: TokenRow) -> TokenRow:
    targets = [index for index, role in enumerate(row.roles) if role != Role.PROMPT]
    if len(targets) <= MAX_TOKENS:
        return row
    stop = targets[MAX_TOKENS]
    return row.until(stop)


@torch.no_grad()
def _logits(model: Any, batch: MicroBatch) -> Tensor:
    """Logits [N, V] at the target tokens, made by the model's own head within its own forward; no dropout."""

    def select(hidden: Tensor, head: nn.Module) -> Tensor:
        chosen = hidden.flatten(0, 1)[batch.targets.index]
        logits: Tensor = type(head).forward(head, chosen[None])
        return logits

    with eval_mode(model), head_replaced(model, select):
        logits: Tensor = model(**batch.inputs.model_inputs()).logits[0]
    return logits


def _stats(logits: Tensor, batch: MicroBatch, anchor: Tensor, soften: float | None) -> TokenStats:
    return stats_from_logits(logits, batch.targets.ids, Reference(logits=anchor), soften=soften)
