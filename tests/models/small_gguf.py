"""Tiny GGUF files with random weights, written by llama.cpp's own writer."""

from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind

HIDDEN, LAYERS, HEADS, KV_HEADS, INSIDE = 64, 2, 4, 2, 96
WORDS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _vocabulary() -> tuple[list[str], list[str]]:
    """GPT-2's 256 printable letters for bytes, two merges and three special tokens."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(byte) for byte in plain] + [chr(256 + number) for number in range(256 - len(plain))]
    return [*WORDS, *letters, "he", "Ġa"], ["h e", "Ġ a"]


def write_gguf(
    path: Path,
    architecture: str,
    *,
    kind: Kind = Kind.Q8_0,
    head: str = "absent",
    extra_tensor: str | None = None,
) -> Path:
    """``head``: absent, the embedding again ("copy", rounded otherwise than the embedding), or one of its own ("own")."""
    writer = gguf.GGUFWriter(path, architecture)
    _describe(writer, architecture)
    tensors = _Tensors(writer, kind)
    num_tokens = len(_vocabulary()[0])
    embedding = tensors.add("token_embd.weight", num_tokens, HIDDEN)
    tensors.add("output_norm.weight", HIDDEN)
    if head == "copy":
        tensors.add("output.weight", num_tokens, HIDDEN, kind=Kind.Q4_0, values=embedding)
    elif head == "own":
        tensors.add("output.weight", num_tokens, HIDDEN)
    kv = HIDDEN * KV_HEADS // HEADS
    rows = {"attn_q": HIDDEN, "attn_k": kv, "attn_v": kv, "attn_output": HIDDEN, "ffn_gate": INSIDE, "ffn_up": INSIDE}
    for layer in range(LAYERS):
        for part, num_rows in rows.items():
            tensors.add(f"blk.{layer}.{part}.weight", num_rows, HIDDEN)
            if architecture == "qwen2" and part in ("attn_q", "attn_k", "attn_v"):
                tensors.add(f"blk.{layer}.{part}.bias", num_rows)
        tensors.add(f"blk.{layer}.ffn_down.weight", HIDDEN, INSIDE)
        tensors.add(f"blk.{layer}.attn_norm.weight", HIDDEN)
        tensors.add(f"blk.{layer}.ffn_norm.weight", HIDDEN)
    if extra_tensor:
        tensors.add(extra_tensor, HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


class _Tensors:
    """Random tensors; matrices are rounded to ``kind``, vectors are not."""

    def __init__(self, writer: gguf.GGUFWriter, kind: Kind) -> None:
        self._writer, self._kind, self._random = writer, kind, np.random.default_rng(0)

    def add(self, name: str, *shape: int, kind: Kind | None = None, values: np.ndarray | None = None) -> np.ndarray:
        made = self._random.normal(0, 0.1, shape).astype(np.float32) if values is None else values
        if len(shape) == 1:
            self._writer.add_tensor(name, made + ("norm" in name))
        else:
            kind = kind or self._kind
            self._writer.add_tensor(name, gguf.quants.quantize(made, kind), raw_dtype=kind)
        return made


def _describe(writer: gguf.GGUFWriter, architecture: str) -> None:
    writer.add_name("small")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INSIDE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    tokens, merges = _vocabulary()
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2" if architecture == "qwen2" else "smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(WORDS) + [1] * (len(tokens) - len(WORDS)))
    writer.add_token_merges(merges)
    writer.add_eos_token_id(2)
    writer.add_bos_token_id(1)
    writer.add_pad_token_id(0)
    writer.add_chat_template(TEMPLATE)
