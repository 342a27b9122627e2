"""A GGUF file becomes a folder that every other part loads by path. It is de-quantised once and kept in a cache.

The weights are those of the file: rounded to a few bits when it was made. They are not the weights that were published, so the
folder's config.json says from which type they came (``dequantised_from``), and tables that name the model repeat it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from holdfast.config import InputError
from holdfast.config.cache_folder import cache_folder
from holdfast.config.extras import need_extra

SUFFIX = ".gguf"
ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}
TIED_WITHIN = 0.15
"""Head and embedding are one matrix, stored twice, if they differ by less than this share (root mean square).

Two roundings of one matrix differ by at most 0.1 (4 bits against 8); two matrices that were trained apart differ by more than 1.
"""
ROWS_COMPARED = 2048
VALUES_OF_A_PART, VALUES_AT_ONCE = 1 << 22, 1 << 18
SERIAL = 1 << 15  # values that torch converts in the thread that asks; of more it wakes a thread for every core
LAYOUT = 1
"""Of the cached folders. A folder of another layout is made again."""

PARTS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
OF_THE_TOKENIZER = tuple(f"tokenizer.ggml.{name}" for name in ("merges", "token_type", "scores"))
TOKEN_KINDS = {"eos": "eos", "bos": "bos", "pad": "padding"}
EMBEDDING, HEAD = "token_embd.weight", "output.weight"
OUTSIDE = {EMBEDDING: "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", HEAD: "lm_head.weight"}


def is_gguf(path: Path) -> bool:
    """A file with the ending .gguf."""
    return path.suffix.lower() == SUFFIX and path.is_file()


def unpack_gguf(path: Path, tie: bool | None = None) -> Path:
    """The folder with this file's model, made now unless the cache has it.

    ``tie``: whether the head is the embedding. None looks: they are one if the file has no head of its own, or one that equals
    the embedding but for rounding (``TIED_WITHIN``).
    """
    need_extra("gguf", f"model '{path}'", "gguf")
    folder = (
        cache_folder()
        / "gguf"
        / f"{_content_hash(path)}-{'auto' if tie is None else 'tied' if tie else 'untied'}-{LAYOUT}"
    )
    if not (folder / "config.json").is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="unfinished-") as temporary:
            made = Path(temporary) / "model"
            _unpack(path, made, tie)
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)
    return folder


def _content_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def _unpack(path: Path, folder: Path, tie: bool | None) -> None:
    from transformers import AutoConfig

    try:
        reader = _open(path)
        architecture = str(_field(reader, "general.architecture"))
    except (ValueError, OSError, IndexError, KeyError) as error:
        first_line = str(error).partition("\n")[0]
        raise InputError(f"model '{path}': not a GGUF file that can be read: {first_line}") from error
    if architecture not in ARCHITECTURES:
        raise InputError(f"model '{path}': its architecture is {architecture}; expected {' or '.join(ARCHITECTURES)}")
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    names = {name: _hf_name(path, name) for name in tensors}
    with _read_already(reader, without=OF_THE_TOKENIZER):
        config: Any = AutoConfig.from_pretrained(str(path.parent), gguf_file=path.name)
    if hasattr(config, "quantization_config"):  # transformers would refuse to load or save the folder
        del config.quantization_config
    config.tie_word_embeddings = _is_tied(path, tensors, tie)
    config.architectures = [ARCHITECTURES[architecture]]
    config.dequantised_from = _file_type(reader)
    folder.mkdir()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = _weights(tensors, names, config, pool)
        _save_tokenizer(path, reader, folder, config)  # Python alone, while numpy fills the tensors on the other cores
        state = waiting()
    config.dtype = state[OUTSIDE[EMBEDDING]].dtype
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)  # last: a folder with config.json is complete


def _open(path: Path) -> Any:
    """gguf's reader on plain arrays. It takes a slice for each of half a million strings, and one of a memmap costs four times
    as much."""
    import gguf

    class Reader(gguf.GGUFReader):
        @property
        def data(self) -> Any:
            return self._plain

        @data.setter
        def data(self, mapped: Any) -> None:
            self._plain = np.asarray(mapped)  # the same memory

    return Reader(path)


@contextmanager
def _read_already(reader: Any, without: Collection[str] = ()) -> Iterator[None]:
    """transformers opens the file for itself, once for the config and once for the tokenizer: with a large vocabulary ten
    seconds each. In here it gets what was read, ``without`` fields that would take long to turn into lists for nothing.
    """
    import gguf

    before, given = gguf.GGUFReader, copy(reader)
    given.fields = {name: field for name, field in reader.fields.items() if name not in without}
    vars(gguf)["GGUFReader"] = lambda *_, **__: given
    try:
        yield
    finally:
        vars(gguf)["GGUFReader"] = before


def _weights(
    tensors: dict[str, Any], names: dict[str, str], config: Any, pool: ThreadPoolExecutor
) -> Callable[[], dict[str, Tensor]]:
    """Begin to de-quantise all tensors on all cores; what is returned waits for them, under the names of transformers."""
    llama = config.model_type == "llama"
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads} if llama else {}
    tied = config.tie_word_embeddings
    left_out = _coarser(tensors) if tied and HEAD in tensors else None
    begun = {name: _begin(tensors[name], pool) for name in tensors if name != left_out}

    def weight(name: str) -> Tensor:
        values = _finished(*begun[name])
        kind = name.split(".")[2] if name.startswith("blk.") else name
        return _halves_together(values, heads[kind]) if kind in heads else values

    def state() -> dict[str, Tensor]:
        weights = {names[name]: weight(name) for name in begun}
        if tied and (head := weights.pop(OUTSIDE[HEAD], None)) is not None:
            weights[OUTSIDE[EMBEDDING]] = head
        if not tied and HEAD not in tensors:
            weights[OUTSIDE[HEAD]] = weights[OUTSIDE[EMBEDDING]].clone()
        return weights

    return state


def _save_tokenizer(path: Path, reader: Any, folder: Path, config: Any) -> None:
    """Tokenizer and chat template; the tokens that end a turn and an answer are the file's."""
    from transformers import AutoTokenizer, GenerationConfig

    with _read_already(reader):
        tokenizer: Any = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    numbers = {kind: _field(reader, f"tokenizer.ggml.{name}_token_id") for kind, name in TOKEN_KINDS.items()}
    numbers["pad"] = numbers["eos"] if numbers["pad"] is None else numbers["pad"]
    for kind, number in numbers.items():
        if number is not None:
            setattr(config, f"{kind}_token_id", int(number))
            setattr(tokenizer, f"{kind}_token", tokenizer.convert_ids_to_tokens(int(number)))
    tokenizer.save_pretrained(folder)
    ends = sorted({int(numbers[kind]) for kind in ("eos", "pad") if numbers[kind] is not None})
    GenerationConfig(
        eos_token_id=ends or None, bos_token_id=numbers["bos"], pad_token_id=numbers["pad"]
    ).save_pretrained(folder)


def _field(reader: Any, name: str) -> Any:
    field = reader.get_field(name)
    return None if field is None else field.contents()


def _file_type(reader: Any) -> str:
    """The type that the file names, as llama.cpp writes it: Q4_K_M, Q8_0, F16."""
    import gguf

    number = _field(reader, "general.file_type")
    try:
        return gguf.LlamaFileType(number).name.removeprefix("MOSTLY_").removeprefix("ALL_")
    except ValueError:
        return "a GGUF file of unknown type"


def _hf_name(path: Path, name: str) -> str:
    """The tensor's name in transformers. A tensor that is not known changes what the model computes, so it is an error."""
    if name in OUTSIDE:
        return OUTSIDE[name]
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
    if match is None or match[2] not in PARTS:
        raise InputError(f"model '{path}': its tensor {name} has no place in the architectures that are read")
    return f"model.layers.{match[1]}.{PARTS[match[2]]}.{match[3]}"


def _begin(tensor: Any, pool: ThreadPoolExecutor, rows: slice = slice(None)) -> tuple[Tensor, list[Future[None]]]:
    """A tensor, and the work that fills it. A large one has many parts: a single core would be busy with it for long.

    De-quantised to bfloat16; a tensor that the file has in float32 or float16 keeps its precision.
    """
    import gguf

    kind, data = tensor.tensor_type, tensor.data[rows]
    if kind in (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16):
        return torch.from_numpy(np.array(data)), []  # a copy: the file is mapped read-only
    if not hasattr(gguf.quants, kind.name):
        raise InputError(f"a GGUF file's tensor {tensor.name} is of type {kind.name}, which is not read")
    shape = gguf.quants.quant_shape_from_byte_shape(data.shape, kind)
    values = torch.empty(shape, dtype=torch.bfloat16)
    lines, width = values.view(-1, shape[-1]), shape[-1]
    data = data.reshape(len(lines), -1)
    step = max(1, VALUES_OF_A_PART // width)
    return values, [
        pool.submit(_fill, lines[first : first + step], data[first : first + step], kind)
        for first in range(0, len(lines), step)
    ]


def _finished(values: Tensor, parts: Sequence[Future[None]]) -> Tensor:
    """Wait for all parts of a tensor."""
    for part in parts:
        part.result()
    return values


def _fill(lines: Tensor, data: Any, kind: Any) -> None:
    """De-quantise some rows, a few at a time: more than gguf's own 16, so that the threads seldom wait for each other."""
    import gguf

    few = max(1, VALUES_AT_ONCE // lines.shape[1])
    quantised = getattr(gguf.quants, kind.name)
    for first in range(0, len(lines), few):
        values = torch.from_numpy(quantised.dequantize_rows(data[first : first + few]))
        for out, own in zip(
            lines[first : first + few].view(-1).split(SERIAL), values.view(-1).split(SERIAL), strict=True
        ):
            out.copy_(own)


def _halves_together(values: Tensor, num_heads: int) -> Tensor:
    """Llama's queries and keys: the file has the two halves of a rotary pair side by side, transformers half a head apart."""
    pairs = values.unflatten(0, (num_heads, -1, 2))  # heads, pairs, 2
    halves: Tensor = pairs.transpose(1, 2).reshape(values.shape)
    return halves


def _is_tied(path: Path, tensors: dict[str, Any], tie: bool | None) -> bool:
    if EMBEDDING not in tensors:
        raise InputError(f"model '{path}': it has no tensor {EMBEDDING}")
    if tie is not None:
        return tie
    return HEAD not in tensors or _difference(tensors[EMBEDDING], tensors[HEAD]) < TIED_WITHIN


def _difference(one: Any, other: Any) -> float:
    """Root mean square of the difference, as a share of the first one's, over rows from all of the vocabulary."""
    rows = slice(None, None, max(1, len(one.data) // ROWS_COMPARED))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        first, second = (_finished(*_begin(tensor, pool, rows)).double() for tensor in (one, other))
    return float((first - second).norm() / first.norm())


def _coarser(tensors: dict[str, Any]) -> str:
    """Which of head and embedding has fewer bytes. Where they are tied, the finer one serves as both."""
    return min((EMBEDDING, HEAD), key=lambda name: int(tensors[name].n_bytes))
