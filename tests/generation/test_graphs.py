"""The step that a GPU replays, run as it is on a CPU: the same tokens as transformers' own loop."""

import random
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import GenerationConfig, MistralConfig

from generation.undo_models import VOCAB, small_llama
from holdfast.generation.choosing import choose, draw
from holdfast.generation.graphs import Decoding, GraphDecoder, Written, why_not_graphs

PAD = 0


def some_prompts(num: int, seed: int, longest: int = 20) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(3, VOCAB) for _ in range(rng.randrange(1, longest))] for _ in range(num)]


def by_transformers(model, prompts: list[list[int]], stops: list[int], max_new_tokens: int) -> list[list[int]]:
    """Each prompt on its own: no padding, a growing cache."""
    settings = GenerationConfig(
        max_new_tokens=max_new_tokens, do_sample=False, eos_token_id=stops, pad_token_id=PAD, num_beams=1
    )
    rows = [torch.tensor([prompt], device=model.device) for prompt in prompts]
    return [
        model.generate(row, attention_mask=torch.ones_like(row), generation_config=settings)[0, row.shape[1] :].tolist()
        for row in rows
    ]


def common_tokens(rows: list[list[int]], num: int) -> list[int]:
    """Tokens that a model writes often: as stops they end rows at different places."""
    flat = [token for row in rows for token in row[2:]]
    return sorted(set(flat), key=lambda token: -flat.count(token))[:num]


def check_against_transformers(model, num_new: int = 30) -> None:
    prompts = some_prompts(13, seed=1)
    stops = common_tokens(by_transformers(model, prompts, [2], num_new), 2)
    expected = by_transformers(model, prompts, stops, num_new)
    lengths = {len(row) for row in expected}
    assert len(lengths) > 3, "the rows must end at different places"
    decoder = GraphDecoder(model, Decoding(num_new, stops, PAD), num_rows=6)
    batches = [prompts[:6], prompts[6:12], prompts[12:]]
    assert [row for batch in batches for row in decoder(batch).ids] == expected


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_greedy_tokens_are_those_of_transformers(attention):
    """Different prompt lengths, rows that end in the middle, a last batch of one row, a cache that is used again."""
    check_against_transformers(small_llama(attention, torch.float32))


def test_greedy_tokens_under_autocast_and_with_adapters():
    """As the policy of an RL run is: float32 weights in bf16 autocast, adapters in front of them."""
    adapters = LoraConfig(task_type="CAUSAL_LM", r=4, target_modules="all-linear", init_lora_weights=False)
    model = get_peft_model(small_llama("sdpa", torch.float32), adapters).eval()
    prompts = some_prompts(4, seed=12)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert GraphDecoder(model, Decoding(8, [2], PAD), 4)(prompts).ids == by_transformers(model, prompts, [2], 8)


def test_the_models_attention_is_its_own_again():
    model = small_llama("eager")
    GraphDecoder(model, Decoding(4, [2], PAD), 2)([[5, 6], [7]])
    assert model.config._attn_implementation == "eager"


def test_one_token_and_longer_caches():
    """No step at all after the prompt; and a batch that needs a longer cache than the one before."""
    model = small_llama("sdpa")
    prompts = some_prompts(4, seed=2)
    for num_new in (1, 2):
        assert GraphDecoder(model, Decoding(num_new, [2], PAD), 4)(prompts).ids == by_transformers(
            model, prompts, [2], num_new
        )
    decoder = GraphDecoder(model, Decoding(12, [2], PAD), 4)
    longer = some_prompts(4, seed=3, longest=90)
    assert decoder(prompts).ids == by_transformers(model, prompts, [2], 12)
    assert decoder(longer).ids == by_transformers(model, longer, [2], 12)


def sampled(model, prompts: list[list[int]], uniform: torch.Tensor, num_rows: int) -> list[Written]:
    how = Decoding(uniform.shape[1], [2], PAD, temperature=0.7, top_p=0.9, keep_logps=True)
    decoder = GraphDecoder(model, how, num_rows)
    starts = range(0, len(prompts), num_rows)
    return [decoder(prompts[at : at + num_rows], uniform[at : at + num_rows]) for at in starts]


def test_luck_belongs_to_the_row_not_to_the_batch():
    model = small_llama("sdpa")
    prompts = some_prompts(5, seed=4)
    uniform = torch.rand(5, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    (together,) = sampled(model, prompts, uniform, 5)
    alone = sampled(model, prompts, uniform, 1)
    assert together.ids == [each.ids[0] for each in alone]
    assert together.ids != by_transformers(model, prompts, [2], 16)
    for prompt, ids, logps in zip(prompts, together.ids, together.logps, strict=True):
        logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        right = (logits / 0.7).log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).squeeze(1)
        torch.testing.assert_close(torch.tensor(logps), right.float())


class Crowded:
    """A model for which there is memory for so many rows only."""

    def __init__(self, model, most: int) -> None:
        self.model, self.most, self.device, self.dtype, self.config = (
            model,
            most,
            model.device,
            model.dtype,
            model.config,
        )

    def __call__(self, **inputs):
        if len(inputs["input_ids"]) > self.most:
            raise torch.OutOfMemoryError("out of memory")
        return self.model(**inputs)


def test_where_memory_is_short_batches_are_halved():
    model, prompts = small_llama("sdpa"), some_prompts(40, seed=10)
    uniform = torch.rand(40, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(11))
    how = Decoding(6, [2], PAD, temperature=1.0)
    right = GraphDecoder(model, how, 40)(prompts, uniform)
    crowded = GraphDecoder(Crowded(model, 12), how, 40)
    assert crowded.attempt(prompts, uniform) == right
    assert crowded.num_rows == 10
    with pytest.warns(UserWarning, match="without CUDA graphs, which is slower: out of memory"):
        assert GraphDecoder(Crowded(model, 2), how, 40).attempt(prompts, uniform) is None


@pytest.mark.parametrize("top_p", [1.0, 0.7, 1e-6])
def test_every_token_gets_the_share_of_luck_that_is_its_probability(top_p):
    """An even grid of luck hits every token as often as its probability says, up to one step of the grid."""
    num, vocab, temperature = 4000, 50, 1.3
    logits = 2 * torch.randn(vocab, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    logits[7] = -torch.inf
    grid = (torch.arange(num, dtype=torch.float64) / num)[:, None]
    found = (
        draw(logits.expand(num, -1), grid, temperature=temperature, top_p=top_p).squeeze(1).bincount(minlength=vocab)
    )
    ordered, index = (logits / temperature).softmax(0).sort(descending=True)
    kept = ordered * (ordered.cumsum(0) - ordered < top_p)
    expected = torch.zeros_like(kept).scatter(0, index, kept / kept.sum())
    assert (found - num * expected).abs().max() <= 1.01
    assert not found[expected == 0].any()


def test_choosing_keeps_to_the_nucleus_and_to_what_is_not_barred():
    """Tokens 3 and 1 reach 0.6 together; with 3 barred it is 1 and 2."""
    logits = torch.tensor([0.1, 0.3, 0.2, 0.4]).log().expand(400, -1)
    how = {"temperature": 1.0, "top_p": 0.6, "generator": torch.Generator().manual_seed(0)}
    assert set(choose(logits, [[]] * 400, **how)) == {3, 1}
    assert set(choose(logits, [[3]] * 400, **how)) == {1, 2}


def test_the_last_luck_stays_inside():
    """The largest number below 1, and tokens without any probability at the end."""
    logits = torch.cat([torch.zeros(3), torch.full((50_000,), -torch.inf)])[None]
    most = torch.tensor([[1 - 2**-53]], dtype=torch.float64)
    assert draw(logits, most, temperature=1.0).item() == 2
    assert draw(logits, most, temperature=1.0, top_p=0.5).item() in (0, 1, 2)
    assert draw(logits, most, temperature=0.0).item() == choose(logits, [[]], temperature=0.0)[0]


def test_what_cannot_be_decoded_is_said():
    model = small_llama("sdpa")
    assert why_not_graphs(model) == "it needs a CUDA device"
    cuda = torch.device("cuda")
    assert why_not_graphs(SimpleNamespace(device=cuda, config=model.config)) is None
    windows = MistralConfig(num_hidden_layers=2, sliding_window=32, attn_implementation="sdpa")
    assert "some layers" in str(why_not_graphs(SimpleNamespace(device=cuda, config=windows)))
    spread = SimpleNamespace(device=cuda, config=model.config, hf_device_map={"a": 0, "b": 1})
    assert "several devices" in str(why_not_graphs(spread))
