"""One optimizer step on a GPU: csft_pa against plain SFT with Liger's fused head on the same packed rows.

    python -m benchmarks.step_gpu [--json benchmarks/results/step_gpu.json]

Random weights in the shapes of SmolLM2-135M (all of it) and of Llama-3-8B (half of its layers), bf16, AdamW, 8,192
tokens in rows of 512. The body is the same for both; Liger's chunk is the one that the head's benchmark finds best. The
floors: a second forward makes 4/3 of a full step and 3/2 of one with a frozen base; a cached anchor costs its head's product.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.gpu_clock import machine, side_by_side
from benchmarks.head_gpu import attempt
from benchmarks.ledger import committed, finish, provenance, write
from holdfast import objectives
from holdfast.heads import TokenStats
from holdfast.records import Role
from holdfast.tokens import TokenRow
from holdfast.training.anchor_cache import CachedAnchor, build_cache
from holdfast.training.anchors import AdapterOffAnchor, Anchor, ModelAnchor
from holdfast.training.collate import Collator, StreamRow
from holdfast.training.loss import StepLoss, StreamLoss

ROW, PROMPT = 512, 64
LIGER_CHUNK, ROUNDS = 16, 5


@dataclass(frozen=True)
class Shape:
    name: str
    config: dict[str, Any]


SHAPES = (
    Shape(
        "SmolLM2-135M",
        {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
         "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": True},
    ),
    Shape(
        "Llama-3-8B, 16 layers",
        {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 16, "num_attention_heads": 32,
         "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False},
    ),
)  # fmt: skip


def make_model(shape: Shape, seed: int, device: str) -> Any:
    torch.manual_seed(seed)
    with torch.device(device):
        kept = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            return LlamaForCausalLM(LlamaConfig(**shape.config))
        finally:
            torch.set_default_dtype(kept)


def make_rows(num_vocab: int, num_tokens: int) -> list[StreamRow]:
    """Rows of one length: a prompt and an answer."""
    random = torch.Generator().manual_seed(0)
    roles = [int(Role.PROMPT)] * PROMPT + [int(Role.RESPONSE)] * (ROW - PROMPT)
    ids = torch.randint(num_vocab, (num_tokens // ROW, ROW), generator=random).tolist()
    return [StreamRow(TokenRow(row_ids, roles, list(range(ROW))), 0, n, n) for n, row_ids in enumerate(ids)]


def csft_pa(stats: TokenStats, role: Tensor, position: Tensor, progress: float) -> Tensor:  # noqa: ARG001
    return objectives.csft_pa(stats, position=position)


def sft(stats: TokenStats, role: Tensor, position: Tensor, progress: float) -> Tensor:  # noqa: ARG001
    return objectives.sft(stats)


class Bench:
    """A policy, its optimizer and a micro-batch on the device."""

    def __init__(self, shape: Shape, *, lora: bool, device: str = "cuda", num_tokens: int = 8192) -> None:
        self.shape, self.device = shape, device
        self.model = make_model(shape, 0, device)
        if lora:
            from peft import LoraConfig, get_peft_model

            config = LoraConfig(task_type="CAUSAL_LM", r=16, target_modules="all-linear")
            self.model = get_peft_model(self.model, config)
        self.model.train()
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=device == "cuda")
        self.rows = make_rows(shape.config["vocab_size"], num_tokens)
        self.collator = Collator(0, (True,), packing=True)
        self.batch = self.collator(self.rows).to(device)

    def ours(self, loss: Any, anchor: Anchor | None) -> Callable[[], None]:
        name = loss.__name__
        stream = StreamLoss(name, loss, 1.0, anchor is not None, want=objectives.stats_read(name))
        step_loss = StepLoss([stream], anchor, plain=True)

        def forward() -> Tensor:
            batch = self.batch if anchor is not None else replace(self.batch, anchor=None)
            return step_loss(self.model, batch, self.batch.counts, progress=0.0, want_grad_norm=False).loss

        return self._step(forward)

    def liger(self) -> Callable[[], None]:
        """Plain SFT: Liger's fused linear cross-entropy on the hidden states of the same tokens."""
        from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction as Function

        head = self.model.get_output_embeddings()
        body = (self.model.get_base_model() if hasattr(self.model, "peft_config") else self.model).model
        targets = self.batch.targets

        def forward() -> Tensor:
            hidden = body(**self.batch.inputs.model_inputs()).last_hidden_state.flatten(0, 1)[targets.index]
            returned = Function.apply(
                hidden, head.weight, targets.ids, None, None, -100, 0.0, 0.0, "mean",
                None, False, None, False, False, False, None, None, LIGER_CHUNK,
            )  # fmt: skip
            loss: Tensor = returned[0] if isinstance(returned, tuple) else returned
            return loss

        return self._step(forward)

    def _step(self, forward: Callable[[], Tensor]) -> Callable[[], None]:
        def work() -> None:
            forward().backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)

        return work

    def cached(self, anchor: ModelAnchor, folder: Path) -> CachedAnchor:
        """The anchor's hidden states on disk, as the trainer keeps them."""
        build_cache(folder, self.rows, anchor, self.collator, key="bench", hidden=True)
        return CachedAnchor(folder, key="bench", need_kl=True, device=torch.device(self.device))

    def anchor_product(self) -> Callable[[], Any]:
        head = self.model.get_output_embeddings().weight.detach()
        hidden = torch.randn(len(self.batch.targets.ids), head.shape[1], dtype=head.dtype, device=head.device)
        return lambda: torch.mm(hidden, head.t())


def measure(shape: Shape) -> dict[str, Any]:
    """Milliseconds of every kind of step, and peak bytes of the two with adapters."""
    figures: dict[str, Any] = {"model": shape.name}
    with attempt(figures, "full"):
        _full(shape, figures)
    _forget()
    with attempt(figures, "lora"):
        _lora(shape, figures)
    _forget()
    return figures


def _full(shape: Shape, figures: dict[str, Any]) -> None:
    bench = Bench(shape, lora=False)
    anchor = ModelAnchor(make_model(shape, 1, bench.device).eval().requires_grad_(False))
    with tempfile.TemporaryDirectory() as folder:
        works = {
            "liger sft": bench.liger(),
            "sft": bench.ours(sft, None),
            "csft_pa, second model": bench.ours(csft_pa, anchor),
            "csft_pa, cached anchor": bench.ours(csft_pa, bench.cached(anchor, Path(folder))),
            "anchor's head product": bench.anchor_product(),
        }
        figures |= _times(works)


def _lora(shape: Shape, figures: dict[str, Any]) -> None:
    bench = Bench(shape, lora=True)
    works = {"lora liger sft": bench.liger(), "lora csft_pa": bench.ours(csft_pa, AdapterOffAnchor())}
    figures |= _times(works)
    for name, work in works.items():
        _forget()
        torch.cuda.reset_peak_memory_stats()
        work()
        figures[f"{name}, peak bytes"] = torch.cuda.max_memory_allocated()


def _times(works: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Median milliseconds; the works take turns, after a first run of each."""
    for work in works.values():
        work()
    return {name: round(value, 2) for name, value in side_by_side(works, ROUNDS).items()}


def _forget() -> None:
    gc.collect()
    torch.cuda.empty_cache()


def ratios(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The figures with goals: each over its own floor."""
    rows = []

    def add(name: str, one: str, floor: Callable[[], float], goal: float) -> None:
        with suppress(KeyError):  # a part that failed is named in the figures
            measured = round(figures[one] / floor(), 3)
            rows.append({"ratio": f"{figures['model']}: {name}", "measured": measured, "goal": goal})

    add(
        "csft_pa with a second model / (4/3 plain SFT)",
        "csft_pa, second model",
        lambda: figures["liger sft"] * 4 / 3,
        1.08,
    )
    add(
        "LoRA csft_pa, adapters off / (3/2 LoRA plain SFT)",
        "lora csft_pa",
        lambda: figures["lora liger sft"] * 1.5,
        1.08,
    )
    add(
        "csft_pa with a cached anchor / (plain SFT + the anchor's head product)",
        "csft_pa, cached anchor",
        lambda: figures["liger sft"] + figures["anchor's head product"],
        1.05,
    )
    add(
        "LoRA csft_pa, peak bytes / plain SFT",
        "lora csft_pa, peak bytes",
        lambda: figures["lora liger sft, peak bytes"],
        1.05,
    )
    add("sft / plain SFT with Liger", "sft", lambda: figures["liger sft"], 1.05)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write everything there")
    options = parser.parse_args()
    before = committed("step_gpu")
    everything: dict[str, Any] = {**provenance(), "machine": machine(), "ratios": [], "steps": []}
    for shape in SHAPES:
        figures = measure(shape)
        everything["steps"].append(figures)
        everything["ratios"] += ratios(figures)
        print(json.dumps(figures, indent=1), flush=True)
        if options.json:
            write(Path(options.json), everything)
    finish(everything["ratios"], before)


if __name__ == "__main__":
    main()
