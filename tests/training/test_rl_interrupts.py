"""GRPO under real signals: the step is finished and saved, and the same command ends where an unbroken run does."""

import json
import shutil
import signal
from pathlib import Path

import pytest
import yaml

from forked import Forked
from holdfast.cli.train import train_policy
from holdfast.training.checkpoints import durable
from holdfast.training.checkpoints.folders import newest_good
from holdfast.training.rl import Interrupted
from holdfast.training.rl.trainer import SafeGrpoTrainer
from training import signalled as signalled_run
from training.rl_runs import save_policy, saving, shortness, trained


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return save_policy(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def unbroken(folder, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("unbroken") / "run"
    trained(saving(folder, run))
    return run


def steps_of(run: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (run / "steps.jsonl").read_text().splitlines()]


def weights_of(run: Path) -> bytes:
    return (run / "model" / "model.safetensors").read_bytes()


def saved_step(run: Path) -> str:
    good, complaints = newest_good(run / "checkpoints")
    assert complaints == []
    return "" if good is None else good.name


def signals_at(monkeypatch, point: str, *numbers: int, nth: int = 1) -> None:
    """This process is signalled when it passes a point of the file layer for the nth time."""
    passed = []

    def at_point(name: str) -> None:
        passed.append(name)
        if name.startswith(point) and [each.startswith(point) for each in passed].count(True) == nth:
            for number in numbers:
                signal.raise_signal(number)

    monkeypatch.setattr(durable, "at_point", at_point)


def signals_in_rollouts(number: int, *, step: int):
    """A reward in whose nth call the process is signalled."""
    calls = []

    def reward(replies):
        calls.append(1)
        if len(calls) == step:
            signal.raise_signal(number)
        return shortness(replies)

    return reward


def test_ctrl_c_saves_and_exits_130_and_the_same_command_goes_on(folder, tmp_path):
    """A real process gets a real SIGINT. Nothing but the interruption saves: there is no save_every."""
    settings = {"steps": 20, "prompts_per_step": 2, "group": 2, "lr": 1e-2, "max_new_tokens": 10}
    made = {"base": 3, "largest": "3x1", "max_attempts": 2, "sizes": ["2x1", "3x1"], "num": 40, "slip": 0.2}
    run, path = tmp_path / "run", tmp_path / "config.yaml"
    config = {"run": str(run), "model": {"name": str(folder), "device": "cpu"}, "rl": settings}
    config |= {"task": "arithmetic", "task_options": made}
    path.write_text(yaml.safe_dump({**config, "extract": "product"}))
    words = ("3", "train", path, "--json", tmp_path / "result.json")
    child = Forked(*words, script=Path(signalled_run.__file__)).done()
    assert child.returncode == 130, child.stderr
    stopped_at = steps_of(run)[-1]
    assert stopped_at < 20
    assert child.stderr.splitlines()[-1] == f"interrupted after step {stopped_at}, saved; run the same command to go on"
    assert json.loads((tmp_path / "result.json").read_text())["interrupted"] is True
    assert saved_step(run) == f"step-{stopped_at:06d}"
    assert not (run / "model").exists()
    train_policy(path, [], None)
    train_policy(path, [f"run={tmp_path / 'whole'}"], None)
    assert steps_of(run) == list(range(1, 21))
    assert weights_of(run) == weights_of(tmp_path / "whole")


def test_under_sigterm_the_step_is_finished_and_saved(folder, tmp_path, unbroken):
    before = signal.getsignal(signal.SIGTERM)
    config, run = saving(folder, tmp_path / "run"), tmp_path / "run"
    with pytest.raises(Interrupted) as stopped:
        trained(config, reward=signals_in_rollouts(signal.SIGTERM, step=3))
    assert stopped.value.step == 3
    assert (saved_step(run), steps_of(run)) == ("step-000003", [1, 2, 3])
    assert signal.getsignal(signal.SIGTERM) is before
    trained(config)
    assert steps_of(run) == [1, 2, 3, 4]
    assert weights_of(run) == weights_of(unbroken)


@pytest.mark.parametrize(("point", "nth", "step"), [("before-row", 3, 3), ("before-rename", 1, 2)])
def test_between_two_steps_it_stops_before_the_next_one(folder, tmp_path, unbroken, monkeypatch, point, nth, step):
    """While the row of step 3 is written, and while step 2 is saved."""
    config, run = saving(folder, tmp_path / "run"), tmp_path / "run"
    signals_at(monkeypatch, point, signal.SIGINT, nth=nth)
    with pytest.raises(Interrupted) as stopped:
        trained(config)
    monkeypatch.undo()
    assert stopped.value.step == step
    assert (saved_step(run), steps_of(run)) == (f"step-{step:06d}", list(range(1, step + 1)))
    trained(config)
    assert weights_of(run) == weights_of(unbroken)


@pytest.mark.parametrize(
    ("changes", "stopped_at", "rows"), [({"log_every": 3}, 2, [2, 3, 6, 7]), ({"updates": 2}, 3, [1, 3, 4, 6])]
)
def test_it_stops_between_rows_and_within_a_batch_of_rollouts(folder, tmp_path, changes, stopped_at, rows):
    """The row of the stop is there once; after the resume come the usual ones (of ``updates``: where rollouts were drawn)."""
    settings = {"steps": 7, "prompts_per_step": 4, "group": 4, "lr": 1e-2, "max_new_tokens": 10, **changes}
    config, run = saving(folder, tmp_path / "run", rl=settings), tmp_path / "run"
    with pytest.raises(Interrupted) as stopped:
        trained(config, reward=signals_in_rollouts(signal.SIGTERM, step=2))
    assert (stopped.value.step, steps_of(run)) == (stopped_at, [row for row in rows if row <= stopped_at])
    trained(config)
    assert steps_of(run) == rows


def test_before_the_first_step_it_stops_at_once(folder, tmp_path, monkeypatch):
    def signalled(trainer):
        signal.raise_signal(signal.SIGINT)
        return loader(trainer)

    loader = SafeGrpoTrainer.get_train_dataloader
    monkeypatch.setattr(SafeGrpoTrainer, "get_train_dataloader", signalled)
    with pytest.raises(KeyboardInterrupt):
        trained(saving(folder, tmp_path / "run"), reward=pytest.fail)
    assert saved_step(tmp_path / "run") == ""


@pytest.mark.parametrize("point", ["mid-write", "before-rename"])
def test_a_second_ctrl_c_while_saving_leaves_nothing_that_looks_whole(folder, tmp_path, unbroken, monkeypatch, point):
    """Step 2 was saved, step 4 would be: after the second signal the run goes on from step 2."""
    config, run = saving(folder, tmp_path / "run"), tmp_path / "run"
    save_generators = SafeGrpoTrainer._save_rng_state

    def signalled(trainer, folder):
        save_generators(trainer, folder)
        if trainer.state.global_step == 4:  # its optimizer is written, its counters are not
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    if point == "mid-write":
        monkeypatch.setattr(SafeGrpoTrainer, "_save_rng_state", signalled)
    else:
        signals_at(monkeypatch, point, signal.SIGINT, signal.SIGINT, nth=2)
    with pytest.raises(KeyboardInterrupt) as stopped:
        trained(config)
    monkeypatch.undo()
    assert not isinstance(stopped.value, Interrupted)
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-000002"]
    assert not (run / "model").exists()
    trained(config)
    assert steps_of(run) == [1, 2, 3, 4]
    assert weights_of(run) == weights_of(unbroken)


def test_killed_between_the_last_checkpoint_and_the_model_it_makes_no_step_too_many(folder, tmp_path):
    """Three steps of a pass of four: Trainer alone would resume with the fourth."""
    short = {"steps": 3, "save_every": 3, "prompts_per_step": 4, "group": 4, "lr": 1e-2, "max_new_tokens": 10}
    config, run = saving(folder, tmp_path / "run", rl=short), tmp_path / "run"
    trained(config)
    whole = weights_of(run)
    shutil.rmtree(run / "model")
    trained(config, reward=pytest.fail)
    assert steps_of(run) == [1, 2, 3]
    assert weights_of(run) == whole
