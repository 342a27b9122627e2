"""[000]'s safety gap, measured: sft against masked_sft on the same traces, curves along training, behaviour at its end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from holdfast.config import TrainConfig
from holdfast.data import atomic_text, write_traces
from holdfast.models import LoadedModel, add_tokens, load
from holdfast.tokens import UNDO_TOKEN, tokenize_all
from holdfast.traces import write_made
from holdfast.training import train
from holdfast_studies.pool import in_processes
from holdfast_studies.study_folder import claim_study
from holdfast_studies.undo.safety_gap_behaviour import Behaviour, behave, behave_plainly
from holdfast_studies.undo.safety_gap_config import SafetyGapConfig
from holdfast_studies.undo.safety_gap_identity import Identity, gradient_identity
from holdfast_studies.undo.safety_gap_probe import Probe, Readings, make_probes, read
from holdfast_studies.undo.safety_gap_task import GapTask


@dataclass(frozen=True)
class Arm:
    """One training: ``plain`` is sft on the answers without errors or undo."""

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
        """For JSON."""
        return {**asdict(self), "curve": {step: reading._asdict() for step, reading in self.curve.items()}}

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> ArmResult:
        """Back from JSON."""
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
        if config.plain:
            yield Arm("plain", "soft", config.inits[0], seed)


def safety_gap(config: SafetyGapConfig, *, on_progress: Callable[[int, int], None] | None = None) -> list[ArmResult]:
    """Run what is missing of a study. Every finished training leaves a file, so that the same command goes on."""
    claim_study(config, config.run, free=("objectives", "contexts", "inits", "plain", "keep_models"))
    planned = list(arms(config))
    missing = [arm for arm in planned if not _figures(config, arm).is_file()]
    finished = len(planned) - len(missing)
    for number, _ in enumerate(in_processes(partial(_finish, config), missing, config.workers), start=finished + 1):
        if on_progress is not None:
            on_progress(number, len(planned))
    return [ArmResult.of_row(json.loads(_figures(config, arm).read_text(encoding="utf-8"))) for arm in planned]


def _figures(config: SafetyGapConfig, arm: Arm) -> Path:
    return Path(config.run) / "arms" / f"{arm.key}.json"


def _finish(config: SafetyGapConfig, arm: Arm) -> None:
    """One training; its figures are on disk when this returns."""
    result, path = run_arm(GapTask(config), arm), _figures(config, arm)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_text(path) as file:
        json.dump(result.row(), file, indent=1)
    if not config.keep_models:
        shutil.rmtree(_work_folder(config, arm))


def run_arm(task: GapTask, arm: Arm) -> ArmResult:
    """Make the traces, train, measure along the way and at the end."""
    config, folder = task.config, _work_folder(task.config, arm)
    folder.mkdir(parents=True, exist_ok=True)
    start = _loaded(config, config.model.name, arm.init)
    made = task.training_traces(arm.seed, start)
    data = folder / "traces.jsonl"
    if arm.objective == "plain":
        write_traces(data, task.train)
    else:
        write_made(data, made)
    probes = make_probes(task.test_traces(start), start.tokenizer, arm.context)  # type: ignore[arg-type]
    meter = Meter(probes, config)
    result = train(
        _train_config(task.config, arm, data, folder / "run"), say=_quietly, progress=False, callbacks=[meter]
    )
    if result.interrupted:
        raise KeyboardInterrupt
    trained = _loaded(config, str(result.model), arm.init)
    if arm.objective == "plain":
        behaviour = behave_plainly(trained, probes, task, seed=arm.seed)
    else:
        behaviour = behave(trained, probes, task, arm.context, seed=arm.seed)
    return ArmResult(arm, meter.curve, behaviour, made.error_rate)


def _work_folder(config: SafetyGapConfig, arm: Arm) -> Path:
    return Path(config.run) / "work" / arm.key


class Meter(TrainerCallback):
    """Reads the probes before training and at even distances along it."""

    def __init__(self, probes: Sequence[Probe], config: SafetyGapConfig) -> None:
        self.probes, self.batch_size = probes, config.eval_batch
        every = max(1, config.steps // config.num_measurements)
        self.steps = {0, *range(every, config.steps, every), config.steps}
        self.curve: dict[int, Readings] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The untrained model."""
        self._read(state.global_step, kwargs["model"])

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """If this step is one to look at."""
        self._read(state.global_step, kwargs["model"])

    def _read(self, step: int, model: Any) -> None:
        if step in self.steps:
            model.eval()
            self.curve[step] = read(model, self.probes, batch_size=self.batch_size)
            model.train()


def _loaded(config: SafetyGapConfig, name: str, init: str) -> LoadedModel:
    """On the device and in the precision of the study, with ``<UNDO>`` (a model that knows it keeps its own)."""
    loaded = load(name, dtype=config.model.dtype, device=config.model.device, attention=config.model.attention)
    add_tokens(loaded.model, loaded.tokenizer, (UNDO_TOKEN,), init=init)  # type: ignore[arg-type]
    return loaded


def _train_config(config: SafetyGapConfig, arm: Arm, data: Path, run: Path) -> TrainConfig:
    objective = "sft" if arm.objective == "plain" else arm.objective
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
    """The study has its own progress bar."""


def identities(config: SafetyGapConfig, num_traces: int = 8) -> dict[str, Identity]:
    """Parts (a) and (b) in float64 on the model's own parameters, before any training, for every context."""
    loaded = _loaded(config, config.model.name, config.inits[0])
    loaded.model.double()
    traces = GapTask(config).test_traces(loaded)[:num_traces]
    rows = {context: tokenize_all(traces, loaded.tokenizer, context=context)[0] for context in config.contexts}
    return {context: gradient_identity(loaded.model, rows[context]) for context in rows}
