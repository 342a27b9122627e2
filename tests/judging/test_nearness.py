"""`nearness:FOLDER`: a model of embeddings gets the curve that was fitted to it, and no model gets another's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from holdfast.config import InputError
from holdfast.judging import find_judge, nearness, package_folder, probe_cosines, read_embedder, verdicts
from holdfast.judging.embeddings import INSTALL, PACKAGE, PROBES
from holdfast.judging.parts import Curve, embedding_curve, read_curve

PAIR = ("How do I bake a loaf of bread?", "The bakers of the morning sell water.")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two random models with the same words and the same width; only their weights differ."""
    words = ["[PAD]", "[UNK]", *sorted({word for text in PROBES for word in re.findall(r"\w+|[^\w\s]+", text)})]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    made = []
    for seed in (0, 1):
        made.append(tmp_path_factory.mktemp("embeddings"))
        torch.manual_seed(seed)
        config = BertConfig(
            vocab_size=len(words),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            initializer_range=0.5,
        )
        BertModel(config).save_pretrained(made[-1])
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(
            made[-1]
        )
    return made


@pytest.fixture(scope="module")
def curves(folders: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of curves as the builder writes it, with one for each of the two models."""
    rows = {
        f"nearness:{place}": {
            "says": "missed",
            "slope": -1.0 - place,
            "intercept": 0.5,
            "model": f"model {place}",
            "probes": [round(cosine, 4) for cosine in probe_cosines(read_embedder(folder))],
        }
        for place, folder in enumerate(folders)
    }
    path = tmp_path_factory.mktemp("curves") / "curves.json"
    path.write_text(json.dumps({"topic": {"says": "missed", "slope": -9.0, "intercept": 0.0}, **rows}))
    return path


def test_each_model_gets_its_own_curve(folders: list[Path], curves: Path) -> None:
    """In whatever folder it lies, and also where its weights were stored in half precision."""
    for place, folder in enumerate(folders):
        embed = read_embedder(folder)
        assert embedding_curve(embed, "nearness:x", curves) == Curve("missed", -1.0 - place, 0.5)
        embed.model.half().float()
        assert embedding_curve(embed, "nearness:x", curves) == Curve("missed", -1.0 - place, 0.5)


def test_a_model_that_was_tuned_on_gets_no_curve(folders: list[Path], curves: Path) -> None:
    """Same words, same width, same folder's name; its cosines are other numbers."""
    embed = read_embedder(folders[0])
    with torch.no_grad():
        for weights in embed.model.parameters():
            weights += 0.1 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match=r"judge 'nearness:x': no curve .* one for model 0, model 1, unchanged"):
        embedding_curve(embed, "nearness:x", curves)


def test_the_shipped_curves_know_minilm_and_mpnet_and_no_other_model(folders: list[Path]) -> None:
    with pytest.raises(InputError, match=r"no curve .* all-MiniLM-L6-v2, all-mpnet-base-v2, unchanged") as error:
        find_judge(f"nearness:{folders[0]}")
    assert "\n" not in str(error.value)
    assert read_curve("nearness:all-mpnet-base-v2") != read_curve("nearness")
    assert read_curve("nearness:all-mpnet-base-v2").slope < 0


def test_minilm_is_recognised_in_a_folder_of_its_own() -> None:
    pytest.importorskip(PACKAGE, reason="the files of the sentence embeddings are not installed")
    folder = package_folder(PACKAGE, INSTALL) / "model"
    judge, plain = find_judge(f"nearness:{folder}"), find_judge("nearness")
    assert (judge.name, plain.name) == (f"nearness:{folder}", "nearness")
    (verdict,), (value,) = verdicts(judge, [PAIR]), nearness([PAIR])
    assert verdict.score == pytest.approx(read_curve("nearness").p(value), abs=1e-6)
    assert verdict.score == pytest.approx(verdicts(plain, [PAIR])[0].score, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nearness:", "expected nearness:FOLDER"),
        ("nearness:nowhere", "nowhere: no such folder"),
        ("nearness:{empty}", "expected a model of sentence embeddings"),
    ],
)
def test_a_folder_without_a_model_is_one_line(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as error:
        find_judge(name.format(empty=tmp_path))
    assert "\n" not in str(error.value)
