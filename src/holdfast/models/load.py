"""Load a causal language model by name: an embedded one, a folder, a LoRA adapter's folder, a .gguf file, or a hub id.

Code that comes with a checkpoint is never run, and pickled weights are refused unless asked for.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from holdfast.config import InputError
from holdfast.config.arguments import checked
from holdfast.config.extras import need_extra
from holdfast.models.embedded import PREFIX, tiny_path
from holdfast.models.gguf_file import SUFFIX, is_gguf, unpack_gguf
from holdfast.models.hub import asking_hub_once
from holdfast.models.new_tokens import num_token_rows
from holdfast.models.placement import choose_device, choose_dtype, known_dtype

Attention = Literal["sdpa", "eager", "flash_attention_2"]


@dataclass(frozen=True)
class LoadedModel:
    """A model ready for use. ``sentence`` says what was chosen and why; whoever loads the model prints it."""

    model: PreTrainedModel  # or peft's PeftModel around one
    tokenizer: PreTrainedTokenizerBase
    name: str
    dtype: torch.dtype
    device: torch.device
    sentence: str

    def __repr__(self) -> str:
        """What was chosen; printing ``model`` shows its layers too."""
        return f"LoadedModel({self.sentence})"


@checked("load")
def load(
    name: str | Path | object,
    *,
    dtype: str | torch.dtype = "auto",
    device: str | torch.device = "auto",
    attention: Attention = "sdpa",
    allow_pickle: bool = False,
    trainable: bool = False,
    quantize: Literal["nf4"] | None = None,
    tie: bool | None = None,
) -> LoadedModel:
    """Load ``tiny:aligned``, a folder, an adapter's folder, a .gguf file, a hub id or a finished run; in eval mode.

    ``attention``: an architecture without sdpa, such as Gemma 2, gets eager instead, and ``sentence`` says so.
    ``trainable``: leave a LoRA adapter's weights open to training; other models can always be trained.
    ``quantize``: pack the linear layers to 4 bits (QLoRA), and compute in ``dtype``.
    ``tie``: for .gguf files, whether the head is the embedding; None finds out.
    """
    name = model_name(name, "load")
    place, why_place = choose_device(str(device))
    wanted = known_dtype(str(dtype).removeprefix("torch."))
    source = _source(name, tie)
    precision, why_precision = choose_dtype(
        wanted, place, tiny=name.startswith(PREFIX), stored=partial(_stored_dtype, source)
    )
    options = {"dtype": precision, "attn_implementation": attention, **_quantized(quantize, precision, place)}
    if isinstance(source, Path) and is_adapter(source):
        model, tokenizer, base = _load_adapter(source, options, allow_pickle, trainable)
        name_and_base = f"{name} (LoRA on {base})"
    else:
        model, tokenizer = _load_whole(name, source, options, allow_pickle)
        name_and_base = name
    if quantize:
        _keep_gradients(model)
    else:
        torch.nn.Module.to(model, place)  # in place; transformers' own `to` hides its signature from the type checker
    model.eval()
    more = f", linear layers in {quantize}" if quantize else ""
    if model.config._attn_implementation != attention:
        more += ", eager attention (it has no sdpa)"
    sentence = f"{name_and_base}: {_short(precision)} ({why_precision}){more}{_origin(model)} on {place} ({why_place})"
    return LoadedModel(model, tokenizer, name, precision, place, sentence)


def as_loaded(model: object, **how: Any) -> LoadedModel:
    """The model itself if it is loaded already; else load it by name or path, or from a finished run.

    ``how`` is passed to ``load``. It changes nothing about a model that is loaded already.
    """
    if isinstance(model, LoadedModel):
        return model
    name = getattr(model, "model", model)
    if not isinstance(name, str | Path):
        raise InputError(f"model: expected a name, a path, a loaded model or a run, got {type(model).__name__}")
    return load(name, **how)


def model_name(model: object, who: str) -> str:
    """A name or path, or that of a finished run. Raises ``InputError``, naming the function ``who``, for anything else."""
    name = getattr(model, "model", model)
    if not isinstance(name, str | Path):
        raise InputError(f"{who}: model: expected a name, a path or a finished run, got a {type(model).__name__}")
    return str(name)


def load_tokenizer(name: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a model, without its weights. An adapter's folder may have none: then it is its base model's."""
    source = _source(name)
    if isinstance(source, Path) and is_adapter(source) and not (source / "tokenizer_config.json").is_file():
        return load_tokenizer(str(_base_source(source)))
    try:
        with asking_hub_once(source):
            return AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise InputError(_explain(name, source, error)) from error


def _quantized(quantize: str | None, precision: torch.dtype, place: torch.device) -> dict[str, Any]:
    """transformers' options for 4-bit weights; they are packed on the device they stay on."""
    if quantize is None:
        return {}
    need_extra("gpu", f"quantize: {quantize}", "bitsandbytes")
    packing = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=quantize, bnb_4bit_compute_dtype=precision)
    return {"quantization_config": packing, "device_map": {"": place}}


def _keep_gradients(model: Any) -> None:
    """Keep bitsandbytes from repacking 4-bit weights for inference on CPUs with AVX512-BF16.

    It does so in the first pass without autograd (an anchor's, say). From then on the layer passes no gradient on; torch
    warns of "silently incorrect behavior" and the run goes on.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


def _stored_dtype(source: Path | str) -> torch.dtype | None:
    """The precision in which a checkpoint is stored, by its config. None if it cannot be read: loading the weights tells why."""
    if isinstance(source, Path) and is_adapter(source):
        return _stored_dtype(_base_source(source))
    try:
        with asking_hub_once(source):
            config = AutoConfig.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError, KeyError):
        return None
    dtype: torch.dtype | None = config.dtype
    return dtype


def model_source(name: str) -> str:
    """What transformers loads a model from: the path of a folder (an embedded model's too), or the hub id as it is."""
    return str(_source(name))


def check_there(name: str) -> None:
    """Raise ``InputError`` where there is no such model here (a folder or file) or on the hub. No weights are loaded."""
    source = _source(name)
    if isinstance(source, Path) and is_adapter(source):
        check_there(str(_base_source(source)))
    elif isinstance(source, Path):
        _model_is_safe(name, source, allow_pickle=True)
    else:
        with asking_hub_once(source):
            pass


def _source(name: str, tie: bool | None = None) -> Path | str:
    """A folder, or the hub id as it is."""
    path = Path(name).expanduser()
    if tie is not None and not is_gguf(path):
        raise InputError(f"tie: only a {SUFFIX} file leaves the choice, and '{name}' is none")
    if name.startswith(PREFIX):
        return tiny_path(name)
    if path.is_dir():
        return path
    if is_gguf(path):
        return unpack_gguf(path, tie)
    looks_like_path = name.startswith(("/", ".", "~")) or name.count("/") > 1 or "\\" in name
    if path.is_file():
        raise InputError(f"model '{name}': expected a folder with config.json or a {SUFFIX} file, found another file")
    if looks_like_path or path.suffix.lower() == SUFFIX:
        kind = "file" if path.suffix.lower() == SUFFIX else "folder"
        raise InputError(f"model '{name}': there is no such {kind}")
    return name


def _load_whole(
    name: str, source: Path | str, options: dict[str, Any], allow_pickle: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if isinstance(source, Path):
        use_safetensors: bool | None = _model_is_safe(name, source, allow_pickle)
    else:
        use_safetensors = None if allow_pickle else True
    try:
        with asking_hub_once(source), _bars_on_terminals_only():
            # weights_only=True is transformers' default for pickled weights; said aloud: it is what --allow-pickle promises.
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                source,
                trust_remote_code=False,
                use_safetensors=use_safetensors,
                weights_only=True,
                output_loading_info=True,
                **options,
            )
            tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError, ImportError, KeyError, RuntimeError, UnpicklingError, SafetensorError) as error:
        if options["attn_implementation"] == "sdpa" and "scaled_dot_product_attention" in str(error):
            return _load_whole(name, source, {**options, "attn_implementation": "eager"}, allow_pickle)
        raise InputError(_explain(name, source, error)) from error
    model, info = loaded
    if missing := sorted(info["missing_keys"]):  # transformers would go on with random numbers in their place
        raise InputError(f"model '{name}': its weights lack {len(missing)} tensors, {missing[0]} among them")
    if model.config._attn_implementation == "sdpa" and getattr(model.config, "attn_logit_softcapping", None):
        model.set_attn_implementation("eager")  # transformers 5.17 takes sdpa, which leaves the cap out in silence
    return model, tokenizer


@contextmanager
def _bars_on_terminals_only() -> Iterator[None]:
    """Show transformers' progress bars on a terminal only: in a log file one is a hundred lines."""
    is_on = transformers_logging.is_progress_bar_enabled()
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if is_on and not is_terminal:
        transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if is_on:
            transformers_logging.enable_progress_bar()


def _model_is_safe(name: str, folder: Path, allow_pickle: bool) -> bool:
    """``_weights_are_safe`` of a whole model, which has a config.json too."""
    if not (folder / "config.json").is_file():
        raise InputError(_no_config(name, folder))
    return _weights_are_safe(name, folder, "model.safetensors", allow_pickle)


def _weights_are_safe(name: str, folder: Path, expected: str, allow_pickle: bool) -> bool:
    """Whether a folder has safetensors; an error if it has not and pickle is not allowed."""
    if any(folder.glob("*.safetensors")):
        return True
    pickled = sorted(path.name for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern))
    if not pickled:
        raise InputError(f"model '{name}': the folder has no weights ({expected} was expected)")
    if not allow_pickle:
        raise InputError(
            f"model '{name}': its weights ({pickled[0]}) are pickled, and a pickle can run code; "
            "convert them to safetensors, or pass allow_pickle=True if you trust where they come from"
        )
    return False


def _no_config(name: str, folder: Path) -> str:
    inside = sorted(path.parent.name for path in folder.glob("*/config.json"))
    hint = " (this looks like a folder of checkpoints: name one of them)" if inside else ""
    if "model" in inside:
        hint = f"; did you mean '{folder / 'model'}'?"
    return f"model '{name}': the folder has no config.json{hint}"


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds a LoRA adapter and not a whole model."""
    return (folder / "adapter_config.json").is_file()


def _base_name(folder: Path) -> str:
    """The name of the model that an adapter was made for."""
    config = folder / "adapter_config.json"
    try:
        base = json.loads(config.read_text("utf-8"))["base_model_name_or_path"]
    except (ValueError, KeyError, TypeError):
        base = None
    if not isinstance(base, str) or not base:
        raise InputError(f"{config}: field base_model_name_or_path: expected a model's name")
    return base


def _base_source(folder: Path) -> Path | str:
    """A path in the adapter's config may be relative to its own folder."""
    base = _base_name(folder)
    beside = folder / base
    return beside if not base.startswith(PREFIX) and beside.is_dir() else _source(base)


def _load_adapter(
    folder: Path, options: dict[str, Any], allow_pickle: bool, trainable: bool
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, str]:
    """A LoRA adapter on its base model; tokens that were added with the adapter make the base's embeddings grow first."""
    from peft import PeftModel

    base, source = _base_name(folder), _base_source(folder)
    _weights_are_safe(str(folder), folder, "adapter_model.safetensors", allow_pickle)
    model, tokenizer = _load_whole(base, source, options, allow_pickle)
    if (folder / "tokenizer_config.json").is_file():
        tokenizer = load_tokenizer(str(folder))
        if len(tokenizer) > num_token_rows(model):
            model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    try:
        adapted = PeftModel.from_pretrained(model, folder, is_trainable=trainable)
    except SafetensorError as error:
        raise InputError(f"adapter '{folder}': its weights cannot be read: {_first_line(error)}") from error
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        raise InputError(f"adapter '{folder}': does not fit its base model {base}: {_first_line(error)}") from error
    return adapted, tokenizer, base


def _explain(name: str, source: Path | str, error: Exception) -> str:
    """One line for what transformers says in many."""
    text = str(error)
    if "trust_remote_code" in text or "custom code" in text:
        return f"model '{name}': it comes with code of its own, which holdfast never runs"
    if isinstance(error, UnpicklingError):
        return f"model '{name}': its pickled weights hold more than tensors, or are damaged: not loaded"
    if isinstance(source, Path) and not (is_adapter(source) or (source / "config.json").is_file()):
        return _no_config(name, source)
    if isinstance(source, Path):
        return f"model '{name}': could not be loaded: {_first_line(error)}"
    unreachable = ("couldn't connect", "offline", "connection", "resolve", "max retries", "cached")
    if any(word in text.lower() for word in unreachable):
        return f"model '{name}': no such folder here, and the Hugging Face hub cannot be reached to look for it"
    if "safetensors" in text:
        return f"model '{name}': no safetensors on the hub; pass allow_pickle=True if you trust where it comes from"
    return f"model '{name}': no such folder here, and the hub says: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]


def origin(model: Any) -> str | None:
    """``de-quantised from Q4_K_M`` for a model that came from a .gguf file, also after training; None for others."""
    kind = getattr(model.config, "dequantised_from", None)
    return f"de-quantised from {kind}" if kind else None


def named_with_origin(name: str) -> str:
    """A model's name as tables show it: with its origin, read from its config.json; the weights are not loaded."""
    source = _source(name)
    try:
        config = json.loads((Path(source) / "config.json").read_text("utf-8"))
        kind = config.get("dequantised_from")
    except (OSError, ValueError, AttributeError):  # a hub id, an adapter, a server's address
        kind = None
    return f"{name} (de-quantised from {kind})" if kind else name


def _origin(model: Any) -> str:
    said = origin(model)
    tied = "head tied to the embedding" if getattr(model.config, "tie_word_embeddings", False) else "head of its own"
    return f", {said}, {tied}" if said else ""


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
