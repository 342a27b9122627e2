"""GRPO end to end on a model of a few thousand weights, and the parts that are ours."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoConfig, LlamaForCausalLM

from holdfast.config import InputError
from holdfast.config.rl import GrpoSettings, RlConfig
from holdfast.records import context
from holdfast.tokens import prompt_ids
from holdfast.training.rl import RlPrompt, sample, train_rl
from holdfast.training.rl.run import _rollouts
from holdfast.training.rl.trainer import group_mean, kl_to_go
from holdfast.training.run_directory import RunDirectory
from holdfast_studies.worlds.slips import Slips
from training.rl_runs import TOKENIZER, WORLD, asked, save_policy, saving, shortness, trained


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return save_policy(tmp_path_factory.mktemp("policy"))


def ids_of(products):
    return [prompt_ids([context("user", WORLD.prompt(each))], TOKENIZER) for each in products]


def options(**changes):
    ends = {"end_id": TOKENIZER.eos_token_id, "pad_id": TOKENIZER.pad_token_id}
    return {"max_new_tokens": 12, **ends, **changes}


def test_greedy_sampling_is_transformers_own(folder):
    model = LlamaForCausalLM.from_pretrained(folder).eval()
    for prompt in ids_of(asked(4)):
        ours = sample(model, [prompt], **options(temperature=0.0))[0].ids
        theirs = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=12)[0, len(prompt) :].tolist()
        assert ours == theirs


def test_a_batch_of_uneven_prompts_samples_as_each_alone_and_knows_its_log_probabilities(folder):
    model = LlamaForCausalLM.from_pretrained(folder).eval()
    prompts = ids_of(asked(6))
    together = sample(model, prompts, **options(temperature=0.0))
    for prompt, rollout in zip(prompts, together, strict=True):
        assert rollout.ids == sample(model, [prompt], **options(temperature=0.0))[0].ids
        logits = model(torch.tensor([prompt + rollout.ids])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        expected = logits.gather(1, torch.tensor(rollout.ids)[:, None]).squeeze(1)
        assert torch.allclose(torch.tensor(rollout.logps), expected, atol=1e-5)


def test_log_probabilities_are_of_the_temperature_that_was_drawn_at(folder):
    model = LlamaForCausalLM.from_pretrained(folder).eval()
    (prompt,) = ids_of(asked(1))
    (rollout,) = sample(model, [prompt], **options(temperature=0.5, seed=2))
    logits = model(torch.tensor([prompt + rollout.ids])).logits[0, len(prompt) - 1 : -1]
    expected = (logits / 0.5).log_softmax(-1).gather(1, torch.tensor(rollout.ids)[:, None]).squeeze(1)
    assert torch.allclose(torch.tensor(rollout.logps), expected, atol=1e-5)


def test_sampling_is_repeatable(folder):
    model = LlamaForCausalLM.from_pretrained(folder).eval()
    prompts = ids_of(asked(5))
    assert sample(model, prompts, **options(seed=3)) == sample(model, prompts, **options(seed=3))
    assert sample(model, prompts, **options(seed=3)) != sample(model, prompts, **options(seed=4))


def test_a_prompt_that_several_responses_share_is_read_once(folder):
    model = LlamaForCausalLM.from_pretrained(folder).eval()
    first, longer = ids_of(asked(2))
    assert len(first) < len(longer)
    group = [first, longer, first, first, longer]
    alone = [sample(model, [prompt], **options(temperature=0.0))[0] for prompt in group]
    lines = []
    model.register_forward_pre_hook(lambda *given: lines.append(len(given[2]["input_ids"])), with_kwargs=True)
    together = sample(model, group, **options(temperature=0.0))
    assert lines[:2] == [2, 5]
    assert [rollout.ids for rollout in together] == [rollout.ids for rollout in alone]
    for ours, own in zip(together, alone, strict=True):
        assert ours.logps == pytest.approx(own.logps, abs=1e-5)
    drawn = sample(model, [first] * 8, **options(seed=1))
    assert len({tuple(rollout.ids) for rollout in drawn}) > 1


def test_slips_change_steps_of_attempts_alone():
    slips = Slips(WORLD, TOKENIZER, rate=0.5)
    generator = torch.Generator().manual_seed(0)
    vocabulary = TOKENIZER.get_vocab()
    slips.start(4000, torch.device("cpu"))
    rows = torch.arange(4000)
    step = torch.full((4000,), vocabulary["b0.1:4"])
    written = slips(rows, step, generator)
    changed = written != step
    assert 0.46 < changed.float().mean() < 0.54
    words = {TOKENIZER.convert_ids_to_tokens(int(i)) for i in written[changed]}
    assert words == {f"b0.1:{value}" for value in range(9) if value != 4}
    check, again = (torch.full((4000,), vocabulary[word]) for word in ("check", "again"))
    assert torch.equal(slips(rows, check, generator), check)
    assert torch.equal(slips(rows, step, generator), step)
    slips(rows, again, generator)
    assert not torch.equal(slips(rows, step, generator), step)


def test_environment_tokens_are_marked(folder):
    model = LlamaForCausalLM.from_pretrained(folder).eval()
    rollouts = sample(model, ids_of(asked(20)), **options(environment=Slips(WORLD, TOKENIZER, rate=0.9), seed=1))
    assert any(not own for rollout in rollouts for own in rollout.own)
    assert all(len(rollout.ids) == len(rollout.own) == len(rollout.logps) for rollout in rollouts)


def test_kl_to_go_by_hand():
    ratio, mask = torch.tensor([[1.0, 2.0, 4.0], [1.0, 1.0, 9.0]]), torch.tensor([[1, 0, 1], [1, 1, 0]])
    assert kl_to_go(ratio, mask).tolist() == [[5.0, 4.0, 4.0], [2.0, 1.0, 0.0]]
    assert group_mean(torch.tensor([1.0, 3.0, 5.0, 5.0]), 2).tolist() == [2.0, 2.0, 5.0, 5.0]


@pytest.mark.parametrize("kl", ["loss_k3", "reward_k1"])
def test_grpo_end_to_end(folder, tmp_path, kl):
    config = RlConfig(
        run=str(tmp_path / "run"),
        model={"name": str(folder), "device": "cpu"},
        rl=GrpoSettings(
            steps=3, prompts_per_step=4, group=4, lr=1e-2, kl_weight=0.05, kl=kl, max_new_tokens=10, updates=1
        ),
        task="arithmetic",
        task_options={"base": 3, "largest": "3x1", "sizes": ["2x1", "3x1"], "num": 8},
    )
    prompts = [RlPrompt(WORLD.prompt(each), str(WORLD.value(each))) for each in asked(8)]
    seen = []
    result = train_rl(
        config,
        prompts,
        shortness,
        observe=lambda replies: seen.append(len(replies)) or {"words": float(len(replies))},
        environment=Slips(WORLD, TOKENIZER, 0.2),
        say=lambda _: None,
    )
    before = LlamaForCausalLM.from_pretrained(folder).get_input_embeddings().weight
    after = LlamaForCausalLM.from_pretrained(result).get_input_embeddings().weight
    assert not torch.equal(before, after)
    rows = [json.loads(line) for line in (tmp_path / "run" / "steps.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert seen == [16, 16, 16]
    assert {"reward", "words", "rollout_seconds", "reward_seconds", "scoring_seconds", "step_time"} <= rows[0].keys()
    for row in rows:
        assert 0 < row["rollout_seconds"] + row["scoring_seconds"] < row["step_time"]
    assert ("kl" in rows[0]) == (kl == "loss_k3")
    with pytest.raises(InputError, match="other settings"):
        train_rl(config.model_copy(update={"extract": "boxed"}), prompts, shortness, say=lambda _: None)


def test_killed_while_saving_goes_on_from_the_last_whole_checkpoint_and_after_the_end_nothing_changes(folder, tmp_path):
    run, config = tmp_path / "run", saving(folder, tmp_path / "run")
    run.mkdir()
    with RunDirectory(run).locked(), pytest.raises(InputError, match="another process is training here"):
        trained(config)
    weights = trained(config) / "model.safetensors"
    unbroken, log = weights.read_bytes(), (run / "steps.jsonl").read_text()
    when = weights.stat().st_mtime_ns
    trained(config)
    assert (weights.stat().st_mtime_ns, (run / "steps.jsonl").read_text()) == (when, log)
    (run / "model").rename(run / ".model")  # killed before it had its name, and the last checkpoint its last file
    (run / "checkpoints" / "step-000004" / "checkpoint-4" / "trainer_state.json").unlink()
    (run / ".model" / "model.safetensors").write_bytes(b"half")
    trained(config)
    assert weights.read_bytes() == unbroken
    assert [json.loads(line)["step"] for line in (run / "steps.jsonl").read_text().splitlines()] == [1, 2, 3, 4]
    with pytest.raises(InputError, match=r"data\.json: this run was started with other"):
        trained(config, num=17)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rl": {"steps": 1, "prompts_per_step": 17}}, "prompts_per_step': 17 are more than the 16 prompts"),
        (
            {"rl": {"steps": 1, "prompts_per_step": 4, "max_new_tokens": 4, "scheduler": "foo"}},
            "unknown 'foo'; known: linear",
        ),
        (
            {"rl": {"prompts_per_step": 4, "scheduler": "cosine_with_min_lr"}},
            "rl.scheduler': .* wants settings of its own",
        ),
        ({"rl": {"prompts_per_step": 4, "precision": "fp16"}}, "field 'rl.precision': fp16 needs a GPU"),
        ({"rl": {"steps": 1, "prompts_per_step": 4, "max_new_tokens": 4}, "lora": {"targets": ["nope"]}}, "nope"),
        ({"lora": {"merge": True}}, "field 'lora.merge': GRPO writes an adapter"),
        ({"lora": {"quantize": "nf4"}}, "field 'lora.quantize'"),
        ({"model": {"name": "tiny:aligned", "new_tokens": ["<X>"]}}, "field 'model.new_tokens'"),
    ],
)
def test_settings_that_cannot_work_are_refused_and_leave_the_run_to_the_next_try(folder, tmp_path, changes, said):
    with pytest.raises(InputError, match=said):
        trained(saving(folder, tmp_path / "run", **changes))
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_an_adapter_must_be_merged_first(folder, tmp_path):
    adapter = trained(saving(folder, tmp_path / "first", lora={"r": 2}, rl={"steps": 1, "prompts_per_step": 4}))
    with pytest.raises(InputError, match=r"field 'model.name': .* is an adapter: merge it first"):
        trained(saving(adapter, tmp_path / "second"))


def test_attention_is_as_asked_and_pickled_weights_are_refused(folder, tmp_path, monkeypatch):
    used = []
    monkeypatch.setattr("holdfast.training.rl.run._run", lambda trainer, *_: used.append(trainer.model.config))
    trained(saving(folder, tmp_path / "run", model={"name": str(folder), "device": "cpu", "attention": "eager"}))
    assert used[0]._attn_implementation == "eager"
    pickled = save_policy(tmp_path / "pickled")
    torch.save(LlamaForCausalLM.from_pretrained(pickled).state_dict(), pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model\.safetensors"):
        trained(saving(pickled, tmp_path / "refused"))
    allowed = {"name": str(pickled), "device": "cpu", "allow_pickle": True}
    trained(saving(pickled, tmp_path / "allowed", model=allowed))
    assert len(used) == 2


def test_weights_that_are_all_trained_are_float32(folder, tmp_path):
    """With ``auto``; weights that a config wants in bfloat16 are trained so, and a line says what is lost."""
    stored = tmp_path / "bfloat16"
    LlamaForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).save_pretrained(stored)
    TOKENIZER.save_pretrained(stored)
    for dtype, kept in (("auto", torch.float32), ("bfloat16", torch.bfloat16)):
        model = {"name": str(stored), "device": "cpu", "dtype": dtype}
        config = saving(stored, tmp_path / dtype, model=model)
        said = []
        prompts = [RlPrompt(WORLD.prompt(each), str(WORLD.value(each))) for each in asked(16)]
        written = train_rl(config, prompts, shortness, say=said.append)
        assert AutoConfig.from_pretrained(written).dtype is kept
        assert any("rounds most steps" in line and "rl.precision=bf16" in line for line in said) == (dtype != "auto")


def test_prompts_that_a_pass_leaves_out_are_counted(folder, tmp_path):
    said = []
    config = saving(folder, tmp_path / "run", rl={"epochs": 2, "prompts_per_step": 4, "group": 2, "max_new_tokens": 2})
    prompts = [RlPrompt(WORLD.prompt(each), str(WORLD.value(each))) for each in asked(11)]
    train_rl(config, prompts, shortness, say=said.append)
    assert "11 prompts, 4 at a time: every pass leaves 3 of them out, others each time" in said
    assert len((tmp_path / "run" / "steps.jsonl").read_text().splitlines()) == 2 * 2


def test_settings_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="cannot be dealt"):
        GrpoSettings(prompts_per_step=3, group=2, updates=4)
    settings = GrpoSettings(prompts_per_step=512, group=8, updates=4, micro_batch=64)
    assert settings.passes() == (64, 16)
    assert settings.passes(processes=8) == (64, 2)
    assert GrpoSettings(prompts_per_step=6, group=4).passes(processes=2) == (12, 1)
    with pytest.raises(ValueError, match="512 prompts cannot be dealt to 3 processes"):
        settings.passes(processes=3)
    with pytest.raises(ValueError, match="to 4 updates on 32 processes in passes of 64"):
        settings.passes(processes=32)


def test_every_process_draws_rollouts_of_its_own(folder):
    """With one seed for all, the same prompts had the same rollouts on each."""
    model = LlamaForCausalLM.from_pretrained(folder)
    prompts = [[{"role": "user", "content": WORLD.prompt(each)}] for each in asked(4)]
    settings = GrpoSettings(prompts_per_step=4, group=2, max_new_tokens=10)

    def drawn(rank, rollouts):
        accelerator = SimpleNamespace(unwrap_model=lambda model: model, process_index=rank)
        trainer = SimpleNamespace(model=model, accelerator=accelerator, state=SimpleNamespace(global_step=0))
        return rollouts(prompts, trainer)["completion_ids"]

    plain = _rollouts(settings, TOKENIZER, None)
    assert drawn(0, plain) == drawn(0, plain)
    assert drawn(0, plain) != drawn(1, plain)
