"""Small real models and data that several test packages share."""

import gc
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from holdfast.worlds import SafetyWorld
from holdfast.worlds.tokenizer import build_tokenizer

torch.set_num_threads(1)  # the suite runs one worker per core
os.environ.setdefault("OMP_NUM_THREADS", "1")  # and so do the processes it starts
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in what a script starts with `&`, and in its children
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["HOLDFAST_KEEP_ANSWERS"] = "0"  # no test finds what another one asked; those of the cache switch it on
if Path("/dev/shm").is_dir() and shutil.disk_usage("/dev/shm").free > 4 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")  # every checkpoint is synced to the disk, if it is one
settings.register_profile("any machine", deadline=None)  # by default an example may take 0.2 s
settings.load_profile("any machine")


def pytest_configure(config: pytest.Config) -> None:
    if last := os.environ.get("START_NO_TEST_AFTER"):
        config.pluginmanager.register(UntilThen(float(last)))


class UntilThen:
    """CI's slow tests take the time that is left. What is not begun is named among the skipped."""

    def __init__(self, last: float) -> None:
        self.last = last  # seconds since 1970

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if time.time() > self.last:
            pytest.skip(f"no time left for {item.nodeid}")


_FROZEN = pytest.StashKey[bool]()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Every training looks for garbage. What was imported is none, and to look through it takes a third of a second.

    Once is enough, and remembered: ``gc.get_freeze_count`` counts a million objects, a tenth of a second for every test.
    """
    if "transformers.trainer" in sys.modules and not item.config.stash.get(_FROZEN, False):
        gc.collect()
        gc.freeze()
        item.config.stash[_FROZEN] = True


def pytest_sessionfinish() -> None:
    gc.unfreeze()


def save_small_model(folder: Path, *, tied: bool = True, **changes: Any) -> Path:
    """A random Llama with the safety world's tokenizer, saved as any tool saves one."""
    tokenizer = build_tokenizer()
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(
        **{
            **sizes,
            "vocab_size": len(tokenizer),
            "num_key_value_heads": 2,
            "tie_word_embeddings": tied,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            **changes,
        }
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_learned_positions(folder: Path, num: int) -> Path:
    """A random GPT-2, which has a table of so many positions and an error behind it."""
    tokenizer = build_tokenizer()
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(tokenizer), n_positions=num, n_embd=16, n_layer=1, n_head=2)
    GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_model(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def untied_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_model(tmp_path_factory.mktemp("untied"), tied=False)


@pytest.fixture(scope="session")
def uneven_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Conversations of one to four turns: lengths differ by a factor of four and more."""
    world = SafetyWorld()
    asks = [trace for kind in ("recipe", "copy", "count", "colour") for trace in world.requests("train", kind, 12)]
    path = tmp_path_factory.mktemp("rows") / "uneven.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for index in range(40):
            turns = [turn for step in range(1 + index % 4) for turn in asks[(index * 7 + step * 5) % len(asks)].turns]
            file.write(json.dumps({"messages": [{"role": t.speaker, "content": t.visible} for t in turns]}) + "\n")
    return path
