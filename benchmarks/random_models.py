"""Models of real shapes with random weights, made on the device, and a tokenizer with as many words as they have rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerBase

from holdfast.models import LoadedModel
from holdfast.worlds.lexicon import WORDS
from holdfast.worlds.tokenizer import CHAT_TEMPLATE, SPEAKERS, SPECIAL, UNKNOWN, with_chat


@dataclass(frozen=True)
class Shape:
    """A model without its weights."""

    name: str
    kind: str  # transformers' model_type
    sizes: dict[str, Any] = field(default_factory=dict)

    @property
    def num_vocab(self) -> int:
        """Rows of the embedding."""
        return int(self.sizes["vocab_size"])


QWEN = Shape(
    "Qwen2.5-Coder-1.5B", "qwen2",
    {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12,
     "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True, "max_position_embeddings": 32768},
)  # fmt: skip
LLAMA = Shape(
    "Llama-3-8B", "llama",
    {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
     "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False, "max_position_embeddings": 8192},
)  # fmt: skip
SMALL = Shape(
    "a small Qwen2", "qwen2",
    {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 4,
     "num_key_value_heads": 2, "vocab_size": 16384, "tie_word_embeddings": True, "max_position_embeddings": 4096},
)  # fmt: skip
TINY = Shape(
    "tiny", "qwen2",
    {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
     "num_key_value_heads": 2, "vocab_size": 2048, "tie_word_embeddings": True, "max_position_embeddings": 4096},
)  # fmt: skip


def make_model(shape: Shape, dtype: torch.dtype, device: str, seed: int = 0) -> Any:
    """A model with random weights, made on its device and in its dtype."""
    config = AutoConfig.for_model(shape.kind, **shape.sizes, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    torch.manual_seed(seed)
    kept = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    finally:
        torch.set_default_dtype(kept)
    return model.eval()


def make_tokenizer(num_vocab: int) -> PreTrainedTokenizerBase:
    """The embedded world's words, then made-up ones, so that every id that a random model writes is a word."""
    known = [*SPECIAL, *WORDS][:num_vocab]
    vocabulary = {
        word: number for number, word in enumerate([*known, *(f"w{n}" for n in range(len(known), num_vocab))])
    }
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    return with_chat(tokenizer, SPEAKERS, CHAT_TEMPLATE, 4096)


def make_loaded(shape: Shape, dtype: torch.dtype, device: str, seed: int = 0) -> LoadedModel:
    """The model as ``holdfast.models.load`` returns it."""
    model = make_model(shape, dtype, device, seed)
    return LoadedModel(model, make_tokenizer(shape.num_vocab), shape.name, dtype, torch.device(device), "")
