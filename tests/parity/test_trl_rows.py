"""Whole rows beside TRL's SFTTrainer: the ids, the labels, the loss and the gradients of loss on everything."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import trl
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

from docs.pages import DOCS, section
from holdfast import objectives
from holdfast.config.training import TrainingSettings
from holdfast.data import read_traces, write_traces
from holdfast.heads import Group, fused_loss
from holdfast.records import Role
from holdfast.tokens import TokenRow, tokenize_all
from holdfast.training.collate import Collator, Counted, StreamRow
from parity.conftest import ParityRow
from tokens.styles import fresh

PAGE = (DOCS / "from-other-trainers.md").read_text(encoding="utf-8")
SAID = [
    ("What is two plus two?", "It is 4, naïve café."),
    ("The capital of Spain?", "Madrid, and not Lisbon."),
    ("Hello there!", "Fine, thank you. How are you today?"),
]
CHATS = [{"messages": [{"role": "user", "content": a}, {"role": "assistant", "content": b}]} for a, b in SAID]
CHATS.append({"messages": [message for chat in CHATS for message in chat["messages"]]})
TEXTS = [{"text": f"{a} {b}"} for a, b in SAID] + [{"text": SAID[0][1] + "<|im_end|>"}]


def small_model(size: int) -> LlamaForCausalLM:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=size, **sizes, initializer_range=0.3, pad_token_id=0)).double()


def trl_trainer(
    rows: list[dict[str, Any]], folder: Path, tokenizer: PreTrainedTokenizerFast, **options: Any
) -> SFTTrainer:
    tokenizer.pad_token = "<|endoftext|>"
    config = SFTConfig(
        output_dir=str(folder), use_cpu=True, bf16=False, report_to=[], gradient_checkpointing=False, **options
    )
    dataset = Dataset.from_list(rows)
    return SFTTrainer(small_model(len(tokenizer)), config, train_dataset=dataset, processing_class=tokenizer)


def our_rows(
    rows: list[dict[str, Any]], folder: Path, tokenizer: PreTrainedTokenizerFast, **options: Any
) -> list[TokenRow]:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tokenize_all(read_traces(path).traces, tokenizer, **options)[0]


def labels(row: TokenRow) -> list[int]:
    return [token if role != Role.PROMPT else -100 for token, role in zip(row.ids, row.roles, strict=True)]


@pytest.mark.parametrize(
    ("rows", "options"),
    [(CHATS, {}), (CHATS, {"completion_only_loss": False}), (TEXTS, {})],
    ids=["chats", "completion_only_loss", "documents"],
)
def test_loss_on_everything(rows: list[dict[str, Any]], options: dict[str, Any], tmp_path: Path) -> None:
    """TRL labels the very first token too, and its loss leaves it out: nothing predicts it."""
    tokenizer = fresh("chatml")
    trainer = trl_trainer(rows, tmp_path / "theirs", tokenizer, **options)
    theirs = list(trainer.train_dataset)
    ours = our_rows(rows, tmp_path, tokenizer, train_on_prompt=True)
    assert [row.ids for row in ours] == [row["input_ids"] for row in theirs]
    assert [labels(row)[1:] for row in ours] == [row["labels"][1:] for row in theirs]

    expected = trainer.compute_loss(trainer.model, trainer.data_collator(theirs))
    expected.backward()
    model = small_model(len(tokenizer))
    rows_of_stream = [StreamRow(row, 0, place, place) for place, row in enumerate(ours)]
    batch = Collator(0, (False,))(rows_of_stream)
    targets = batch.targets
    hidden = model.model(**batch.inputs.model_inputs()).last_hidden_state.flatten(0, 1)[targets.index]
    num = int(batch.counts[:, Counted.TOKENS].sum())
    assert num == sum(
        len(row["input_ids"]) - 1 for row in theirs
    )  # the denominator: every token but the first of a row
    group = Group(0, num, lambda stats, _: objectives.sft(stats))
    scale = torch.full((num,), 1 / num, dtype=torch.float64)
    loss = fused_loss(hidden, model.lm_head.weight, targets.ids, [group], scale=scale, chunk_tokens=7)
    loss.loss.backward()
    torch.testing.assert_close(loss.loss.double(), expected.double(), rtol=1e-6, atol=0)
    wanted = {name.removeprefix("module."): value.grad for name, value in trainer.model.named_parameters()}
    for name, value in model.named_parameters():
        torch.testing.assert_close(value.grad, wanted[name], rtol=1e-4, atol=1e-7)  # TRL's loss is float32


def test_loss_on_the_completion_only(tmp_path: Path, parity_row: ParityRow) -> None:
    """TRL's default for pairs of messages. It trains the newline after the end-of-turn token; we stop where the model stops."""
    tokenizer = fresh("chatml")
    pairs = [{"prompt": chat["messages"][:1], "completion": chat["messages"][1:]} for chat in CHATS[:3]]
    theirs = list(trl_trainer(pairs, tmp_path / "theirs", tokenizer).train_dataset)
    ours = our_rows(pairs, tmp_path, tokenizer)
    for row, other in zip(ours, theirs, strict=True):
        assert row.ids == other["input_ids"]
        newline = other["labels"][-1]
        assert tokenizer.decode([newline]) == "\n"
        assert labels(row) == [*other["labels"][:-1], -100]
    parity_row(
        "TRL", trl.__version__, "SFT: ids and labels of prompt and completion", "one newline after the end of turn"
    )


def test_columns_that_both_know_are_read_alike(tmp_path: Path, parity_row: ParityRow) -> None:
    """Tools and template arguments of a row, and content in parts."""
    tokenizer = fresh("chatml")
    tokenizer.chat_template = (
        "{% if tools %}{{ tools | tojson }}\n{% endif %}{{ 'quiet' if mode == 'quiet' }}" + tokenizer.chat_template
    )
    tool = {"type": "function", "function": {"name": "add_up", "parameters": {"type": "object"}}}
    rows = [{**chat, "tools": [tool], "chat_template_kwargs": {"mode": "quiet"}} for chat in CHATS]
    theirs = list(trl_trainer(rows, tmp_path / "theirs", tokenizer).train_dataset)
    ours = our_rows(rows, tmp_path, tokenizer)
    assert [row.ids for row in ours] == [row["input_ids"] for row in theirs]
    assert "add_up" in tokenizer.decode(ours[0].ids)
    assert "quiet" in tokenizer.decode(ours[0].ids)
    parity_row("TRL", trl.__version__, "SFT: ids of rows with tools and template arguments", "same ids")
    write_traces(tmp_path / "again.jsonl", read_traces(tmp_path / "rows.jsonl").traces)
    again = tokenize_all(read_traces(tmp_path / "again.jsonl").traces, tokenizer)[0]
    assert [row.ids for row in again] == [row.ids for row in ours]


TABLE = re.findall(r"^\| `(\w+)` \| `(\S+)` \| `training\.(\w+)` `(\S+)` \|", section(PAGE, "From TRL"), re.MULTILINE)


@pytest.mark.parametrize(("theirs", "default", "ours", "own"), TABLE, ids=[row[0] for row in TABLE])
def test_the_defaults_of_the_page_are_the_defaults(
    theirs: str, default: str, ours: str, own: str, tmp_path: Path
) -> None:
    config = SFTConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to=[])
    found = getattr(config, theirs)
    assert str(getattr(found, "value", found)) == default
    assert str(getattr(TrainingSettings(), ours)) == own


def test_the_page_names_the_version_it_speaks_of() -> None:
    assert len(TABLE) == 12
    assert f"TRL {trl.__version__.rpartition('.')[0]}'s" in PAGE
