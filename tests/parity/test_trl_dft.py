"""dft against TRL's: the loss and the gradients its SFTTrainer computes on the same batch."""

from pathlib import Path

import pytest
import torch
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

from holdfast import objectives
from holdfast.heads import Group, fused_loss
from parity.conftest import ParityRow

VOCAB = 61


def small_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        initializer_range=0.3,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config)


def trl_trainer(loss_type: str, folder: Path) -> SFTTrainer:
    words = {f"w{number}": number for number in range(VOCAB)}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, "w1")), pad_token="w0")
    tokenizer.eos_token = "w2"
    config = SFTConfig(output_dir=str(folder), loss_type=loss_type, use_cpu=True, bf16=False, report_to=[])
    rows = Dataset.from_list([{"input_ids": [3, 4, 5, 2]}])
    return SFTTrainer(small_model(), config, train_dataset=rows, processing_class=tokenizer)


@pytest.mark.parametrize(("loss_type", "objective"), [("dft", objectives.dft), ("nll", objectives.sft)])
def test_same_loss_and_gradients(loss_type: str, objective: object, tmp_path: Path, parity_row: ParityRow) -> None:
    ids = torch.randint(3, VOCAB, (3, 10), generator=torch.Generator().manual_seed(1))
    labels = ids.clone()
    labels[0, :4] = labels[1, :7] = labels[2, 9:] = -100

    trainer = trl_trainer(loss_type, tmp_path)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    theirs = trainer.compute_loss(trainer.model, batch)
    theirs.backward()

    model = small_model()
    kept = labels[:, 1:] != -100
    hidden = model.model(input_ids=ids).last_hidden_state[:, :-1][kept]
    targets = labels[:, 1:][kept]
    group = Group(0, len(targets), lambda stats, _: objective(stats))
    scale = torch.full((len(targets),), 1 / len(targets))
    ours = fused_loss(hidden, model.lm_head.weight, targets, [group], scale=scale, chunk_tokens=7)
    ours.loss.backward()

    torch.testing.assert_close(ours.loss, theirs, rtol=1e-5, atol=0)
    wanted = {name.removeprefix("module."): value.grad for name, value in trainer.model.named_parameters()}
    for name, value in model.named_parameters():
        torch.testing.assert_close(value.grad, wanted[name], rtol=1e-4, atol=1e-7)
    gap = max(float((value.grad - wanted[name]).abs().max()) for name, value in model.named_parameters())
    peer, name = ("TRL", trl.__version__), objective.__name__
    parity_row(*peer, f"`{name}`: loss of its SFTTrainer (`{loss_type}`)", abs(float((ours.loss - theirs).detach())))
    parity_row(*peer, f"`{name}`: its gradient in every weight", gap)
