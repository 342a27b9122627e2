"""What larger runs need, on paper: formulas over a model's shape, with the rates that the GPU benchmarks have measured.

Nothing here is measured at these sizes; docs/performance.md prints the formulas beside the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TOKENS = 8192  # of a micro-batch on one GPU
GPU_BYTES = 0.85 * 141e9  # of an H200 that may be planned with
MOST_TOKENS = 512 * 1024  # of a global batch; above it, tensor parallelism takes the place of more rows
CHUNK_BYTES = 640 * 2**20  # float32 logits of one model in a chunk
ASSUMED_BODY = 0.6  # of the rate of plain products, until a whole step is measured

FORMULAS = f"""P parameters, L layers, width H, vocabulary V, T tokens, G GPUs:

- state, sharded: full 18 P / G bytes (float32 weights 4, gradients 4, Adam 8, bf16 anchor 2; 16 with the cache
  in its place); LoRA 2.16 P / G (bf16 base 2, adapters of 1 % of P at 16; the anchor is the base itself);
- gathered by FSDP2: two layers in bf16, 4 P / L; none on one GPU;
- activations: (2 L + 34) H T bytes: every layer's input, and the inside of one layer;
- head: 2 x {CHUNK_BYTES // 2**20} MiB of float32 logits, and 2 T V bytes of held gradients where the head is trained;
  TP divides the last three;
- a step: (6 + 2 + 2) P T operations full (forward, backward, anchor, recomputation), (4 + 2 + 2) P T frozen; TP divides it too;
- G is the smallest power of two that fits; TP 8 inside a machine where G T would pass {MOST_TOKENS // 1024}k tokens a step;
- cache: light 8 bytes a target token (logp, top: for csft); full adds 2 H a token and the head's 2 V H (kl, exact)."""


@dataclass(frozen=True)
class Model:
    name: str
    params: float
    layers: int
    width: int
    num_vocab: int


MODELS = (
    Model("7B (Qwen2.5)", 7.6e9, 28, 3584, 152064),
    Model("70B (Llama-3)", 70.6e9, 80, 8192, 128256),
    Model("405B (Llama-3.1)", 405.9e9, 126, 16384, 128256),
)


@dataclass(frozen=True)
class Need:
    """Bytes of one GPU by part, and seconds of a step."""

    num_gpus: int
    tensor_parallel: int
    state: float  # weights, gradients, Adam, anchor: all sharded
    gathered: float  # two layers in bf16, whole
    activations: float
    head: float
    seconds: float

    @property
    def bytes(self) -> float:
        """All parts."""
        return self.state + self.gathered + self.activations + self.head


def need(model: Model, rate: float, *, lora: bool) -> Need:
    """The fewest GPUs, a power of two, that can hold it, and what each needs."""
    num_gpus = 1
    while (needed := _on(model, rate, num_gpus, lora=lora)).bytes > GPU_BYTES:
        num_gpus *= 2
    return needed


def _on(model: Model, rate: float, num_gpus: int, *, lora: bool) -> Need:
    tensor = 8 if num_gpus * TOKENS > MOST_TOKENS else 1
    state = (2.16 if lora else 18) * model.params / num_gpus
    gathered = 0.0 if num_gpus == 1 else 2 * 2 * model.params / model.layers / tensor
    activations = (2 * model.layers + 34) * model.width * TOKENS / tensor
    held = 0.0 if lora else 2.0 * TOKENS * model.num_vocab
    head = (2 * CHUNK_BYTES + held) / tensor
    operations = (4 + 2 + 2 if lora else 6 + 2 + 2) * model.params * TOKENS / tensor
    return Need(num_gpus, tensor, state, gathered, activations, head, operations / rate)


def cache_bytes(model: Model, num_tokens: float) -> tuple[float, float]:
    """The anchor's cache on disk: (logp and top alone, with hidden states and the head)."""
    light = 8 * num_tokens
    return light, light + 2 * model.width * num_tokens + 2 * model.num_vocab * model.width


def rates(heads: Mapping[str, Any] | None, steps: Mapping[str, Any] | None) -> tuple[float, float, bool]:
    """Operations per second of the head's products and of a model's body; whether the second is measured."""
    shapes = [row for row in (heads or {}).get("heads", []) if row["head"].startswith("Llama")]
    products = 4 * 2 * TOKENS * shapes[0]["num_vocab"] * shapes[0]["width"] / (shapes[0]["floor"] / 1e3)
    for row in (steps or {}).get("steps", []):
        if row["model"].startswith("Llama") and "liger sft" in row:
            params = 16 * 218.1e6 + 128256 * 4096  # its 16 layers and its head; the embedding multiplies nothing
            return products, 6 * params * TOKENS / (row["liger sft"] / 1e3), True
    return products, ASSUMED_BODY * products, False


def section(heads: Mapping[str, Any] | None, steps: Mapping[str, Any] | None) -> str:
    """The table and its formulas, in Markdown."""
    products, body, measured = rates(heads, steps)
    origin = "measured, whole step" if measured else f"assumed: {ASSUMED_BODY} of it, until a whole step is measured"
    rows = []
    for model in MODELS:
        light, full = cache_bytes(model, 1e6)
        for lora in (False, True):
            needed = need(model, body, lora=lora)
            parts = (needed.state, needed.gathered, needed.activations, needed.head)
            summed = " + ".join(f"{part / 1e9:.0f}" for part in parts)
            rows.append(
                f"| {model.name} | {'LoRA' if lora else 'full'} | {_layout(needed)} | {summed} = {needed.bytes / 1e9:.0f} "
                f"| {needed.seconds:.1f} s | {light / 1e6:.0f} MB, {full / 1e9:.1f} GB |"
            )
    table = "\n".join(rows)
    return f"""## Larger runs, on paper

From formulas: nothing in this table is measured at these sizes. {TOKENS:,} tokens a GPU and step, csft_pa, activation
checkpointing, H200s of which 85 % of 141 GB is planned with. Rate of plain products: {products / 1e12:.0f} TFLOP/s
(the head's floor, measured above); of a model's body: {body / 1e12:.0f} TFLOP/s ({origin}).
Traffic between machines is taken as hidden behind the products, which holds from about 8,000 tokens a GPU on 400 Gbit/s. TP needs
a trainer that has it: `holdfast train` itself has FSDP2.

| model | tuning | GPUs | GB of a GPU: state + gathered + activations + head | a step | anchor cache, 1 M tokens: light, full |
|---|---|---|---|---|---|
{table}

{FORMULAS}"""


def _layout(needed: Need) -> str:
    if needed.num_gpus == 1:
        return "1"
    groups = needed.num_gpus // needed.tensor_parallel
    parallel = "" if needed.tensor_parallel == 1 else f" x TP {needed.tensor_parallel}"
    return f"{needed.num_gpus}: FSDP2 over {groups}{parallel}"
