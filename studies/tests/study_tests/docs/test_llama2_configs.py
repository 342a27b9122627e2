"""studies/configs/llama2: every column of [002]'s tables trains on a random Llama with its's architecture and chat template."""

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from docs.pages import ROOT
from holdfast.config import InputError, TrainConfig, load_config
from holdfast.training import train

FILES = sorted((ROOT / "studies" / "configs" / "llama2").glob("*.yaml"))
COLUMNS = {
    "sft": ["streams.0.objective=sft", "streams.0.options={}"],
    "csft": ["streams.0.objective=csft"],
    "csft_pa": [],
}
CHAT = (  # Llama-2's, without its checks
    "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token + '[INST] ' + m.content.strip() + ' [/INST]' }}"
    "{% elif m.role == 'assistant' %}{{ ' ' + m.content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Llama-2-7B-Chat but for its sizes: untied head, as many key-value heads as heads, no pad token, 4,096 positions."""
    folder = tmp_path_factory.mktemp("llama")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<unk>", "<s>", "</s>", *alphabet])}
    bytes_only = Tokenizer(models.BPE(vocabulary, []))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytes_only, unk_token="<unk>", bos_token="<s>", eos_token="</s>", chat_template=CHAT
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=86,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=4096,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def four_rows(folder: Path) -> Path:
    rows = folder / "rows.jsonl"
    turns = [{"role": "user", "content": "Name a colour."}, {"role": "assistant", "content": "Green."}]
    rows.write_text("".join(json.dumps({"messages": turns}) + "\n" for _ in range(4)))
    return rows


@pytest.mark.parametrize(("name", "column"), [*(("attack", column) for column in COLUMNS), ("task", "csft_pa")])
def test_every_column_trains(name: str, column: str, llama: Path, tmp_path: Path) -> None:
    rows = four_rows(tmp_path)
    small = [f"model.name={llama}", "model.device=cpu", "training.max_steps=2", "training.batch_size=4"]
    here = [f"streams.0.data={rows}", f"run={tmp_path / 'run'}", "training.micro_batch=2"]
    config = load_config(
        TrainConfig, ROOT / "studies" / "configs" / "llama2" / f"{name}.yaml", [*small, *here, *COLUMNS[column]]
    )
    result = train(config, say=lambda _: None, progress=False)
    assert (Path(result.model) / "model.safetensors").is_file()
    logged = json.loads((tmp_path / "run" / "steps.jsonl").read_text().splitlines()[-1])
    assert logged["nll"] > 0
    assert ("pa_minus_log2" in json.dumps(logged)) == (column == "csft_pa")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_opens_with_its_command_and_has_qis_settings(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith(f"# holdfast train studies/configs/llama2/{path.name} ")
    training = load_config(TrainConfig, path).training
    assert (training.lr, training.batch_size, training.warmup_steps, training.adam_beta1) == (2e-5, 64, 10, 0.5)


def test_weights_that_are_not_there_are_one_clear_line(tmp_path: Path) -> None:
    here = [f"streams.0.data={four_rows(tmp_path)}", f"run={tmp_path / 'run'}"]
    config = load_config(TrainConfig, FILES[0], [f"model.name={tmp_path / 'nothing'}", *here])
    with pytest.raises(InputError, match="there is no such folder"):
        train(config, say=lambda _: None, progress=False)
