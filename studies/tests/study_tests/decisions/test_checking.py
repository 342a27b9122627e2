"""Checking oneself in words: how responses are read, a page from writers that are known, and the whole chain on a tiny model."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from docs.pages import ROOT
from holdfast.config import InputError, load_config
from holdfast.records import Role
from holdfast_studies.decisions.__main__ import main
from holdfast_studies.decisions.checking import (
    CHOICE,
    CURVE,
    OWN_ROWS,
    SKIPPED,
    CheckingJob,
    chosen,
    own_traces,
    run_checking,
)
from holdfast_studies.decisions.checking_config import BASE, DFT, OWN, RL, SFT, CheckingConfig, costs
from holdfast_studies.decisions.checking_page import BROKEN, broken_arms, checking_cells, comparisons, report, section
from holdfast_studies.decisions.decision_study import ROLLOUTS
from holdfast_studies.decisions.products import split_words
from holdfast_studies.papers import cited_004
from holdfast_studies.papers.decision_runs import read_runs
from holdfast_studies.worlds.arithmetic import Size
from holdfast_studies.worlds.arithmetic_text import checked_problems, checked_row, checked_rows, part_of

PHASE = {"rows": 8, "steps": 2, "batch_size": 4, "warmup_steps": 0}
GRPO = {"steps": 1, "prompts_per_step": 2, "group": 2}
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def small(run: Path, **changes: Any) -> CheckingConfig:
    settings: dict[str, Any] = {
        "run": str(run), "title": "Small", "model": "none", "seeds": [0, 1], "train_sizes": ["2x1"],
        "eval_sizes": ["2x1", "3x2"], "num_test": 40, "device": "cpu",
        "arms": {
            SFT: {"lrs": [1e-3, 1e-4], "phase": PHASE}, OWN: {"lrs": [1e-3], "rows": "own", "phase": PHASE},
            DFT: {"lrs": [1e-3], "objective": "dft", "phase": PHASE}, RL: {"lrs": [1e-3], "grpo": GRPO},
        },
    }  # fmt: skip
    return CheckingConfig.model_validate({**settings, **changes})


def test_a_trace_is_read_as_it_was_written() -> None:
    row = checked_row(12, 34, random.Random(0), corrective=1.0)
    text = row.turns[-1].visible
    parts = split_words(text, True)
    assert len(parts.answers) == 2
    assert parts.answers[0] != "408"
    assert parts.answers[1] == "408"
    assert parts.stopped
    assert "".join(part.text for part in parts.segments) == text
    checks = [part.text for part in parts.segments if part.role is Role.DECISION]
    assert checks[0].startswith("Check: ")
    assert all("Work:" not in part for part in checks)
    assert text.index("Decision: again") < text.index("Decision: stop")


@pytest.mark.parametrize(
    ("text", "ended", "answers", "stopped"),
    [
        ("Work: 1\nAnswer: 1,206\nCheck: 9\nDecision: stop", True, ("1206",), True),
        ("Work: 1\nAnswer: 12", True, ("12",), True),  # ended by itself: no check, but a stop
        ("Work: 1\nAnswer: 12\nCheck: 12", False, ("12",), False),  # cut off
        ("Answer: 12\nDecision: again\nWork: 1", False, ("12",), False),
        ("I do not know, perhaps 12.", True, (), False),
    ],
)
def test_responses_of_other_shapes(text: str, ended: bool, answers: tuple[str, ...], stopped: bool) -> None:
    parts = split_words(text, ended)
    assert (parts.answers, parts.stopped) == (answers, stopped)


def test_no_product_is_in_two_parts() -> None:
    sizes = [Size(2, 1), Size(2, 2)]
    drawn = {part: checked_problems(sizes, 60, part, seed="0") for part in ("train", "validation", "test")}
    for part, problems in drawn.items():
        assert {part_of(*_operands(request)) for request, _ in problems} == {part}
    assert len(set(drawn["test"])) == 60
    assert {part_of(*_operands(trace.prompt[0].visible)) for trace in checked_rows(sizes, 40)} == {"train"}
    with pytest.raises(InputError, match="too few products of 2x1"):
        checked_problems([Size(2, 1)], 200, "test", seed="0")


def test_the_rule_prefers_the_lower_of_equal_rates() -> None:
    assert chosen({1e-5: 0.5, 3e-6: 0.5, 1e-6: 0.2}) == 3e-6
    assert chosen({1e-5: 0.6, 3e-6: 0.5}) == 1e-5


def test_training_sizes_must_be_tested(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the training size 4x1 is not among them"):
        small(tmp_path, train_sizes=["4x1"])


def test_the_form_is_taught_on_sizes_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="neither trained on nor tested"):
        small(tmp_path, form=PHASE, form_sizes=["3x2"])


def test_a_folder_is_for_one_model_wherever_it_lies(tmp_path: Path) -> None:
    run, places = tmp_path / "run", [tmp_path / here / "m" for here in ("here", "there")]
    (run / "seed-0").mkdir(parents=True)
    for place in places:
        place.mkdir(parents=True)
        assert not run_checking(small(run, model=str(place)), seconds=-1), "no job is begun"
    with pytest.raises(InputError, match="model: m there, tiny:aligned now"):
        run_checking(small(run, model="tiny:aligned"), seconds=-1)


def test_the_plan_counts_rates_and_seeds(tmp_path: Path) -> None:
    """SFT: 2 rates with the first seed and 1 with the second, of 2 steps with 4 rows; GRPO draws 1 step x 2 prompts x 2."""
    config = small(tmp_path)
    lines = {line.what: line for line in costs(config)}
    row = config.cost.prompt_tokens + config.cost.response_tokens
    assert (lines[SFT].trainings, lines[SFT].trained_tokens) == (3, 3 * 8 * row)
    assert (lines[RL].trainings, lines[RL].trained_tokens) == (2, 2 * 4 * row)
    points = config.curve.points * config.curve.num_problems * config.max_train_tokens
    tests = 2 * 2 * 40 * config.max_new_tokens
    assert lines[RL].drawn_tokens == points + tests + 2 * 4 * config.max_train_tokens


def test_the_config_of_qwen_draws_as_much_for_the_control_as_for_grpo(capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "studies" / "configs" / "checking" / "qwen.yaml"
    main(["plan", str(path), "model=none.gguf"])
    assert "s of a GPU for 3 seeds" in capsys.readouterr().out
    config = load_config(CheckingConfig, path, ["model=none.gguf"])
    drawn = config.own.num_problems * config.own.num_samples
    assert [config.arms[name].rollouts for name in (RL, "grpo_kl_reward")] == [drawn, drawn]
    kls = [grpo.kl for arm in config.arms.values() if (grpo := arm.grpo) is not None]
    assert kls == ["loss_k3", "reward_k1"]


# --- a page from writers that are known -----------------------------------------------------------------------------


def _operands(request: str) -> tuple[int, int]:
    a, _, b = request.partition("Calculate ")[2].partition(" digit")[0].partition(" * ")
    return int(a), int(b)


def _honest(request: str, answer: str, rng: random.Random) -> str:
    """Half of the first attempts are wrong, and found out."""
    return checked_row(*_operands(request), rng).turns[-1].visible


def _careless(request: str, answer: str, rng: random.Random) -> str:
    """Half are wrong, and kept."""
    return f"Work: ...\nAnswer: {int(answer) + rng.randrange(2)}\nCheck: ...\nDecision: stop"


def _hopeless(request: str, answer: str, rng: random.Random) -> str:
    return "Answer: 1\nDecision: stop"


@pytest.fixture
def written(tmp_path: Path) -> CheckingConfig:
    """Arms are writers; SFT is right on nothing."""
    config = small(tmp_path / "run")
    writers = {BASE: _careless, RL: _honest, OWN: _careless, SFT: _hopeless}
    for name, write in writers.items():
        for seed in config.seeds:
            rng, job = random.Random(f"{name}{seed}"), CheckingJob(config, name, seed)
            job.folder.mkdir(parents=True)
            rows = [
                {"prompt": q, "response": write(q, a, rng), "answer": a, "stopped": True, "size": size}
                for size in config.eval_sizes
                for q, a in checked_problems([Size.read(size)], config.num_test, "test", seed=f"{seed}/{size}")
            ]
            (job.folder / ROLLOUTS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return config


def test_the_page_knows_the_writers(written: CheckingConfig) -> None:
    cells = {(cell.model, cell.size): cell.figures for cell in checking_cells(written)}
    honest, careless = cells[RL, "3x2"], cells[BASE, "3x2"]
    assert (honest.observed.value, honest.p_dC.value, honest.p_dW.value) == (1.0, 1.0, 1.0)
    assert honest.held_out.value == pytest.approx(1.0)
    assert careless.p_dW.value == 0.0
    assert careless.observed.value == careless.p_s.value
    assert 0.3 < (honest.p_s.value or 0) < (honest.p_s_pooled.value or 0) < 1.0


def test_a_broken_arm_is_not_beaten(written: CheckingConfig) -> None:
    cells = checking_cells(written)
    assert broken_arms(written, cells) == [SFT]
    pairs = {(row["part"], row["one"], row["other"]): row for row in comparisons(written, cells)}
    assert pairs["out of distribution", RL, SFT]["by"] is None
    gap = pairs["out of distribution", RL, OWN]
    assert gap["by"]["low"] > 0.2
    assert gap["p"] < 0.001
    text = section(written, cells, report(written, cells), "the command")
    for line in text.splitlines():
        if "SFT on traces |" in line or "minus SFT on traces" in line:
            assert BROKEN in line, line
    assert f"GRPO, KL in the loss minus SFT on traces | {BROKEN}" in text


def test_an_arm_that_is_right_once_is_not_broken(written: CheckingConfig) -> None:
    path = CheckingJob(written, SFT, 1).folder / ROLLOUTS
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["response"] = f"Answer: {rows[0]['answer']}\nDecision: stop"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert broken_arms(written, checking_cells(written)) == []


def test_the_ledger_reads_the_control(written: CheckingConfig, tmp_path: Path) -> None:
    """RL checks honestly, the control does not; a broken control, or two arms at the floor, are not beaten."""
    (tmp_path / "checking.json").write_text(json.dumps(report(written, checking_cells(written))))
    figures = read_runs("checking", folder=tmp_path)
    claim = next(claim for claim in cited_004.STUDY.claims if claim.id == "004-cited-structure")
    assert figures["checking"]["trained"] == ["2x1"]
    assert claim.judge(figures).verdict == "holds"
    models, nothing = figures["checking"]["models"], {"observed": [0.0, 0.0, 0.01], "by_seed": [0.0, 0.0]}
    models[OWN]["3x2"] |= nothing
    assert claim.judge(figures).verdict == "holds"
    kept = dict(models[RL]["3x2"])
    models[RL]["3x2"] |= nothing
    assert claim.judge(figures).verdict == "not testable here", "both are at the floor"
    models[RL]["3x2"] = kept
    models[OWN]["2x1"] |= nothing
    found = claim.judge(figures)
    assert found.verdict == "not testable here"
    assert "sft_own is broken: right on nothing" in found.found
    models[OWN]["2x1"] |= {"observed": [0.1, 0.0, 0.2]}
    assert "sft_own is below its base model" in claim.judge(figures).found


# --- the whole chain ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of random weights that reads the requests, with ChatML."""
    folder = tmp_path_factory.mktemp("tiny")
    rows = checked_rows([Size(2, 2)], 20)
    texts = [turn.visible for row in rows for turn in row.turns]
    tokens = Tokenizer(models.BPE(unk_token="<unk>"))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    special = ["<unk>", "<|im_start|>", "<|im_end|>"]
    tokens.train_from_iterator(
        [*texts, "system user assistant\n"],
        trainers.BpeTrainer(
            vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        ),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokens, unk_token="<unk>", eos_token="<|im_end|>", pad_token="<|im_end|>", chat_template=CHATML
    )
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaForCausalLM(
        LlamaConfig(vocab_size=len(tokenizer), **sizes, eos_token_id=2, pad_token_id=2, tie_word_embeddings=True)
    ).save_pretrained(folder)
    return folder


CONFIG = """\
run: {folder}/run
title: Small
model: {model}
seeds: [0]
form_sizes: [1x1]
form: {{rows: 4, steps: 1, batch_size: 2, warmup_steps: 0}}
train_sizes: [2x1]
eval_sizes: [2x1, 2x2]
num_test: 3
max_train_tokens: 6
max_new_tokens: 6
device: cpu
arms:
  sft_reflection: {{lrs: [1e-3, 1e-4], phase: {{rows: 8, steps: 2, batch_size: 4, warmup_steps: 0}}}}
  sft_own: {{lrs: [1e-3], rows: own, phase: {{rows: 8, steps: 2, batch_size: 4}}}}
own: {{num_problems: 2, num_samples: 2, least: 1}}
curve: {{points: 2, num_problems: 2, gradient_problems: 1, gradient_samples: 2, objectives: [sft, reward]}}
"""


def test_a_small_study_runs_and_resumes(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(CONFIG.format(folder=tmp_path, model=tiny))
    target, ledger = tmp_path / "page.md", tmp_path / "checking.json"
    main(["run", str(path), f"page={target}", f"report={ledger}"])
    config = load_config(CheckingConfig, path)
    sft, own = (CheckingJob(config, name, 0).folder for name in (SFT, OWN))
    points = json.loads((sft / CURVE).read_text())
    assert [each["step"] for each in points] == [1, 2]
    assert {"sft", "reward"} >= set(points[0]["gradients"])
    assert json.loads((sft / CHOICE).read_text())["lr"] == 1e-4  # both have 0 %: the lower one
    assert "0 right responses" in json.loads((own / SKIPPED).read_text())["why"]
    kept = [path.relative_to(tmp_path).parts[:2] for path in tmp_path.glob("run/**/*.safetensors")]
    assert kept == [("run", "form")]  # models of arms are not kept
    text = target.read_text()
    assert "SFT on own right samples, seed 0: not trained" in text
    assert BROKEN in text
    assert "after 1 steps of SFT" in text
    assert json.loads(ledger.read_text())["broken"] == [BASE, SFT]
    capsys.readouterr()
    main(["run", str(path), "seconds=0"])
    assert "done;" not in capsys.readouterr().out  # nothing was run again
    with pytest.raises(InputError, match="made with other settings"):
        main(["run", str(path), "num_test=4"])


@pytest.mark.slow
def test_grpo_is_measured_along_its_training(tiny: Path, tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(CONFIG.format(folder=tmp_path, model=tiny))
    for name, kl in (("grpo", "loss_k3"), ("grpo_kl_reward", "reward_k1")):
        grpo = {"steps": 2, "prompts_per_step": 2, "group": 2, "kl": kl}
        arms = json.dumps({name: {"lrs": [1e-3], "grpo": grpo}})
        main(["run", str(path), f"run={tmp_path}/{name}", f"arms={arms}", f"report={tmp_path}/{name}.json"])
        job = CheckingJob(load_config(CheckingConfig, path, [f"run={tmp_path}/{name}", f"arms={arms}"]), name, 0)
        assert [each["step"] for each in json.loads((job.folder / CURVE).read_text())] == [1, 2]
        assert len((job.folder / ROLLOUTS).read_text().splitlines()) == 6


def test_own_rows_are_right_ones(written: CheckingConfig) -> None:
    job = CheckingJob(written, OWN, 0)
    problems = checked_problems([Size(2, 1)], 20, "train", seed="own")
    rng = random.Random(0)
    rows = [{"prompt": q, "response": _careless(q, a, rng), "answer": a, "stopped": True} for q, a in problems]
    right = [row["prompt"] for row in rows if f"Answer: {row['answer']}\n" in row["response"]]
    (CheckingJob(written, BASE, 0).folder / OWN_ROWS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    traces = own_traces(job)
    assert len(traces) == min(8, len(right))  # at most the rows that the arm asks for
    assert {trace.prompt[0].visible for trace in traces} <= set(right)
