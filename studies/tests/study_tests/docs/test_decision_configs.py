"""studies/configs/arithmetic and studies/configs/rl: each opens with its command and loads; prompts and rewards are real."""

from pathlib import Path

import pytest

from docs.pages import ROOT
from holdfast.cli.train import is_rl
from holdfast.config import TrainConfig, load_config
from holdfast.config.rl import RlConfig
from holdfast.diagnostics.rl_tasks import task_of
from holdfast.records import Reply
from holdfast.training.streams import read_data
from holdfast_studies.decisions.config import DecisionStudyConfig
from holdfast_studies.worlds.arithmetic import Size

FILES = sorted(
    [
        *(ROOT / "studies" / "configs" / "arithmetic").glob("*.yaml"),
        *(ROOT / "studies" / "configs" / "rl").glob("*.yaml"),
    ]
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_opens_with_its_command_and_loads(path: Path) -> None:
    command = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").split()
    assert command[0] == "holdfast"
    assert str(path.relative_to(ROOT)) in command
    if command[1] == "diagnose":
        study = load_config(DecisionStudyConfig, path)
        assert {study.better, study.worse} <= study.variants.keys()
        largest = Size.read(study.world.largest)
        assert all(Size.read(size).m <= largest.m and Size.read(size).n <= largest.n for size in study.eval_sizes)
    elif is_rl(path):
        task = task_of(load_config(RlConfig, path, ["task_options.num=4"]))
        assert len(task.prompts) == 4
        replies = [Reply((), "nonsense", reference=each.answer) for each in task.prompts]
        assert task.reward(replies) == [0.0] * 4
    else:
        config = load_config(TrainConfig, path)
        assert len(read_data(config.streams[0].model_copy(update={"limit": 3})).traces) == 3


def test_tables_6_and_7_are_the_papers() -> None:
    grpo = load_config(RlConfig, ROOT / "studies" / "configs" / "rl" / "table7_grpo.yaml").rl
    assert (grpo.lr, grpo.prompts_per_step, grpo.updates, grpo.group) == (1e-6, 512, 4, 8)
    assert (grpo.kl_weight, grpo.kl, grpo.max_prompt_tokens, grpo.max_new_tokens) == (0.001, "loss_k3", 1024, 8192)
    assert (grpo.epochs, grpo.gradient_checkpointing) == (2, True)
    sft = load_config(TrainConfig, ROOT / "studies" / "configs" / "arithmetic" / "table6_sft_reflection.yaml")
    assert (sft.training.lr, sft.training.batch_size, sft.training.epochs, sft.streams[0].limit) == (
        1e-5,
        128,
        4,
        20000,
    )
