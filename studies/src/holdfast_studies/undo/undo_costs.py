"""What a price on taking back does: GRPO from one model for several costs, accuracy against undos."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from holdfast.config import GrpoSettings, ModelSettings, RlConfig, Settings
from holdfast.generation import UndoDecoding, UndoUse, generate_with_undo, total, undo_use
from holdfast.models import load
from holdfast.records import Reply, Role, Trace
from holdfast.stats import Estimate, Unknown, share_of_counts
from holdfast.tokens import find_undo_id, tokenize_all
from holdfast.traces import read_references
from holdfast.training import RlPrompt, UndoRl, train_rl
from holdfast_studies.markdown import table
from holdfast_studies.study_folder import claim_study
from holdfast_studies.undo.running import run_missing
from holdfast_studies.undo.safety_gap_page import OVER_SEEDS, shown
from holdfast_studies.undo.safety_gap_task import right_by


class UndoCostsConfig(Settings):
    """GRPO from the same model for every cost of an undo."""

    run: str
    title: str
    model: ModelSettings  # knows <UNDO>: the result of a training on traces
    train: str  # requests with their right answers: any name that `holdfast traces make` takes
    test: str
    num_train: int = Field(default=400, gt=0)
    num_test: int = Field(default=200, gt=0)
    costs: tuple[float, ...] = Field(default=(0.0, 0.02, 0.1, 0.3), min_length=1)
    context: Literal["soft", "hard"] = "soft"
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    workers: int = Field(default=1, gt=0)  # trainings at a time, each a process of its own
    rl: GrpoSettings


@dataclass(frozen=True)
class CostResult:
    """Sampled answers, at the temperature of training, of a model that paid ``cost`` per undo. None is the model before RL."""

    cost: float | None
    seed: int
    num: int
    right: int
    use: UndoUse

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> CostResult:
        """Rebuild it from JSON."""
        return cls(**{**row, "use": UndoUse(**row["use"])})


def undo_costs(config: UndoCostsConfig, *, on_progress: Callable[[int, int], None] | None = None) -> list[CostResult]:
    """Run what is missing; every finished run leaves a file. Raises ``ModelsFailed`` at the end if some failed."""
    claim_study(config, config.run, free=("costs",))
    planned = [(cost, seed) for cost in (None, *config.costs) for seed in config.seeds]
    rows = run_missing(partial(_figures, config), planned, partial(_path, config), config.workers, on_progress)
    return [CostResult.of_row(row) for row in rows]


def _path(config: UndoCostsConfig, cost_and_seed: tuple[float | None, int]) -> Path:
    cost, seed = cost_and_seed
    return Path(config.run) / "costs" / f"{'before' if cost is None else cost}-{seed}.json"


def _figures(config: UndoCostsConfig, cost_and_seed: tuple[float | None, int]) -> dict[str, Any]:
    cost, seed = cost_and_seed
    model = config.model.name
    if cost is not None:
        model = str(_refined(config, cost, seed, read_references(config.train, limit=config.num_train)))
    return asdict(_measured(config, cost, seed, model, read_references(config.test, limit=config.num_test)))


def _refined(config: UndoCostsConfig, cost: float, seed: int, rows: Sequence[Trace]) -> Path:
    right = right_by(config.train)

    def reward(replies: Sequence[Reply]) -> list[float]:
        return [
            float(reply.finish_reason == "stop" and right(rows[int(reply.reference)], reply.text)) for reply in replies
        ]

    settings = {
        "run": str(Path(config.run) / f"cost-{cost}-{seed}"),
        "model": config.model.model_dump(),
        "data": config.train,
        "rl": {**config.rl.model_dump(), "seed": seed},
    }
    # The answer is the number of its row, so that the row can be found again: two requests may have the same answer.
    prompts = [RlPrompt(row.turns[0].visible, str(number)) for number, row in enumerate(rows)]
    undo = UndoRl(cost=cost, context=config.context)
    return train_rl(RlConfig.model_validate(settings), prompts, reward, undo=undo, say=lambda _: None)


def _measured(config: UndoCostsConfig, cost: float | None, seed: int, model: str, rows: Sequence[Trace]) -> CostResult:
    loaded = load(model, dtype=config.model.dtype, device=config.model.device)
    how = UndoDecoding(config.rl.max_new_tokens, config.context, config.rl.temperature, seed=seed)
    written = generate_with_undo(loaded.model, loaded.tokenizer, rows, how)
    undo_id, right = find_undo_id(loaded.tokenizer), right_by(config.test)
    assert undo_id is not None
    tokenized, _ = tokenize_all(rows, loaded.tokenizer)
    answers = [[i for i, role in zip(row.ids, row.roles, strict=True) if role != Role.PROMPT][:-1] for row in tokenized]
    use = total(undo_use(completion.token_ids, ids, undo_id) for completion, ids in zip(written, answers, strict=True))
    hits = sum(right(row, completion.text) for row, completion in zip(rows, written, strict=True))
    return CostResult(cost, seed, len(rows), hits, use)


MEASURES: dict[str, Callable[[CostResult], tuple[int, int]]] = {
    "right": lambda r: (r.right, r.num),
    "answers with an error": lambda r: (r.use.answers_with_error, r.use.answers),
    "precision (undone tokens that were wrong)": lambda r: (r.use.undone_wrong, r.use.undos),
    "recall (errors that were undone)": lambda r: (r.use.errors_undone, r.use.errors),
    "false undos, clean answers": lambda r: (r.use.clean_answers_undone, r.use.answers - r.use.answers_with_error),
}


def cost_table(results: Sequence[CostResult]) -> list[dict[str, Any]]:
    """One row per cost, seeds pooled: undos per answer, and shares with their intervals."""
    rows = []
    for cost in dict.fromkeys(result.cost for result in results):
        own = [result for result in results if result.cost == cost]
        row: dict[str, Any] = {"cost": "before" if cost is None else cost}
        row["undos per answer"] = sum(result.use.undos for result in own) / sum(result.use.answers for result in own)
        rows.append(row | {name: _share(own, count) for name, count in MEASURES.items()})
    return rows


def _share(results: Sequence[CostResult], count: Callable[[CostResult], tuple[int, int]]) -> Estimate | Unknown:
    return share_of_counts([count(result) for result in results], "none seen")


# --- the section of docs/results/undo.md -------------------------------------------------------------------------------


def section(config: UndoCostsConfig, command: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The section: the command, and a row per cost."""
    rl, seeds = config.rl, ", ".join(map(str, config.seeds))
    about = (
        f"Written by `{command}`. GRPO through TRL from {config.model.name}, {config.context} context: {rl.steps} steps of"
        f" {rl.prompts_per_step} requests x {rl.group} answers, learning rate {rl.lr:g}, seeds {seeds}; reward 1 for a right"
        f" final answer, less the cost of every undo. {config.num_test} held-out requests, sampled; intervals are 95 %"
        f" ({OVER_SEEDS})."
    )
    header = list(rows[0])
    lines = [[_cell(row[name]) for name in header] for row in rows]
    return f"## {config.title}\n\n{about}\n\n{table(header, lines)}\n"


def _cell(value: Any) -> str:
    return (
        shown(value) if isinstance(value, Estimate | Unknown) else value if isinstance(value, str) else f"{value:.3g}"
    )
