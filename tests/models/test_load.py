import json
import os
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import Gemma2Config, Gemma2ForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging as transformers_logging

from holdfast.config import InputError
from holdfast.models import add_tokens, load, load_tokenizer
from holdfast.models import load as load_function
from holdfast.worlds.tokenizer import build_tokenizer

PLACEMENT = "holdfast.models.placement.multiplies_bfloat16"


@pytest.fixture
def folder(tmp_path):
    """A small model of its own, saved the usual way."""
    tokenizer = build_tokenizer()
    config = LlamaConfig(vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                         num_attention_heads=2, tie_word_embeddings=False)  # fmt: skip
    torch.manual_seed(0)
    path = tmp_path / "model"
    LlamaForCausalLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def pickle_weights(folder):
    model = LlamaForCausalLM.from_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return model


def test_embedded_models_load_and_say_what_was_chosen():
    loaded = load("tiny:aligned", device="cpu")
    assert loaded.sentence == "tiny:aligned: float32 (as it is stored) on cpu (asked for)"
    assert (loaded.dtype, loaded.device.type, loaded.name) == (torch.float32, "cpu", "tiny:aligned")
    assert not loaded.model.training
    assert loaded.model.config._attn_implementation == "sdpa"
    assert len(loaded.tokenizer) == loaded.model.get_input_embeddings().weight.shape[0]


def test_dtype_and_attention_pass_through(folder):
    loaded = load(str(folder), dtype="bfloat16", device="cpu", attention="eager")
    assert {p.dtype for p in loaded.model.parameters()} == {torch.bfloat16}
    assert loaded.model.config._attn_implementation == "eager"
    assert "bfloat16 (asked for)" in loaded.sentence


def test_a_path_a_run_and_torch_types_are_taken(folder):
    """As the page on Python says of every ``model``; None is told in one line."""
    loaded = load(folder, dtype=torch.bfloat16, device=torch.device("cpu"))
    assert (loaded.name, loaded.dtype) == (str(folder), torch.bfloat16)
    assert load(SimpleNamespace(model=folder), device="cpu").name == str(folder)
    with pytest.raises(InputError, match="load: model: expected a name, a path or a finished run, got a NoneType"):
        load(None)


def test_an_architecture_without_sdpa_gets_eager_attention(tmp_path):
    """Gemma 2 caps its attention scores, which sdpa cannot. transformers 5.22 refuses it, 5.17 leaves the cap out."""
    load_tokenizer("tiny:aligned").save_pretrained(tmp_path)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = Gemma2Config(vocab_size=300, num_hidden_layers=2, head_dim=8, sliding_window=8, **sizes)
    Gemma2ForCausalLM(config).save_pretrained(tmp_path)
    loaded = load(tmp_path, device="cpu")
    assert loaded.model.config._attn_implementation == "eager"
    assert "float32 (exact on every CPU), eager attention (it has no sdpa) on cpu" in loaded.sentence


def test_no_progress_bar_goes_into_a_file(folder, capfd):
    """And whoever had switched them on finds them on."""
    transformers_logging.enable_progress_bar()
    try:
        load(str(folder), device="cpu")
        assert capfd.readouterr().err == ""
        assert transformers_logging.is_progress_bar_enabled()
    finally:
        transformers_logging.disable_progress_bar()


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16])
def test_auto_on_a_cpu_rounds_no_weight(folder, tmp_path, monkeypatch, native, stored):
    """bfloat16 only where the CPU multiplies it and the checkpoint is in it."""
    monkeypatch.setattr(PLACEMENT, lambda: native)
    load(folder, dtype=stored, device="cpu").model.save_pretrained(tmp_path)
    load_tokenizer(str(folder)).save_pretrained(tmp_path)
    loaded = load(tmp_path, device="cpu")
    in_bfloat16 = native and stored is torch.bfloat16
    assert loaded.dtype is loaded.model.dtype is (torch.bfloat16 if in_bfloat16 else torch.float32)
    assert ("this CPU multiplies it faster" if in_bfloat16 else "exact on every CPU") in loaded.sentence


def test_auto_of_an_adapter_is_that_of_its_base_model(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(PLACEMENT, lambda: True)
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    load(folder, dtype="bfloat16", device="cpu").model.save_pretrained(base)
    load_tokenizer(str(folder)).save_pretrained(base)
    get_peft_model(load(base, device="cpu").model, LoraConfig(target_modules="all-linear")).save_pretrained(adapter)
    assert load(adapter, device="cpu").dtype is torch.bfloat16


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tiny:algined", "the embedded models are tiny:base and tiny:aligned; did you mean 'tiny:aligned'?"),
        ("./no/such/model", "model './no/such/model': there is no such folder"),
        ("./no/such.gguf", "model './no/such.gguf': there is no such file"),
        ("such.gguf", "model 'such.gguf': there is no such file"),
    ],
)
def test_wrong_names(name, message):
    with pytest.raises(InputError) as error:
        load(name)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float8"}, "dtype 'float8': expected one of auto, float32, bfloat16, float16"),
        ({"dtype": "bfloat"}, "did you mean 'bfloat16'?"),
        ({"quantize": "int8"}, "quantize='int8': expected nf4"),
        ({"device": "gpu"}, "device 'gpu': expected one of auto, cpu, cuda, mps"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(InputError) as error:
        load("tiny:base", **options)
    assert message in str(error.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_asked_for_but_absent():
    with pytest.raises(InputError, match="device 'cuda': CUDA is not available here"):
        load("tiny:base", device="cuda")


def test_a_folder_without_config(tmp_path):
    with pytest.raises(InputError, match=r"the folder has no config\.json$"):
        load(str(tmp_path))


def test_a_folder_of_checkpoints(folder):
    folder.rename(folder.with_name("step-000004"))
    with pytest.raises(InputError, match="looks like a folder of checkpoints"):
        load(str(folder.parent))


def test_a_run_is_not_its_model(folder):
    """A run holds its model in a folder of that name. (An audit looks for the tokenizer first.)"""
    for read in (load, load_tokenizer):
        with pytest.raises(InputError, match=rf"no config.json; did you mean '{folder}'\?"):
            read(str(folder.parent))


def test_a_file_is_not_a_folder(folder):
    with pytest.raises(InputError, match="expected a folder"):
        load(str(folder / "config.json"))


def test_a_folder_without_weights(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="no weights"):
        load(str(folder))


def test_pickle_only_when_allowed(folder):
    weights = pickle_weights(folder).state_dict()
    with pytest.raises(InputError, match=r"\(pytorch_model.bin\) are pickled.*allow_pickle=True"):
        load(str(folder))
    loaded = load(str(folder), allow_pickle=True, device="cpu").model.state_dict()
    assert all(torch.equal(loaded[name], weights[name]) for name in weights)


def test_a_pickle_that_would_run_code_does_not_even_when_allowed(folder, tmp_path):
    """weights_only: torch refuses everything but tensors."""
    pickle_weights(folder)
    torch.save({"lm_head.weight": RunsCode(str(tmp_path / "ran"))}, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="hold more than tensors"):
        load(str(folder), allow_pickle=True)
    assert not (tmp_path / "ran").exists()


class RunsCode:
    """Unpickling it would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_code_that_comes_with_a_model_is_never_run(folder, tmp_path):
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "unheard_of", "auto_map": {"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(InputError, match="comes with code of its own, which holdfast never runs"):
        load(str(folder))
    assert not (tmp_path / "ran").exists()


def test_missing_tensors_are_not_made_up(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["lm_head.weight"], weights["model.norm.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"its weights lack 2 tensors, lm_head.weight among them"):
        load(str(folder))


@pytest.mark.parametrize("damage", [lambda raw: raw[: len(raw) // 2], lambda raw: b"{}" + raw, lambda _: b""])
def test_damaged_weights_are_one_clear_line(folder, damage):
    weights = folder / "model.safetensors"
    weights.write_bytes(damage(weights.read_bytes()))
    with pytest.raises(InputError, match="could not be loaded") as error:
        load(str(folder))
    assert "\n" not in str(error.value)


def test_there_is_no_way_to_trust_remote_code():
    with pytest.raises(InputError, match="load: no argument 'trust_remote_code'"):
        load_function("tiny:base", trust_remote_code=True)


def test_an_unreachable_hub_is_one_clear_line(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match="no such folder here, and the Hugging Face hub cannot be reached") as error:
        load("someone/some-model")
    assert "\n" not in str(error.value)


CLOSED = "http://127.0.0.1:9"  # no server has this port


def hub_at(url, monkeypatch):
    """As HF_ENDPOINT does in a process of its own."""
    files = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", files)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)


def test_a_hub_that_cannot_be_reached_is_asked_once():
    """transformers asks six times for every file, says so each time, and waits 23 seconds in between."""
    own = {"HF_ENDPOINT": CLOSED, "HF_HUB_OFFLINE": "0"}
    command = [sys.executable, "-m", "holdfast", "audit", "nosuchfolder"]
    done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(
        "holdfast: model 'nosuchfolder': no such folder here, and the Hugging Face hub cannot be reached"
    )


@pytest.mark.parametrize("offline", ["0", pytest.param("1", marks=pytest.mark.slow)])  # "0": it has to find out
def test_a_model_in_the_cache_of_the_hub_loads_without_it(folder, tmp_path, offline):
    cached, commit = tmp_path / "cache" / "models--someone--small", "a" * 40
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(commit)
    shutil.copytree(folder, cached / "snapshots" / commit)
    code = "from holdfast.models import load; loaded = load('someone/small', device='cpu')\n"
    code += "from huggingface_hub import constants; print(loaded.model.config._name_or_path, constants.HF_HUB_OFFLINE)"
    own = {"HF_HUB_CACHE": str(tmp_path / "cache"), "HF_ENDPOINT": CLOSED, "HF_HUB_OFFLINE": offline}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | own, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"someone/small {offline == '1'}\n"
    assert "Retrying" not in done.stderr


class NoSuchModel(BaseHTTPRequestHandler):
    """A hub that has no models."""

    def do_HEAD(self):
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.end_headers()


def test_a_model_that_the_hub_does_not_have(monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), NoSuchModel) as hub:
        Thread(target=hub.serve_forever, daemon=True).start()
        hub_at(f"http://127.0.0.1:{hub.server_port}", monkeypatch)
        with pytest.raises(InputError, match="no such folder here, and the Hugging Face hub has no such model"):
            load("someone/nothing")
        with pytest.raises(InputError, match="no model on the hub can have this name"):
            load("some one's model")
        hub.shutdown()


def lora(folder, base, tokenizer_too=False):
    """An adapter on ``base`` whose weights are not zero; returns the logits that it gives."""
    loaded = load(base, device="cpu")
    model, tokenizer = loaded.model, loaded.tokenizer
    if tokenizer_too:
        add_tokens(model, tokenizer, ["<UNDO>"])
        tokenizer.save_pretrained(folder)
    adapted = get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    torch.manual_seed(1)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    adapted.eval().save_pretrained(folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | {"base_model_name_or_path": base}))
    with torch.no_grad():
        return adapted(torch.arange(10)[None]).logits


@pytest.mark.parametrize("tokenizer_too", [False, True])
def test_a_lora_adapter_loads_on_its_base(tmp_path, tokenizer_too):
    expected = lora(tmp_path, "tiny:base", tokenizer_too)
    loaded = load(str(tmp_path), device="cpu")
    assert "(LoRA on tiny:base)" in loaded.sentence
    with torch.no_grad():
        found = loaded.model(torch.arange(10)[None]).logits
    width = len(build_tokenizer())  # the row of <UNDO> itself is not part of this adapter
    assert torch.equal(found[..., :width], expected[..., :width])
    assert not torch.equal(found[..., :width], load("tiny:base", device="cpu").model(torch.arange(10)[None]).logits)
    assert len(loaded.tokenizer) == width + tokenizer_too
    assert not any(p.requires_grad for p in loaded.model.parameters())
    assert any(p.requires_grad for p in load(str(tmp_path), device="cpu", trainable=True).model.parameters())


@pytest.mark.parametrize(
    ("name", "said"),
    [("adapter_model.safetensors", "its weights cannot be read"), ("tokenizer.json", "could not be loaded")],
)
def test_an_adapter_that_was_cut_is_named(tmp_path, name, said):
    """As a download that was interrupted leaves it."""
    lora(tmp_path, "tiny:base", tokenizer_too=True)
    file = tmp_path / name
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(InputError, match=f"'{tmp_path}': {said}"):
        load(str(tmp_path), device="cpu")


def test_adapter_mistakes_are_named(tmp_path, folder):
    lora(tmp_path / "adapter", str(folder))
    adapter = tmp_path / "adapter"
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps(config | {"base_model_name_or_path": "tiny:base"}))
    with pytest.raises(InputError, match="does not fit its base model tiny:base"):
        load(str(adapter), device="cpu")
    (adapter / "adapter_config.json").write_text(json.dumps(config | {"base_model_name_or_path": None}))
    with pytest.raises(InputError, match=r"adapter_config.json: field base_model_name_or_path"):
        load(str(adapter))
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    shutil.move(adapter / "adapter_model.safetensors", adapter / "adapter_model.bin")
    with pytest.raises(InputError, match="are pickled"):
        load(str(adapter))
