"""Plain likelihood against transformers' own loss of a causal language model, through a real (small) model."""

import pytest
import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

from holdfast import objectives
from holdfast.heads import Group, fused_loss, token_stats
from parity.conftest import ParityRow


@pytest.fixture
def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=101, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
    )
    return LlamaForCausalLM(config).double().eval()


@pytest.mark.parametrize("path", ["fused", "chunked", "reference"])
def test_sft_is_transformers_loss(model: LlamaForCausalLM, path: str, parity_row: ParityRow) -> None:
    ids = torch.randint(101, (3, 12), generator=torch.Generator().manual_seed(1))
    labels = ids.clone()
    labels[0, :5] = labels[1, :9] = labels[2, 11:] = -100
    expected = model(input_ids=ids, labels=labels).loss
    expected.backward()
    wanted = {name: value.grad.clone() for name, value in model.named_parameters()}
    model.zero_grad()

    hidden = model.model(input_ids=ids).last_hidden_state[:, :-1]
    kept = labels[:, 1:] != -100
    rows, targets, weight = hidden[kept], labels[:, 1:][kept], model.lm_head.weight
    if path == "fused":
        scale = torch.full((len(targets),), 1 / len(targets), dtype=torch.float64)
        group = Group(0, len(targets), lambda stats, _: objectives.sft(stats), want=objectives.stats_read("sft"))
        loss = fused_loss(rows, weight, targets, [group], scale=scale, chunk_tokens=5).loss
    else:
        loss = objectives.sft(token_stats(rows, weight, targets, chunk_tokens=5, backend=path)).mean()
    loss.backward()
    # transformers takes its loss in float32 whatever the model's dtype.
    torch.testing.assert_close(loss.float(), expected, rtol=1e-6, atol=0)
    for name, value in model.named_parameters():
        torch.testing.assert_close(value.grad, wanted[name], rtol=1e-5, atol=1e-8)
    gap = max(float((value.grad - wanted[name]).abs().max()) for name, value in model.named_parameters())
    peer = ("transformers", transformers.__version__)
    parity_row(*peer, "`sft`: loss of a batch with masked labels", abs(float(loss.detach() - expected.detach())))
    parity_row(*peer, "`sft`: its gradient in every weight", gap)
