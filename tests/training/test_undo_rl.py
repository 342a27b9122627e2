"""GRPO with ``<UNDO>`` through TRL: soft and hard rollouts, and the reward."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from conftest import save_learned_positions
from generation.undo_models import UNDO, scripts, small_llama, training_logits
from holdfast.config import InputError
from holdfast.config.rl import RlConfig
from holdfast.generation.slots import SlotCache
from holdfast.models import add_tokens, load, tiny_path
from holdfast.records import Reply
from holdfast.tokens import find_undo_id
from holdfast.training.rl import RlPrompt, train_rl
from holdfast.training.rl.trainer import KlInRewardTrainer
from holdfast.training.rl.undo import UndoRl, hard_inputs

ASKED = [RlPrompt("copy : sun river", "sun river"), RlPrompt("copy : lamp bird", "lamp bird")]


@pytest.fixture(scope="module")
def undoing(tmp_path_factory: pytest.TempPathFactory) -> str:
    """tiny:aligned that writes ``<UNDO>`` now and then: its row points the way of a common word's."""
    folder = tmp_path_factory.mktemp("model")
    loaded = load("tiny:aligned", device="cpu")
    (undo,) = add_tokens(loaded.model, loaded.tokenizer)
    with torch.no_grad():
        weight = loaded.model.get_input_embeddings().weight
        weight[undo] = 0.9 * weight[loaded.tokenizer.convert_tokens_to_ids("river")]
    loaded.model.save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)
    return str(folder)


def config(run: Path, model: str, **changes: object) -> RlConfig:
    rl = {"steps": 2, "prompts_per_step": 2, "group": 4, "lr": 1e-3, "kl_weight": 0.0, "max_new_tokens": 8}
    rl |= {"temperature": 1.5, **changes}
    return RlConfig.model_validate(
        {"run": str(run), "model": {"name": model, "device": "cpu"}, "data": "given", "rl": rl}
    )


def overlap(replies: Sequence[Reply]) -> list[float]:
    """A reward that varies: the share of right words."""
    return [
        len(set(reply.text.split()) & set(reply.reference.split())) / 2 + 0.1 * (reply.finish_reason == "stop")
        for reply in replies
    ]


def quietly(_: str) -> None:
    pass


def weights(folder: Path) -> torch.Tensor:
    return torch.cat([each.flatten() for each in load_file(folder / "model.safetensors").values()])


@pytest.mark.parametrize("context", ["soft", "hard"])
def test_it_trains_and_pays_for_undos(undoing: str, tmp_path: Path, context: str) -> None:
    rewarded: list[tuple[str, float]] = []

    def reward(replies: Sequence[Reply]) -> list[float]:
        scores = overlap(replies)
        rewarded.extend((reply.text, score) for reply, score in zip(replies, scores, strict=True))
        return scores

    undo = UndoRl(cost=0.1, context=context)  # type: ignore[arg-type]
    model = train_rl(config(tmp_path / "run", undoing), ASKED, reward, undo=undo, say=quietly)
    assert len(rewarded) == 16
    assert not any("<UNDO>" in text for text, _ in rewarded)
    before = weights(Path(undoing))
    assert not torch.equal(weights(model), before)


@pytest.mark.parametrize("context", ["soft", "hard"])
def test_the_kl_is_where_it_is_wanted_and_the_observer_sees_what_is_left(
    undoing: str, tmp_path: Path, context: str
) -> None:
    """In the loss TRL logs it, in the reward it does not; from the second step on, the two give other weights."""
    found, seen = {}, []

    def observe(replies: Sequence[Reply]) -> dict[str, float]:
        seen.extend(reply.text for reply in replies)
        return {"num_ended": float(sum(reply.finish_reason == "stop" for reply in replies))}

    undo = UndoRl(context=context)  # type: ignore[arg-type]
    for kl in ("loss_k3", "reward_k1"):
        settings = config(tmp_path / kl, undoing, kl=kl, kl_weight=2.0)
        found[kl] = weights(train_rl(settings, ASKED, overlap, observe=observe, undo=undo, say=quietly))
        rows = [json.loads(line) for line in (tmp_path / kl / "steps.jsonl").read_text().splitlines()]
        assert {("kl" in row, 0 <= row["num_ended"] <= 8) for row in rows} == {(kl == "loss_k3", True)}
    assert not torch.equal(found["loss_k3"], found["reward_k1"])
    assert len(seen) == 32
    assert not any("<UNDO>" in text for text in seen)


def test_what_would_be_ignored_is_refused_before_anything_is_written(undoing: str, tmp_path: Path) -> None:
    class Unchanged:
        def start(self, num: int, device: torch.device) -> None: ...

        def __call__(self, rows: Tensor, sampled: Tensor, generator: torch.Generator) -> Tensor:
            return sampled

    run = tmp_path / "run"
    with pytest.raises(InputError, match="an environment cannot change what is written with undo"):
        train_rl(config(run, undoing), ASKED, overlap, undo=UndoRl(), environment=Unchanged(), say=quietly)
    for options, what in (({"undo": UndoRl()}, "undo"), ({"environment": Unchanged()}, "an environment")):
        with pytest.raises(InputError, match=f"field 'rl.sampler': trl knows nothing of {what}; expected own"):
            train_rl(config(run, undoing, sampler="trl"), ASKED, overlap, say=quietly, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no <UNDO>: train one first"):
        train_rl(config(run, str(tiny_path("tiny:aligned"))), ASKED, overlap, undo=UndoRl(), say=quietly)
    assert not run.exists()


def test_rollouts_that_a_model_cannot_read_are_refused(undoing: str, tmp_path: Path) -> None:
    few, run = str(save_learned_positions(tmp_path / "few", 16)), tmp_path / "run"
    with pytest.raises(InputError, match=r"'rl.max_new_tokens': 12 after prompts of up to 8 tokens are more .* 16 pos"):
        train_rl(config(run, few, max_new_tokens=12), ASKED, overlap, say=quietly)
    with pytest.raises(InputError, match=r"'rl.max_prompt_tokens': a prompt has 8 tokens, more than 4"):
        train_rl(config(run, undoing, max_prompt_tokens=4), ASKED, overlap, say=quietly)
    assert not run.exists()


def test_the_reward_is_for_what_is_left_less_the_cost() -> None:
    loaded = load("tiny:aligned", device="cpu")
    (undo,) = add_tokens(loaded.model, loaded.tokenizer)
    sun, river, lamp = loaded.tokenizer("sun river lamp", add_special_tokens=False)["input_ids"]
    seen: list[str] = []

    def right(replies: Sequence[Reply]) -> list[float]:
        seen.extend(reply.text for reply in replies)
        return [float(reply.text == reply.reference and reply.finish_reason == "stop") for reply in replies]

    score = UndoRl(cost=0.25).reward_function(right, loaded.tokenizer)
    end = loaded.tokenizer.eos_token_id
    answers = [[sun, lamp, undo, river, end], [sun, river, end], [sun, river], [sun, undo, end]]
    answers.append([lamp, lamp, undo, undo, sun, river, end])
    prompts = [[{"role": "user", "content": "say again : sun river"}]] * 5
    assert score(prompts=prompts, completion_ids=answers, answer=["sun river"] * 5) == [0.75, 1.0, 0.0, -0.25, 0.5]
    assert seen == ["sun river", "sun river", "sun river", "", "sun river"]


def test_hard_inputs_are_those_of_supervised_training() -> None:
    """Left-padded prompts, right-padded completions: the same logits as the mask of a row by itself."""
    model, prompts = small_llama("sdpa"), [[1, 5, 6], [1, 7]]
    answers = [scripts(1, 6, seed=1)[0], scripts(1, 4, seed=2)[0]]
    ids = torch.tensor([[*prompts[0], *answers[0]], [0, *prompts[1], *answers[1], 0, 0]])
    given = torch.tensor([[1] * 9, [0, *[1] * 6, 0, 0]])
    mask, positions = hard_inputs(ids, given, 3, UNDO)
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).logits
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        expected = training_logits(model, prompt, answer, "hard")
        assert (logits[row, 3 : 3 + len(answer)] - expected).abs().max() < 1e-12


def test_loss_and_kl_in_hard_context_are_of_the_decoders_probabilities(undoing: str, tmp_path: Path) -> None:
    """TRL's own log-probabilities, under our mask, of a completion that takes back; and those of a KL in the reward."""
    from datasets import Dataset
    from trl import GRPOConfig

    loaded = load(undoing, device="cpu")
    undo = find_undo_id(loaded.tokenizer)
    assert undo is not None
    prompt, answer = [1, 20, 21], [30, 31, undo, 32, undo, undo, 33]
    trainer = UndoRl(context="hard").trainer_class(loaded.tokenizer, KlInRewardTrainer)(
        model=undoing,
        reward_funcs=[lambda **_: [0.0]],
        args=GRPOConfig(
            output_dir=str(tmp_path), use_cpu=True, report_to="none", bf16=False, per_device_train_batch_size=8
        ),
        train_dataset=Dataset.from_list([{"prompt": "x"}]),
        processing_class=loaded.tokenizer,
    )
    ids = torch.tensor([[*prompt, *answer]])
    logps = trainer._get_per_token_logps_and_entropies(trainer.model.eval(), ids, torch.ones_like(ids), len(answer))[0]
    slots = SlotCache(loaded.model, context="hard")
    logits = [slots.start([prompt], 0), *(slots.feed([token], [token == undo], [False]) for token in answer[:-1])]
    expected = torch.cat(logits).log_softmax(-1).gather(1, torch.tensor(answer)[:, None]).T
    assert (logps - expected).abs().max() < 1e-4
    rollout = {"prompt_ids": ids[:, :3], "completion_ids": ids[:, 3:]}
    masks = {"prompt_mask": torch.ones(1, 3), "completion_mask": torch.ones(1, len(answer))}
    assert (trainer._logps({**rollout, **masks}) - expected).abs().max() < 1e-4
