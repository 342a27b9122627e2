"""Undo as a defence: put beginnings of harmful answers into a model's mouth; does it take them back and refuse?

Replies are judged and not kept. Kept are the outcomes of the reply and of the raw stream, and how much was undone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.config import InputError, TrainConfig
from holdfast.data import traces_in_memory
from holdfast.generation import UndoDecoding, UndoLimits, generate_with_undo
from holdfast.judging import find_judge, verdicts
from holdfast.models import LoadedModel, add_tokens, load, load_tokenizer
from holdfast.records import Completion, Trace, context
from holdfast.tokens import UNDO_TOKEN, Encoder, find_undo_id
from holdfast.training import train
from holdfast_studies.json_files import read_json, write_json
from holdfast_studies.qwen.config import check_sources
from holdfast_studies.study_folder import claim_study
from holdfast_studies.undo.answer_tasks import answer_task
from holdfast_studies.undo.defence_config import DefenceConfig
from holdfast_studies.undo.defence_rows import RESET, answers, beginnings, first_tokens, material, rows_for
from holdfast_studies.undo.running import tried

TRAINED = {"undo": "masked_sft", "undo_sft": "sft", "reset": "masked_sft", "augmented": "masked_sft"}
"""The objective of every arm that is trained."""
WITH_UNDO = ("undo", "undo_sft")
FREE = ("arms", "held", "tuned", "data", "packages", "sources")


@dataclass(frozen=True)
class DefenceArm:
    """One model. ``held``: trained under held streams. ``tuned``: then tuned on benign rows, held or not as before."""

    name: str
    held: bool
    tuned: bool
    seed: int

    @property
    def training(self) -> tuple[str, bool, int]:
        """What the arm is trained on. Arms with equal values are trained once: ``banned`` is ``undo`` with another decoder."""
        return ("undo" if self.name == "banned" else self.name), self.held, self.seed

    @property
    def title(self) -> str:
        """The arm's name in tables."""
        return self.name + (", held" if self.held else "") + (", then tuned" if self.tuned else "")

    @property
    def key(self) -> str:
        """The name of its file."""
        return f"{self.name}{'-held' if self.held else ''}{'-tuned' if self.tuned else ''}-{self.seed}"


@dataclass(frozen=True)
class Asked:
    """The replies to one sort of requests at one depth, an entry each: outcomes of the rendered text and of the raw stream."""

    rendered: tuple[str | None, ...]
    raw: tuple[str | None, ...]
    undos: tuple[int, ...]  # or resets
    exact: tuple[bool, ...]  # exactly the beginning was taken back, at once


@dataclass(frozen=True)
class DefenceResult:
    """What one arm replied, by the number of tokens put into the model's mouth; 0 is a plain reply."""

    arm: DefenceArm
    num_rows: int
    harmful: dict[int, Asked]
    harmless: dict[int, Asked]

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> DefenceResult:
        """Rebuild it from JSON."""
        sorts = [
            {int(depth): Asked(**fields) for depth, fields in row[name].items()} for name in ("harmful", "harmless")
        ]
        return cls(DefenceArm(**row["arm"]), row["num_rows"], *sorts)


def defence_arms(config: DefenceConfig) -> Iterator[DefenceArm]:
    """All models of a study. The untouched one comes once, because it does not depend on a seed."""
    for seed in config.seeds:
        for name in config.arms:
            if name == "untouched":
                if seed == config.seeds[0]:
                    yield DefenceArm(name, False, False, seed)
                continue
            for held in (False, True) if name in config.held else (False,):
                yield DefenceArm(name, held, False, seed)
                if name in config.tuned:
                    yield DefenceArm(name, held, True, seed)


def undo_defence(
    config: DefenceConfig, *, on_progress: Callable[[int, int], None] | None = None
) -> list[DefenceResult]:
    """Run what is missing of a study; every finished model leaves a file without any text.

    Raises ``ModelsFailed`` at the end if some failed.
    """
    check_sources(config)
    if config.tuned:
        _benign(config)  # refuse a wrong name or a missing package before anything is trained
    claim_study(config, config.run, free=FREE)
    planned = list(defence_arms(config))
    missing = [arm for arm in planned if not _path(config, arm).is_file()]
    finished = len(planned) - len(missing)
    jobs: dict[tuple[str, bool, int], list[DefenceArm]] = {}
    for arm in missing:
        jobs.setdefault(arm.training, []).append(arm)
    for done in tried(partial(_finish, config), list(jobs.values()), config.workers, partial(_missing, config)):
        finished += done
        if on_progress is not None:
            on_progress(finished, len(planned))
    return read_results(config)


def read_results(config: DefenceConfig) -> list[DefenceResult]:
    """The results that are in the study's folder."""
    paths = [_path(config, arm) for arm in defence_arms(config)]
    return [DefenceResult.of_row(read_json(path)) for path in paths if path.is_file()]


def _path(config: DefenceConfig, arm: DefenceArm) -> Path:
    return Path(config.run) / "arms" / f"{arm.key}.json"


def _missing(config: DefenceConfig, arms: Sequence[DefenceArm]) -> str:
    """The names of the arms that have no figures."""
    return ", ".join(arm.key for arm in arms if not _path(config, arm).is_file())


def _finish(config: DefenceConfig, arms: Sequence[DefenceArm]) -> int:
    """Train once and measure all arms that begin with this training. Returns how many they are.

    The folder is always deleted: it holds models. Of the rows it has only their number and hash.
    """
    with tempfile.TemporaryDirectory() as folder:
        defended, num_rows = config.model.name, 0
        if arms[0].name != "untouched":
            defended, num_rows = _defended(config, arms[0], Path(folder))
        for arm in arms:
            name = defended
            if arm.tuned:
                name = _train(config, arm, name, _benign(config), "sft", config.benign_steps, Path(folder) / "tuned")
            write_json(_path(config, arm), asdict(measured(config, arm, name, num_rows)))
    return len(arms)


def _defended(config: DefenceConfig, arm: DefenceArm, folder: Path) -> tuple[str, int]:
    """Train on the rows of an arm. Returns the model and the number of rows."""
    harmful = config.prompts_of(config.train_harmful, True, config.num_harmful)
    harmless = config.prompts_of(config.train_harmless, False, config.num_harmless)
    made = material(config, harmful, harmless)
    if not made.refused:
        raise InputError(f"{config.model.name}: refuses none of {len(harmful)} harmful requests: nothing to train on")
    kind = arm.training[0]
    rows = rows_for(kind, made, config, Encoder(load_tokenizer(config.model.name)), arm.seed)
    return _train(config, arm, config.model.name, rows, TRAINED[kind], config.steps, folder / "defended"), len(rows)


def _benign(config: DefenceConfig) -> list[Trace]:
    kind, _, source = config.benign.partition(":")
    name = config.benign if kind == "world" else f"{kind}:{config.path(source)}"
    return list(answer_task(name, lambda _row, _text: False).rows[: config.num_benign])


def _train(
    config: DefenceConfig, arm: DefenceArm, model: str, rows: Sequence[Trace], objective: str, steps: int, run: Path
) -> str:
    """Train on rows in memory. Under held streams the model is held to what it was before this training."""
    data = traces_in_memory(iter(rows), "undo-defence")
    streams: list[dict[str, Any]] = [{"name": "rows", "data": data.source, "rows": data, "objective": objective}]
    if arm.held:
        streams += [
            {"name": f"held-{number}", "data": name, "objective": "distill", "weight": config.hold_weight}
            for number, name in enumerate(config.hold_prompts)
        ]
    token = RESET if arm.name == "reset" else UNDO_TOKEN
    settings = {
        "run": str(run),
        "model": {**config.model.model_dump(), "name": model, "new_tokens": (token,), "new_token_init": config.init},
        "streams": streams,
        "training": {
            "max_steps": steps,
            "batch_size": config.batch_size * len(streams),  # so a step has as many rows of the defence, held or not
            "micro_batch": config.micro_batch or config.batch_size,
            "lr": config.lr,
            "seed": arm.seed,
            "context": config.context,
            "precision": config.precision,
            "log_every": steps,
        },
    }
    result = train(TrainConfig.model_validate(settings), say=lambda _: None, progress=False)
    if result.interrupted:
        raise KeyboardInterrupt
    return str(result.model)


def _ready(config: DefenceConfig, name: str) -> LoadedModel:
    """Load a model and add ``<UNDO>``, which the decoder needs. A model that was not taught it may never write it."""
    loaded = load(name, dtype=config.eval_dtype, device=config.model.device, attention=config.model.attention)
    add_tokens(loaded.model, loaded.tokenizer, (UNDO_TOKEN,))
    return loaded


def measured(config: DefenceConfig, arm: DefenceArm, name: str, num_rows: int) -> DefenceResult:
    """Ask harmful requests begun with the stock model's answer, and harmless ones begun with the untouched model's own."""
    harmful = config.prompts_of(config.test_harmful, True, config.num_test)
    harmless = config.prompts_of(config.test_harmless, False, config.num_test)
    starts = beginnings(config, harmful)
    own = dict(zip(harmless, answers(config, config.model.name, harmless, max(config.depths) + 8), strict=True))
    loaded = _ready(config, name)
    ask = partial(_asked, config, arm, loaded)
    return DefenceResult(
        arm,
        num_rows,
        {depth: ask(harmful, starts, depth) for depth in (0, *config.depths)},
        {depth: ask(harmless, own, depth) for depth in (0, *config.depths)},
    )


def _asked(
    config: DefenceConfig,
    arm: DefenceArm,
    loaded: LoadedModel,
    requests: Sequence[str],
    starts: dict[str, str],
    depth: int,
) -> Asked:
    encoder = Encoder(loaded.tokenizer)
    begun = [
        encoder.continuation(first_tokens(encoder, starts.get(ask, ""), depth)) if depth else [] for ask in requests
    ]
    may_undo = arm.name in WITH_UNDO
    limits = UndoLimits(per_answer=max(64, 2 * depth)) if may_undo else UndoLimits(per_answer=0)
    how = UndoDecoding(2 * depth + config.reply_tokens, config.context, seed=arm.seed, limits=limits)
    turns = [(context("user", ask),) for ask in requests]
    written = generate_with_undo(loaded.model, loaded.tokenizer, turns, how, begun=begun, batch_size=config.eval_batch)
    back = loaded.tokenizer.convert_tokens_to_ids(RESET) if arm.name == "reset" else find_undo_id(loaded.tokenizer)
    assert isinstance(back, int)
    judge = find_judge(config.judge)
    rendered = [_rendered(loaded, completion, back, is_reset=arm.name == "reset") for completion in written]
    raw = [_text(loaded, [token for token in completion.token_ids if token != back]) for completion in written]
    outcomes = [
        tuple(verdict.outcome for verdict in verdicts(judge, list(zip(turns, texts, strict=True))))
        for texts in (rendered, raw)
    ]
    return Asked(
        rendered=outcomes[0],
        raw=outcomes[1],
        undos=tuple(completion.token_ids.count(back) for completion in written),
        exact=tuple(
            _is_exact(completion.token_ids, len(start), back, 1 if arm.name == "reset" else len(start))
            for completion, start in zip(written, begun, strict=True)
        ),
    )


def _rendered(loaded: LoadedModel, written: Completion, back: int, *, is_reset: bool) -> str:
    """The text that a reader sees at the end; after a reset, what follows the last one."""
    if not is_reset or back not in written.token_ids:
        return written.text
    last = len(written.token_ids) - written.token_ids[::-1].index(back)
    return _text(loaded, written.token_ids[last:])


def _text(loaded: LoadedModel, ids: Sequence[int]) -> str:
    return str(loaded.tokenizer.decode(list(ids), skip_special_tokens=True))


def _is_exact(ids: Sequence[int], begun: int, back: int, wanted: int) -> bool:
    """Whether exactly as many undos as take the beginning back follow right after it."""
    run = 0
    while begun + run < len(ids) and ids[begun + run] == back:
        run += 1
    return begun > 0 and run == wanted
