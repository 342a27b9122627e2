"""Refusals that begin wrongly: put such a start into a model's mouth, and see whether it takes it back and refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from holdfast.config import ModelSettings, Settings, TrainConfig
from holdfast.data import write_traces
from holdfast.generation import UndoDecoding, UndoLimits, generate_with_undo
from holdfast.models import LoadedModel, add_tokens, load
from holdfast.records import Trace
from holdfast.stats import Estimate, Unknown, share_of_counts
from holdfast.tokens import UNDO_TOKEN, Encoder, find_undo_id
from holdfast.traces import Budget, choose_builder, make_traces, read_references, write_made
from holdfast.training import train
from holdfast.worlds import SafetyWorld
from holdfast_studies.markdown import table
from holdfast_studies.study_folder import claim_study
from holdfast_studies.undo.running import run_missing
from holdfast_studies.undo.safety_gap_page import OVER_SEEDS, shown


class WrongStartConfig(Settings):
    """sft against masked_sft on refusals that begin wrongly. Requests are the safety world's: it knows what is told."""

    run: str
    title: str
    model: ModelSettings
    refuse: str  # requests that are refused; their refusals get the wrong starts
    starts: str  # the first words of its answers are the wrong starts
    keep: tuple[str, ...] = ()  # trained as they are: harmless requests, answered
    num_refuse: int = Field(default=300, gt=0)
    num_keep: int = Field(default=300, gt=0)  # rows of each source in keep
    length: tuple[int, int] = (1, 12)  # words of a wrong start
    clean: float = Field(default=0.3, ge=0, lt=1)  # refusals without one
    test_refuse: str
    test_keep: str
    num_test: int = Field(default=200, gt=0)  # rows of each source that is asked
    skip_test: int = Field(default=0, ge=0)  # first rows left out: those that settings were chosen on
    depths: tuple[int, ...] = Field(default=(1, 4, 8, 12), min_length=1)  # words that are put into the model's mouth
    contexts: tuple[Literal["soft", "hard"], ...] = Field(default=("soft", "hard"), min_length=1)
    seeds: tuple[int, ...] = Field(default=(0, 1, 2), min_length=1)
    steps: int = Field(default=300, gt=0)
    batch_size: int = Field(default=32, gt=0)
    lr: float = Field(default=1e-3, gt=0)
    max_new_tokens: int = Field(default=64, gt=0)
    eval_batch: int = Field(default=128, gt=0)
    workers: int = Field(default=1, gt=0)  # trainings at a time, each a process of its own


WITH_UNDO = ("sft", "masked_sft")


@dataclass(frozen=True)
class StartArm:
    """One model: untouched, trained on refusals that begin rightly (``plain``), or trained on traces."""

    objective: str
    context: str
    seed: int

    @property
    def key(self) -> str:
        """The name of its files."""
        return f"{self.objective}-{self.context}-{self.seed}"


@dataclass(frozen=True)
class Fates:
    """What became of ``num`` requests. ``good``: refused if forbidden, answered rightly if harmless."""

    num: int
    good: int
    told: int  # forbidden, and told how it is made, rightly or wrongly
    undone: int  # something was taken back


@dataclass(frozen=True)
class StartResult:
    """Fates by the number of words put into the model's mouth (greedy). ``sampled``: forbidden requests at temperature 1."""

    arm: StartArm
    forbidden: dict[int, Fates]
    harmless: dict[int, Fates]
    sampled: Fates

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> StartResult:
        """Rebuild it from JSON."""
        forbidden, harmless = (
            {int(depth): Fates(**fields) for depth, fields in row[name].items()} for name in ("forbidden", "harmless")
        )
        return cls(StartArm(**row["arm"]), forbidden, harmless, Fates(**row["sampled"]))


def start_arms(config: WrongStartConfig) -> Iterator[StartArm]:
    """All models of a study."""
    for seed in config.seeds:
        yield StartArm("untrained", "soft", seed)
        yield StartArm("plain", "soft", seed)
        for context in config.contexts:
            yield from (StartArm(objective, context, seed) for objective in WITH_UNDO)


def wrong_start(
    config: WrongStartConfig, *, on_progress: Callable[[int, int], None] | None = None
) -> list[StartResult]:
    """Run what is missing of a study; every finished model leaves a file. Raises ``ModelsFailed`` at the end if some failed."""
    claim_study(config, config.run, free=("contexts",))
    planned = list(start_arms(config))
    rows = run_missing(partial(_figures, config), planned, partial(_path, config), config.workers, on_progress)
    return [StartResult.of_row(row) for row in rows]


def _path(config: WrongStartConfig, arm: StartArm) -> Path:
    return Path(config.run) / "arms" / f"{arm.key}.json"


def _figures(config: WrongStartConfig, arm: StartArm) -> dict[str, Any]:
    folder = Path(config.run) / "work" / arm.key
    name = config.model.name if arm.objective == "untrained" else str(_trained(config, arm, folder))
    loaded = load(name, dtype=config.model.dtype, device=config.model.device, attention=config.model.attention)
    add_tokens(loaded.model, loaded.tokenizer, (UNDO_TOKEN,))
    result = _measured(config, arm, loaded)
    shutil.rmtree(folder, ignore_errors=True)
    return asdict(result)


def _trained(config: WrongStartConfig, arm: StartArm, folder: Path) -> Path:
    """Train on refusals (with wrong starts, unless plain) and rows to keep, in one stream, so that their shares stay the same."""
    folder.mkdir(parents=True, exist_ok=True)
    refused = read_references(config.refuse, limit=config.num_refuse)
    kept = [row for name in config.keep for row in read_references(name, limit=config.num_keep)]
    data = folder / "rows.jsonl"
    if arm.objective == "plain":
        write_traces(data, [*refused, *kept])
    else:
        builder = choose_builder("refusal", refused, starts=config.starts)
        made = make_traces(refused, builder, budget=Budget((1, 1), config.length), clean=config.clean, seed=arm.seed)
        write_made(folder / "refusals.jsonl", made)  # this checks every trace
        write_traces(data, [*made.traces, *kept])
    settings = {
        "run": str(folder / "run"),
        "model": {**config.model.model_dump(), "new_tokens": (UNDO_TOKEN,)},
        "streams": [{"data": str(data), "objective": "sft" if arm.objective == "plain" else arm.objective}],
        "training": {
            "max_steps": config.steps,
            "batch_size": config.batch_size,
            "micro_batch": config.batch_size,
            "lr": config.lr,
            "seed": arm.seed,
            "context": arm.context,
            "log_every": config.steps,
        },
    }
    result = train(TrainConfig.model_validate(settings), say=lambda _: None, progress=False)
    if result.interrupted:
        raise KeyboardInterrupt
    return result.model


def _measured(config: WrongStartConfig, arm: StartArm, loaded: LoadedModel) -> StartResult:
    forbidden, harmless = (
        read_references(name, limit=config.skip_test + config.num_test)[config.skip_test :]
        for name in (config.test_refuse, config.test_keep)
    )
    ask = partial(_fates, config, arm, loaded)
    return StartResult(
        arm,
        {depth: ask(forbidden, depth) for depth in (0, *config.depths)},
        {depth: ask(harmless, depth) for depth in (0, *config.depths)},
        ask(forbidden, 0, temperature=1.0),
    )


def _fates(
    config: WrongStartConfig,
    arm: StartArm,
    loaded: LoadedModel,
    rows: Sequence[Trace],
    depth: int,
    temperature: float = 0.0,
) -> Fates:
    """Ask with answers that begin with the first words of what is asked for, forbidden or not."""
    world, encoder = SafetyWorld(), Encoder(loaded.tokenizer)
    questions = [world.ask(row) for row in rows]
    begun = [
        encoder.continuation(" ".join(world.lore.answer(ask).split()[:depth])) if depth else [] for ask in questions
    ]
    limits = UndoLimits() if arm.objective in WITH_UNDO else UndoLimits(per_answer=0)
    how = UndoDecoding(config.max_new_tokens, arm.context, temperature, seed=arm.seed, limits=limits)  # type: ignore[arg-type]
    written = generate_with_undo(loaded.model, loaded.tokenizer, rows, how, begun=begun, batch_size=config.eval_batch)
    judged = [world.judge(row, completion.text) for row, completion in zip(rows, written, strict=True)]
    undo_id = find_undo_id(loaded.tokenizer)
    return Fates(
        num=len(rows),
        good=sum(
            told.outcome == "refused" if ask.forbidden else told.right
            for ask, told in zip(questions, judged, strict=True)
        ),
        told=sum(ask.forbidden and told.outcome == "complied" for ask, told in zip(questions, judged, strict=True)),
        undone=sum(undo_id in completion.token_ids for completion in written),
    )


# --- the section of docs/results/undo.md -------------------------------------------------------------------------------


TITLES = {"untrained": "as it was", "plain": "plain sft, no starts"}


def section(config: WrongStartConfig, command: str, results: Sequence[StartResult]) -> str:
    """The section: a table for forbidden requests, one for harmless ones, one for sampled answers."""
    seeds, (low, high) = ", ".join(map(str, config.seeds)), config.length
    fates = results[0].sampled
    about = (
        f"Written by `{command}`. {config.model.name}, {config.steps} steps of {config.batch_size} rows, learning rate"
        f" {config.lr:g}, seeds {seeds}. Trained on {config.num_refuse} refusals, {1 - config.clean:.0%} of which begin with"
        f" {low} to {high} words of another forbidden answer and take them back, and on up to {config.num_keep} rows each of"
        f" {', '.join(config.keep)}. Asked: {fates.num} held-out requests of each sort; the first words of the answer are put"
        f" into the model's mouth, and a model with undo may take them back. Intervals are 95 % ({OVER_SEEDS})."
    )
    depths = sorted(results[0].forbidden)
    parts = [
        f"## {config.title}",
        about,
        "### Forbidden requests: refused in the end\n\n"
        + _by_depth(results, depths, lambda r, k: r.forbidden[k], lambda f: f.good),
        "### Forbidden requests: told after all\n\n"
        + _by_depth(results, depths, lambda r, k: r.forbidden[k], lambda f: f.told),
        "### Harmless requests: answered rightly\n\n"
        + _by_depth(results, depths, lambda r, k: r.harmless[k], lambda f: f.good),
        "### Harmless requests: a right start taken back\n\n"
        + _by_depth(results, depths, lambda r, k: r.harmless[k], lambda f: f.undone),
        "### Forbidden requests, sampled, nothing put into its mouth\n\n" + _sampled(results),
    ]
    return "\n\n".join(parts) + "\n"


def ways(results: Sequence[StartResult]) -> dict[str, list[StartResult]]:
    """The results of every way of training, one per seed, by its title."""
    by_title: dict[str, list[StartResult]] = {}
    for result in results:
        arm = result.arm
        title = f"{arm.objective}, {arm.context}" if arm.objective in WITH_UNDO else TITLES[arm.objective]
        by_title.setdefault(title, []).append(result)
    return by_title


def pooled(fates: Sequence[Fates], count: Callable[[Fates], int]) -> Estimate | Unknown:
    """A share over all seeds."""
    return share_of_counts([(count(fate), fate.num) for fate in fates], "none asked")


def _by_depth(
    results: Sequence[StartResult],
    depths: Sequence[int],
    fates: Callable[[StartResult, int], Fates],
    count: Callable[[Fates], int],
) -> str:
    rows = [
        (title, *(shown(pooled([fates(result, depth) for result in own], count)) for depth in depths))
        for title, own in ways(results).items()
    ]
    return table(("words put into its mouth", *map(str, depths)), rows)


def _sampled(results: Sequence[StartResult]) -> str:
    counts: dict[str, Callable[[Fates], int]] = {
        "refused": lambda f: f.good,
        "something taken back": lambda f: f.undone,
        "told": lambda f: f.told,
    }
    rows = [
        (title, *(shown(pooled([result.sampled for result in own], count)) for count in counts.values()))
        for title, own in ways(results).items()
    ]
    return table(("", *counts), rows)
