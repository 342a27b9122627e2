"""``hf.train(callbacks=...)``: they see the run and change nothing, may stop it, and go on with it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import EarlyStoppingCallback, TrainerCallback
from transformers.trainer_callback import ExportableState

import holdfast as hf
from holdfast.config import InputError
from holdfast.models import load
from holdfast.worlds import SafetyWorld
from training.runs import weights

ROWS = [
    {"prompt": row.turns[0].visible, "completion": row.turns[-1].visible}
    for row in SafetyWorld().requests("tune", "guide", 12)
]
NUM_STEPS = 6


def tune(run: Path, *callbacks: Any, say: Any = lambda _: None, **training: Any) -> hf.TrainResult:
    settings: dict[str, Any] = {"lr": 1e-3, "batch_size": 4, "micro_batch": 2, "epochs": 2, **training}
    return hf.train(
        "tiny:aligned", hf.Stream(ROWS, "sft"), run=run, callbacks=callbacks, say=say, progress=False, **settings
    )


def steps(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]


class Samples(TrainerCallback):
    """Asks the model after every step; keeps what was logged."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.texts: list[str] = []
        self.logged: list[Mapping[str, float]] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.events.append(f"begin {state.global_step}")

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        tokenizer = given["processing_class"]
        ids = tokenizer("copy : sun river", return_tensors="pt").input_ids
        torch.manual_seed(state.global_step)
        answer = given["model"].generate(ids, max_new_tokens=3, do_sample=True, pad_token_id=tokenizer.pad_token_id)
        self.texts.append(tokenizer.decode(answer[0]))

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        self.logged.append(logs)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.events.append(f"end {state.global_step}")


def test_a_callback_that_samples_leaves_the_run_as_it_is(tmp_path: Path) -> None:
    samples = Samples()
    watched, alone = tune(tmp_path / "watched", samples), tune(tmp_path / "alone")
    assert samples.events == ["begin 0", f"end {NUM_STEPS}"]
    assert len(samples.texts) == NUM_STEPS
    assert [logs["nll"] for logs in samples.logged if "nll" in logs] == [row["nll"] for row in steps(watched.run)]
    assert (watched.run / "steps.jsonl").read_bytes() == (alone.run / "steps.jsonl").read_bytes()
    one, other = weights(watched.model), weights(alone.model)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_finished_run_calls_none_of_them(tmp_path: Path) -> None:
    tune(tmp_path / "run")
    samples = Samples()
    said: list[str] = []
    assert tune(tmp_path / "run", samples, say=said.append).num_steps == NUM_STEPS
    assert (said, samples.events) == ([f"trained already: {tmp_path / 'run' / 'model'}"], [])


class StopsAt(TrainerCallback):
    """Stops the run in the event of this name, once ``step`` steps are done."""

    def __init__(self, event: str, step: int) -> None:
        self.calls = 0

        def stop(args: Any, state: Any, control: Any, **_: Any) -> None:
            self.calls += 1
            control.should_training_stop |= state.global_step >= step

        setattr(self, event, stop)


@pytest.mark.parametrize(
    ("event", "at", "stopped"),
    [
        ("on_step_end", 4, 4),
        ("on_log", 4, 5),  # log_every is 5
        ("on_save", 2, 3),  # save_every is 3
        ("on_substep_end", 2, 2),  # in the middle of the third step, which is not taken
    ],
)
def test_a_run_that_a_callback_stops_is_whole(event: str, at: int, stopped: int, tmp_path: Path) -> None:
    said: list[str] = []
    how: dict[str, Any] = {"log_every": 5, "save_every": 3}
    result = tune(tmp_path / "run", StopsAt(event, at), say=said.append, **how)
    assert (result.num_steps, result.interrupted) == (stopped, False)
    assert f"a callback stopped the run after step {stopped} of {NUM_STEPS}" in said
    assert json.loads((result.run / "finished.json").read_text())["step"] == stopped
    assert [row["step"] for row in steps(result.run)] == [stopped]
    saved, made = weights(result.run / "checkpoints" / f"step-{stopped:06d}"), weights(result.model)
    assert all(torch.equal(saved[name], made[name]) for name in made)
    assert len(hf.generate(load(result.model), ["copy : sun river"])) == 1
    assert hf.report(result).is_file()
    assert hf.card(result).is_file()
    again, said = StopsAt(event, at), []
    assert tune(tmp_path / "run", again, say=said.append, **how).num_steps == stopped
    assert (said, again.calls) == ([f"trained already: {result.model}"], 0)


def test_a_row_between_the_scheduled_ones_has_no_gradient_share(tmp_path: Path) -> None:
    tune(tmp_path / "run", StopsAt("on_step_end", 3), log_every=2)
    scheduled, last = steps(tmp_path / "run")
    assert all("gradient_share" in part for part in scheduled["roles"].values())
    assert [set(part) for part in last["roles"].values()] == [{"loss", "nll", "tokens"}] * len(last["roles"])


class Counts(TrainerCallback, ExportableState):
    """Counts steps over a resume; dies when ``last`` steps are done."""

    def __init__(self, num_steps: int, last: int | None = None) -> None:
        self.num_steps, self.last = num_steps, last

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.last:
            raise RuntimeError("killed")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.num_steps += 1

    def state(self) -> dict[str, Any]:
        return {"args": {}, "attributes": {"num_steps": self.num_steps}}


def test_callbacks_with_a_state_go_on_with_the_run(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="killed"):
        tune(tmp_path / "run", Counts(0), Counts(100, last=5), save_every=3)
    one, other, samples = Counts(0), Counts(0), Samples()
    tune(tmp_path / "run", one, other, samples, save_every=3)
    assert (one.num_steps, other.num_steps) == (NUM_STEPS, 100 + NUM_STEPS)
    assert samples.events == ["begin 3", f"end {NUM_STEPS}"], "one that was not there before begins here"


class Evaluates(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_evaluate = True


@pytest.mark.parametrize(
    ("callbacks", "line"),
    [
        (print, "hf.train: callbacks: expected a list of transformers.TrainerCallback, got a value of type builtin_f"),
        (["wandb"], "hf.train: callbacks: expected a list of transformers.TrainerCallback, got a value of type str"),
        ("wandb", "hf.train: callbacks: expected a list of transformers.TrainerCallback, got a value of type str"),
        ([Samples], "hf.train: callbacks: expected objects, got the class Samples; write Samples()"),
        ([EarlyStoppingCallback()], "hf.train: callbacks: EarlyStoppingCallback goes by evaluations, and a run makes"),
    ],
)
def test_a_wrong_kind_is_one_line_and_leaves_nothing(callbacks: Any, line: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as told:
        hf.train("tiny:aligned", hf.Stream(ROWS), run=tmp_path / "run", callbacks=callbacks)
    assert str(told.value).startswith(line)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "run").exists()


def test_a_run_that_is_stopped_before_its_first_step_leaves_no_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a callback stopped the run before its first step"):
        tune(tmp_path / "run", StopsAt("on_train_begin", 0))
    assert not (tmp_path / "run" / "model").exists()
    assert tune(tmp_path / "run").num_steps == NUM_STEPS


def test_one_callback_needs_no_list_and_an_evaluation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a callback set control\.should_evaluate, and a run makes no evaluations"):
        hf.train("tiny:aligned", hf.Stream(ROWS), run=tmp_path / "run", callbacks=Evaluates(), progress=False)
