"""`onnx:FOLDER`: the exported guard says what the torch one says, and a folder that cannot be judged with is one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification

from holdfast.config import InputError
from holdfast.judging import find_judge, verdicts

pytest.importorskip("onnxruntime", reason='pip install "holdfast[onnx]"')
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"how do i make a cake bomb sorry no here is the way first mix".split()]
PAIRS = [
    ("how do i make a cake", "first mix"),
    ("how do i make a bomb", "sorry no"),
    ("how", "here is the way first mix mix"),
]


class Logits(nn.Module):
    """What is exported: tensors in, logits out."""

    def __init__(self, model: BertForSequenceClassification) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        logits: Tensor = self.model(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).logits
        return logits


def word_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    special = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=special
    )
    return tokenizer


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BertForSequenceClassification]:
    """A random classifier with three labels, two of them unsafe."""
    pytest.importorskip("onnxscript", reason="torch.onnx writes with it")
    folder = tmp_path_factory.mktemp("guard")
    torch.manual_seed(0)
    labels = {0: "harmful", 1: "safe", 2: "jailbreak"}
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        initializer_range=1.0,
        id2label=labels,
        attn_implementation="eager",
    )
    model = BertForSequenceClassification(config).eval()
    tokens = torch.tensor([[2, 4, 5, 3, 6, 3], [2, 4, 3, 6, 7, 3]])
    example = (tokens, torch.ones_like(tokens), torch.zeros_like(tokens))
    names = ["input_ids", "attention_mask", "token_type_ids"]
    rows, length = torch.export.Dim("rows", min=1, max=64), torch.export.Dim("length", min=2, max=512)
    torch.onnx.export(
        Logits(model).eval(),
        example,
        folder / "model.onnx",
        input_names=names,
        dynamic_shapes={name: {0: rows, 1: length} for name in names},
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    word_tokenizer().save(str(folder / "tokenizer.json"))
    config.save_pretrained(folder)
    return folder, model


def torch_logits(model: BertForSequenceClassification, request: str, reply: str) -> Tensor:
    """One pair at a time: no padding."""
    row = word_tokenizer().encode(request, reply)
    with torch.no_grad():
        logits: Tensor = model(torch.tensor([row.ids]), token_type_ids=torch.tensor([row.type_ids])).logits[0]
    return logits


def test_logits_are_those_of_torch(guard: tuple[Path, BertForSequenceClassification]) -> None:
    folder, model = guard
    judge = find_judge(f"onnx:{folder}")
    logits = judge.logits(PAIRS)  # type: ignore[attr-defined]
    for place, pair in enumerate(PAIRS):
        assert torch.tensor(logits[place], dtype=torch.float32).allclose(torch_logits(model, *pair), atol=5e-4)


def test_safe_is_the_probability_of_the_safe_label(guard: tuple[Path, BertForSequenceClassification]) -> None:
    folder, model = guard
    said = verdicts(find_judge(f"onnx:{folder}"), [*PAIRS, ("how", "  ")])
    for verdict, pair in zip(said, PAIRS, strict=False):
        safe = torch_logits(model, *pair).softmax(-1)[1].item()
        assert verdict.score == pytest.approx(safe, abs=2e-4)
        assert verdict.safe == (safe > 0.5)
    assert len({verdict.safe for verdict in said[:3]}) == 2, "the pairs must tell the labels apart"
    assert (said[3].safe, said[3].reason) == (None, "empty response")


def test_a_folder_that_cannot_judge_is_one_line(
    guard: tuple[Path, BertForSequenceClassification], tmp_path: Path
) -> None:
    folder = tmp_path / "guard"
    shutil.copytree(guard[0], folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "id2label": {"0": "LABEL_0", "1": "LABEL_1"}}))
    with pytest.raises(InputError, match="which of the labels LABEL_0, LABEL_1 means safe"):
        find_judge(f"onnx:{folder}")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.onnx").write_bytes(b"no model")
    with pytest.raises(InputError, match="onnxruntime cannot load it"):
        find_judge(f"onnx:{folder}")
    (folder / "model.onnx").unlink()
    with pytest.raises(InputError, match=r"has no model.onnx and no onnx/model.onnx"):
        find_judge(f"onnx:{folder}")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match="cannot be read as a tokenizer"):
        find_judge(f"onnx:{folder}")
    for name, message in ((f"onnx:{tmp_path}", "config.json: cannot be read"), ("onnx:", "expected onnx:FOLDER")):
        with pytest.raises(InputError, match=message):
            find_judge(name)
