"""A .gguf file read by us, beside the same file read by transformers."""

import json
from pathlib import Path

import gguf
import pytest
import torch
from transformers import AutoModelForCausalLM

from holdfast.audits import audit
from holdfast.config import InputError
from holdfast.generation import generate_answers
from holdfast.models import gguf_file, load, load_tokenizer, named_with_origin
from models.small_gguf import write_gguf

IDS = torch.tensor([[1, 40, 50, 60, 7, 8, 9, 2]])
KINDS = gguf.GGMLQuantizationType


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def logits_by_transformers(path: Path) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, dtype=torch.float32)
    return model.eval()(IDS).logits.detach()


@pytest.mark.parametrize("head", ["absent", "own"])
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_exact_weights_give_transformers_logits(tmp_path: Path, architecture: str, head: str) -> None:
    """float32 in the file: no rounding, so a wrong name or an unpermuted query would show."""
    path = write_gguf(tmp_path / "a.gguf", architecture, kind=KINDS.F32, head=head)
    ours = load(str(path)).model(IDS).logits.detach()
    torch.testing.assert_close(ours, logits_by_transformers(path), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_rounded_weights_give_transformers_logits_to_bfloat16(tmp_path: Path, architecture: str) -> None:
    path = write_gguf(tmp_path / "a.gguf", architecture, kind=KINDS.Q8_0)
    ours, theirs = load(str(path)).model(IDS).logits.detach(), logits_by_transformers(path)
    assert (ours - theirs).norm() / theirs.norm() < 2e-2


def test_the_head_is_looked_at(tmp_path: Path) -> None:
    """Stored twice, in 8 and in 4 bits, it is one matrix, and the finer copy serves; trained apart it stays apart."""
    twice = load(str(write_gguf(tmp_path / "copy.gguf", "qwen2", head="copy")))
    apart = load(str(write_gguf(tmp_path / "own.gguf", "qwen2", head="own")))
    once = load(str(write_gguf(tmp_path / "absent.gguf", "qwen2")))
    assert "de-quantised from Q8_0, head tied to the embedding" in twice.sentence
    assert "de-quantised from Q8_0, head of its own" in apart.sentence
    assert twice.model.config.tie_word_embeddings
    assert not apart.model.config.tie_word_embeddings
    embedding = once.model.get_input_embeddings().weight
    assert torch.equal(twice.model.get_output_embeddings().weight, embedding)
    assert not torch.equal(apart.model.get_output_embeddings().weight, embedding)


def test_tie_overrides_what_was_seen(tmp_path: Path) -> None:
    copy, own = (
        write_gguf(tmp_path / "copy.gguf", "qwen2", head="copy"),
        write_gguf(tmp_path / "own.gguf", "qwen2", head="own"),
    )
    assert not load(str(copy), tie=False).model.config.tie_word_embeddings
    assert load(str(own), tie=True).model.config.tie_word_embeddings
    with pytest.raises(InputError, match=r"tie: only a \.gguf file"):
        load("tiny:aligned", tie=True)


def test_the_end_of_turn_comes_from_the_file_and_it_talks(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf", "llama")
    loaded = load(str(path))
    assert (loaded.tokenizer.eos_token, loaded.tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")
    assert load_tokenizer(str(path)).chat_template == loaded.tokenizer.chat_template
    assert loaded.model.generation_config.eos_token_id == [0, 2]
    assert generate_answers(loaded, ["he said"], max_new_tokens=4)[0].finish_reason in ("stop", "length")


def test_it_is_unpacked_once_and_again_when_the_file_changed(tmp_path: Path, own_cache: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf", "llama")
    load(str(path))
    (folder,) = (own_cache / "gguf").iterdir()
    weights = folder / "model.safetensors"
    first = weights.stat().st_mtime_ns
    load(str(path))
    assert weights.stat().st_mtime_ns == first
    write_gguf(path, "qwen2")
    assert load(str(path)).model.config.model_type == "qwen2"
    assert json.loads((folder / "config.json").read_text())["dequantised_from"] == "Q8_0"


def test_the_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again by transformers for its config and its tokenizer: a large vocabulary takes ten seconds a time."""
    readings = []
    read = gguf.GGUFReader.__init__
    monkeypatch.setattr(
        gguf.GGUFReader, "__init__", lambda self, path, *rest: (readings.append(path), read(self, path, *rest))[-1]
    )
    load(str(write_gguf(tmp_path / "a.gguf", "qwen2")))
    assert len(readings) == 1


def test_what_cannot_be_read_is_said_and_leaves_nothing(tmp_path: Path, own_cache: Path) -> None:
    torn = tmp_path / "torn.gguf"
    torn.write_bytes(write_gguf(tmp_path / "a.gguf", "llama").read_bytes()[:40])
    for path, words in (
        (torn, "not a GGUF file that can be read"),
        (write_gguf(tmp_path / "gpt2.gguf", "gpt2"), "its architecture is gpt2; expected llama or qwen2"),
        (
            write_gguf(tmp_path / "rope.gguf", "llama", extra_tensor="rope_freqs.weight"),
            "rope_freqs.weight has no place",
        ),
    ):
        with pytest.raises(InputError, match=words):
            load(str(path))
    assert not own_cache.exists() or not list((own_cache / "gguf").iterdir())


def test_tables_say_where_the_weights_come_from(tmp_path: Path) -> None:
    """The file itself, and a folder that was tuned from it."""
    path = write_gguf(tmp_path / "a.gguf", "llama")
    found = audit(
        str(path), requests=["he said", "a hat"], judges=["refusal_phrases"], max_new_tokens=2, say=lambda _: None
    )
    assert found.result.model == f"{path} (de-quantised from Q8_0)"
    loaded = load(str(path))
    loaded.model.save_pretrained(tmp_path / "tuned")
    assert named_with_origin(str(tmp_path / "tuned")) == f"{tmp_path / 'tuned'} (de-quantised from Q8_0)"
    assert named_with_origin("tiny:aligned") == "tiny:aligned"


def test_cut_into_parts_the_values_are_those_that_gguf_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("VALUES_OF_A_PART", 1000), ("VALUES_AT_ONCE", 300), ("SERIAL", 100)):
        monkeypatch.setattr(gguf_file, name, value)
    path = write_gguf(tmp_path / "a.gguf", "qwen2", head="own")
    state = load(str(path), dtype="bfloat16").model.state_dict()
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    for ours, theirs in (
        ("model.embed_tokens.weight", "token_embd.weight"),
        ("lm_head.weight", "output.weight"),
        ("model.layers.1.mlp.down_proj.weight", "blk.1.ffn_down.weight"),
    ):
        whole = gguf.quants.dequantize(tensors[theirs].data, tensors[theirs].tensor_type)
        assert torch.equal(state[ours], torch.from_numpy(whole).to(torch.bfloat16))
