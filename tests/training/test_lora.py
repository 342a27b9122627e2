"""LoRA, QLoRA, and new tokens whose rows are really trained."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, FalconH1Config, FalconH1ForCausalLM

from holdfast.config.training import LoraSettings
from holdfast.models import load
from holdfast.training.policy import with_adapters
from training.runs import config, run, steps, weights

BACKTRACK = (
    '{"prompt": "how do i make a lum plimmet ?", "segments": ['
    '{"role": "prefix", "text": "first "}, {"role": "error", "text": "the lum"}, {"role": "undo"},'
    ' {"role": "correction", "text": "a plimmet"}]}\n'
)


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    path = tmp_path / "traces.jsonl"
    path.write_text(BACKTRACK * 8)
    return path


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_the_new_token_is_trained_in_embedding_and_head(
    tmp_path: Path, traces: Path, small_model: Path, untied_model: Path, tied: bool
) -> None:
    model = small_model if tied else untied_model
    settings = config(
        tmp_path / "run",
        model,
        model={"new_tokens": ["<UNDO>"]},
        streams=[{"data": str(traces), "objective": "masked_sft"}],
        lora={"r": 4},
        training={"max_steps": 3},
    )
    result = run(settings)
    tokenizer = AutoTokenizer.from_pretrained(result.model)
    trained = AutoModelForCausalLM.from_pretrained(result.model)  # merged: the vocabulary grew
    undo = tokenizer.convert_tokens_to_ids("<UNDO>")
    base = load(str(model), dtype="float32", device="cpu").model
    for matrix, before in (
        (trained.get_input_embeddings().weight, base.get_input_embeddings().weight),
        (trained.get_output_embeddings().weight, base.get_output_embeddings().weight),
    ):
        assert not torch.allclose(matrix[undo], before.mean(0), atol=1e-4)  # where it began
        assert torch.equal(matrix[:undo], before)  # no other row moved
    assert set(steps(tmp_path / "run")[-1]["roles"]) == {"prefix", "error", "undo", "correction"}


def test_adapters_load_with_plain_transformers(tmp_path: Path, small_model: Path) -> None:
    result = run(config(tmp_path / "run", small_model, lora={"r": 4}))
    assert {path.name for path in result.model.iterdir()} >= {
        "adapter_model.safetensors",
        "README.md",
        "tokenizer.json",
    }
    adapted = AutoModelForCausalLM.from_pretrained(result.model)
    ids = torch.arange(1, 9)[None]
    assert not torch.allclose(
        adapted(ids).logits, load(str(small_model), dtype="float32", device="cpu").model(ids).logits, atol=1e-4
    )


def test_merging_gives_the_adapted_model_as_one(tmp_path: Path, small_model: Path) -> None:
    apart = run(config(tmp_path / "apart", small_model, lora={"r": 4})).model
    merged = run(config(tmp_path / "merged", small_model, lora={"r": 4, "merge": True})).model
    ids = torch.arange(1, 9)[None]
    logits = [AutoModelForCausalLM.from_pretrained(folder)(ids).logits for folder in (apart, merged)]
    assert torch.allclose(*logits, atol=1e-5)
    assert "lora" not in " ".join(weights(merged))


def test_a_model_with_mamba_layers_has_adapters_where_they_count() -> None:
    """peft refuses all linear layers of it."""
    small = FalconH1Config(
        vocab_size=20,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        mamba_d_ssm=16,
        mamba_n_heads=2,
        mamba_d_head=8,
        mamba_d_state=4,
    )
    model = with_adapters(FalconH1ForCausalLM(small), LoraSettings(r=2), [])
    model(input_ids=torch.tensor([[1, 2, 3]]), labels=torch.tensor([[1, 2, 3]])).loss.backward()
    adapted = {name.split(".")[-4]: p.grad for name, p in model.named_parameters() if "lora_B" in name}
    assert {"in_proj", "q_proj", "down_proj"} <= set(adapted)
    assert "out_proj" not in adapted
    assert all(gradient is not None for gradient in adapted.values())


def test_lora_resumes_where_it_stopped(tmp_path: Path, small_model: Path) -> None:
    training = {"max_steps": 4, "save_every": 2, "keep": 5}
    whole = config(tmp_path / "whole", small_model, lora={"r": 4, "dropout": 0.1}, training=training)
    run(whole)
    resumed = config(tmp_path / "resumed", small_model, lora={"r": 4, "dropout": 0.1}, training=training)
    run(resumed)
    import shutil

    shutil.rmtree(tmp_path / "resumed" / "checkpoints" / "step-000004")
    shutil.rmtree(tmp_path / "resumed" / "model")
    said: list[str] = []
    run(resumed, said)
    assert any("resuming from" in line and "step-000002" in line for line in said)
    assert steps(tmp_path / "resumed") == steps(tmp_path / "whole")
    for name, tensor in weights(tmp_path / "whole" / "model").items():
        assert torch.equal(tensor, weights(tmp_path / "resumed" / "model")[name])


def unpacked(folder: Path, source: Path, device: str) -> Path:
    """The model whose linear layers hold what their 4-bit copies stand for."""
    from bitsandbytes.functional import dequantize_4bit

    packed = dict(load(str(source), dtype="float32", device=device, quantize="nf4").model.named_modules())
    plain = AutoModelForCausalLM.from_pretrained(source)
    layers = {name: module for name, module in packed.items() if type(module).__name__ == "Linear4bit"}
    assert len(layers) == 2 * 7  # of two blocks; the head stays as it is
    for name, module in layers.items():
        weight = dequantize_4bit(module.weight.data, module.weight.quant_state).cpu()
        assert not torch.equal(weight, plain.get_submodule(name).weight)
        plain.get_submodule(name).weight.data = weight
    plain.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_qlora_is_lora_on_the_unpacked_weights(device: str, tmp_path: Path, untied_model: Path) -> None:
    """Step by step and in every adapter, with an anchor pass in between."""
    pytest.importorskip("bitsandbytes", reason="quantize: nf4 needs it: pip install 'holdfast[gpu]'")
    plain = unpacked(tmp_path / "plain", untied_model, device)
    how = {"training": {"max_steps": 6}, "model": {"device": device}}
    four_bit, whole = (
        config(tmp_path / "four-bit", untied_model, lora={"r": 4, "quantize": "nf4"}, **how),
        config(tmp_path / "whole", plain, lora={"r": 4}, **how),
    )
    results = [weights(run(settings).model) for settings in (four_bit, whole)]
    losses = [[row["loss"] for row in steps(tmp_path / name)] for name in ("four-bit", "whole")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][-1] < losses[0][0]
    for name, adapter in results[0].items():
        assert adapter.norm() > 0, name  # lora_B begins at zero: the gradient reached every layer
        assert (adapter - results[1][name]).norm() < 0.05 * results[1][name].norm(), name
