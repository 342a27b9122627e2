"""[000]'s safety gap, measured: sft against masked_sft on the same traces, curves along training, behaviour at its end."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerState

from holdfast.config import InputError, TrainConfig
from holdfast.data import write_traces
from holdfast.models import LoadedModel, add_tokens, load
from holdfast.tokens import UNDO_TOKEN, Context, tokenize_all
from holdfast.traces import write_made
from holdfast.training import train
from holdfast_studies.study_folder import claim_study
from holdfast_studies.undo.graded_behaviour import behave_graded
from holdfast_studies.undo.running import run_missing
from holdfast_studies.undo.safety_gap_behaviour import Behaviour, behave, behave_plainly
from holdfast_studies.undo.safety_gap_config import SafetyGapConfig
from holdfast_studies.undo.safety_gap_identity import Identity, gradient_identity
from holdfast_studies.undo.safety_gap_probe import Probe, Readings, RightRow, make_probes, make_right_rows, read
from holdfast_studies.undo.safety_gap_task import GapTask

CONTROLS = {
    "untouched": None,  # the model as it was
    "plain": "sft",  # on the same answers, without errors or undo
    "own": "sft",  # on the model's own right attempts at the same requests
    "random_undo": "masked_sft",  # own right attempts that take a right step back and write it again
    "perturbed": "masked_sft",  # own right attempts with errors of the builder ``perturb``
}
"""What undo is compared with, and the objective that each is trained with."""
WITH_UNDO = ("sft", "masked_sft", "random_undo", "perturbed")


@dataclass(frozen=True)
class Arm:
    """One training: an objective on the traces, or one of ``CONTROLS``."""

    objective: str
    context: str
    init: str
    seed: int

    @property
    def key(self) -> str:
        """The name of its files."""
        return f"{self.objective}-{self.context}-{self.init}-{self.seed}"


@dataclass(frozen=True)
class ArmResult:
    """What one training gave. ``curve`` maps steps to readings; step 0 is the model before training."""

    arm: Arm
    curve: dict[int, Readings]
    behaviour: Behaviour
    error_rate: float  # of the training traces: rho

    def row(self) -> dict[str, Any]:
        """It as a dict for JSON."""
        return {**asdict(self), "curve": {step: reading._asdict() for step, reading in self.curve.items()}}

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> ArmResult:
        """Rebuild it from JSON."""
        curve = {int(step): Readings(**reading) for step, reading in row["curve"].items()}
        return cls(Arm(**row["arm"]), curve, Behaviour.of_row(row["behaviour"]), row["error_rate"])


def arms(config: SafetyGapConfig) -> Iterator[Arm]:
    """All trainings of a study. Initialisations beyond the first are compared in the first context only."""
    for seed in config.seeds:
        for objective in config.objectives:
            for context in config.contexts:
                yield Arm(objective, context, config.inits[0], seed)
            for init in config.inits[1:]:
                yield Arm(objective, config.contexts[0], init, seed)
        for control in config.controls:
            context = config.contexts[0] if control in WITH_UNDO else "soft"
            yield Arm(control, context, config.inits[0], seed)


FREE = ("objectives", "contexts", "inits", "controls", "keep_models", "traces.own.batch_size")
"""Settings that may change within a study's folder: they say which figures are made, or how fast."""


def safety_gap(
    config: SafetyGapConfig,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[ArmResult]:
    """Run what is missing of a study. Every finished training leaves a file, so that the same command goes on.

    Raises ``ModelsFailed`` at the end if some failed.
    """
    check_files(config)
    claim_study(config, config.run, free=FREE)
    planned = list(arms(config))
    if (task := GapTask(config)).is_own:  # before the first arm: several processes may need them
        task.own("train", say)
        task.own("test", say)
    rows = run_missing(partial(_figures, config), planned, partial(_path, config), config.workers, on_progress)
    return [ArmResult.of_row(row) for row in rows]


def _path(config: SafetyGapConfig, arm: Arm) -> Path:
    return Path(config.run) / "arms" / f"{arm.key}.json"


def _figures(config: SafetyGapConfig, arm: Arm) -> dict[str, Any]:
    result = run_arm(GapTask(config), arm)
    if not config.keep_models:
        shutil.rmtree(_work_folder(config, arm))
    return result.row()


def run_arm(task: GapTask, arm: Arm) -> ArmResult:
    """Make the traces, train, measure along the way and at the end."""
    config, folder = task.config, _work_folder(task.config, arm)
    folder.mkdir(parents=True, exist_ok=True)
    start = _loaded(config, config.model.name, arm.init)
    context: Context = arm.context  # type: ignore[assignment]
    probes = make_probes(task.test_traces(start), start.tokenizer, context)
    if not probes:
        raise InputError(f"{config.test}: no test request can carry an error; ask more (num_test)")
    right_steps = task.own("test").right_steps() if task.is_own else []
    meter = Meter(probes, make_right_rows(right_steps, start.tokenizer, context), config)
    if arm.objective == "untouched":
        meter.on_train_begin(None, TrainerState(), None, model=start.model)
        return ArmResult(arm, meter.curve, behave_graded(task.untouched(), probes, task, None, seed=arm.seed), 0.0)
    made = task.training_traces(arm.seed, start, arm.objective)
    data = folder / "traces.jsonl"
    if arm.objective == "plain" and not task.is_own:
        write_traces(data, task.train)
    else:
        write_made(data, made)
    shutil.rmtree(folder / "run", ignore_errors=True)  # of a run that was stopped, the first readings are lost
    result = train(
        _train_config(task.config, arm, data, folder / "run"), say=_quietly, progress=False, callbacks=[meter]
    )
    if result.interrupted:
        raise KeyboardInterrupt
    trained = _loaded(config, str(result.model), arm.init, config.eval_dtype)
    return ArmResult(arm, meter.curve, _behaviour(trained, probes, task, arm), made.error_rate)


def _behaviour(trained: LoadedModel, probes: Sequence[Probe], task: GapTask, arm: Arm) -> Behaviour:
    if task.is_own:
        context = arm.context if arm.objective in WITH_UNDO else None
        return behave_graded(trained, probes, task, context, seed=arm.seed)
    if arm.objective == "plain":
        return behave_plainly(trained, probes, task, seed=arm.seed)
    return behave(trained, probes, task, arm.context, seed=arm.seed)


def check_files(config: SafetyGapConfig) -> None:
    """Refuse a file whose sha256 is not the one in the config. A model that is no file is not checked."""
    paths = {
        "model": Path(config.model.name),
        "train": Path(config.train.partition(":")[2]),
        "test": Path(config.test.partition(":")[2]),
    }
    for part, path in paths.items():
        wanted = getattr(config.sha256, part)
        if wanted is None or (part == "model" and not path.is_file()):
            continue
        if not path.is_file():
            raise InputError(f"field '{part}': no such file: {path}")
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        if sha256 != wanted:
            raise InputError(f"field '{part}': {path} is another file than that of this study: sha256 {sha256}")


def _work_folder(config: SafetyGapConfig, arm: Arm) -> Path:
    return Path(config.run) / "work" / arm.key


class Meter(TrainerCallback):
    """Reads the probes before training and at equal distances along it."""

    def __init__(self, probes: Sequence[Probe], right_rows: Sequence[RightRow], config: SafetyGapConfig) -> None:
        self.probes, self.right_rows = probes, right_rows
        self.batch_size = config.eval_batch
        every = max(1, config.steps // config.num_measurements)
        self.steps = {0, *range(every, config.steps, every), config.steps}
        self.curve: dict[int, Readings] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Read the untrained model."""
        self._read(state.global_step, kwargs["model"])

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Read the model if this step is to be measured."""
        self._read(state.global_step, kwargs["model"])

    def _read(self, step: int, model: Any) -> None:
        if step in self.steps:
            model.eval()
            self.curve[step] = read(model, self.probes, self.right_rows, batch_size=self.batch_size)
            model.train()


def _loaded(config: SafetyGapConfig, name: str, init: str, dtype: str | None = None) -> LoadedModel:
    """Load onto the study's device, in its precision, with ``<UNDO>`` (a model that has the token keeps its own)."""
    loaded = load(name, dtype=dtype or config.model.dtype, device=config.model.device, attention=config.model.attention)
    add_tokens(loaded.model, loaded.tokenizer, (UNDO_TOKEN,), init=init)  # type: ignore[arg-type]
    return loaded


def _train_config(config: SafetyGapConfig, arm: Arm, data: Path, run: Path) -> TrainConfig:
    objective = CONTROLS.get(arm.objective, arm.objective)
    model = {**config.model.model_dump(), "new_tokens": (UNDO_TOKEN,), "new_token_init": arm.init}
    lora = config.lora.model_dump() if config.lora else None
    return TrainConfig.model_validate(
        {
            "run": str(run),
            "model": model,
            "streams": [{"name": "traces", "data": str(data), "objective": objective}],
            "lora": lora,
            "training": {
                "max_steps": config.steps,
                "batch_size": config.batch_size,
                "micro_batch": config.micro_batch or config.batch_size,
                "lr": config.lr,
                "seed": arm.seed,
                "context": arm.context,
                "precision": config.precision,
                "log_every": config.steps,
            },
        }
    )


def _quietly(_: str) -> None:
    """Print nothing: the study has its own progress bar."""


def identities(config: SafetyGapConfig, num_traces: int = 8) -> dict[str, Identity]:
    """Parts (a) and (b) in float64 on the model's own parameters, before any training, for every context."""
    loaded = _loaded(config, config.model.name, config.inits[0])
    loaded.model.double()
    traces = GapTask(config).test_traces(loaded)[:num_traces]
    rows = {context: tokenize_all(traces, loaded.tokenizer, context=context)[0] for context in config.contexts}
    return {context: gradient_identity(loaded.model, rows[context]) for context in rows}
